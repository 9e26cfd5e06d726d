"""WHICH samples to keep: buffers for experience replay.

A buffer stores at most `capacity` samples of the stream. In every gradient step it retrieves some
of them, to be replayed together with the new ones. The held samples are also what importance is
estimated on.
"""

from taskfree.which.buffer import Buffer
from taskfree.which.class_balanced import ClassBalanced
from taskfree.which.hardest import Hardest
from taskfree.which.recent import Recent
from taskfree.which.reservoir import Reservoir

__all__ = ["Buffer", "ClassBalanced", "Hardest", "Recent", "Reservoir"]
