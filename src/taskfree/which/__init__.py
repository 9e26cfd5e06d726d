"""WHICH samples to keep: buffers for experience replay.

In each time step a buffer joins the new samples to those it holds, for one pass over both. Given
the losses of all of them, it keeps at most `capacity`. The held samples are replayed in
every step and are what importance is estimated on.
"""

from taskfree.which.buffer import Buffer
from taskfree.which.hardest import Hardest
from taskfree.which.recent import Recent
from taskfree.which.reservoir import Reservoir

__all__ = ["Buffer", "Hardest", "Recent", "Reservoir"]
