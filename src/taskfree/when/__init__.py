"""WHEN to consolidate: triggers that watch the loss.

A trigger takes one loss per time step and answers `"plateau"` (consolidate now), `"peak"` (new,
harder data has arrived: watch for the next plateau) or None. Its state does not grow with the
stream. `taskfree.when.drift.Drift` wraps drift detectors of other libraries.
"""

from taskfree.when.plateau import Plateau
from taskfree.when.relative import RelativePlateau
from taskfree.when.schedule import At, Every, Never
from taskfree.when.settled import Settled
from taskfree.when.trigger import Decision, Explanation, Trigger

__all__ = [
    "At",
    "Decision",
    "Every",
    "Explanation",
    "Never",
    "Plateau",
    "RelativePlateau",
    "Settled",
    "Trigger",
]
