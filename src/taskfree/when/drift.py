"""Concept drift detectors of other libraries, such as river's, as triggers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor

from taskfree._core import validation
from taskfree._core.serialization import load_fields, save_fields
from taskfree.when.trigger import Decision, Explanation

__all__ = ["Drift"]

MEMORY = 1000
"""After this many losses a detector is restarted on the later half of them."""
STATE = ("armed", "since", "_losses")


class Detector(Protocol):
    """The interface of a drift detector, as river's ADWIN, PageHinkley and KSWIN have it."""

    @property
    def drift_detected(self) -> bool:
        """Whether the last update detected a change."""

    def update(self, value: float) -> Any:
        """Take a value."""

    def clone(self) -> Any:
        """A new detector with the same settings."""


class Drift:
    """Consolidate a fixed number of steps after each detected change, and after the start.

    A drift detector says when the stream has changed, not when the change has been learned. This
    trigger assumes that learning takes `after` time steps. The detector restarts after a change.

    Args:
        detector: for example `river.drift.ADWIN()`; a randomized one needs a fixed seed.
        after: how many time steps the learner gets for a change.

    >>> from river import drift
    >>> trigger = Drift(drift.ADWIN(), after=3)
    >>> [trigger.update(1.0) for _ in range(4)]
    [None, None, 'plateau', None]
    """

    window_mean = math.nan

    def __init__(self, detector: Detector, after: int = 60) -> None:
        self.after = validation.integer("after", after, least=1)
        self.armed = True
        self.since = 0
        self._new = detector
        self._losses: tuple[float, ...] = ()
        """The losses since the detector was started, which are the state of any detector."""
        self._running: list[Any] = [detector.clone(), 0]

    def update(self, loss: float) -> Decision | None:
        """Take the loss of one time step and decide."""
        if self._running[1] != len(self._losses):  # a step was undone, or a state was loaded
            self._start(self._losses)
        detector = self._running[0]
        self._running[1] += 1  # in place: undoing a step does not undo this
        detector.update(loss)
        self._losses = (*self._losses, loss)
        self.since += 1
        if detector.drift_detected:
            self.since = 0
            self._start(())
            peak, self.armed = not self.armed, True
            return "peak" if peak else None
        if len(self._losses) == MEMORY:
            self._start(self._losses[MEMORY // 2 :])
        if self.armed and self.since >= self.after:
            self.armed = False
            return "plateau"
        return None

    def _start(self, losses: tuple[float, ...]) -> None:
        detector = self._new.clone()
        for loss in losses:
            detector.update(loss)
        self._losses, self._running = losses, [detector, len(losses)]

    def explain(self, decision: Decision | None) -> Explanation:
        """How long ago the last change was detected."""
        name = type(self._new).__name__
        if decision == "peak":
            return Explanation(f"{name} detected a change of the loss")
        return Explanation(f"{self.since} steps since {name} detected a change or was started")

    def state_dict(self) -> dict[str, Tensor]:
        """What the detector was fed, and how long ago the last change was."""
        return save_fields(self, STATE)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        load_fields(self, STATE, state)
        self._running = [None, -1]
