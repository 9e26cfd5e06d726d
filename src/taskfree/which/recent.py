"""The newest samples."""

from __future__ import annotations

import torch
from torch import Tensor

from taskfree.which.drawn import DrawnRows


class Recent(DrawnRows):
    """The newest samples: first in, first out.

    Args:
        capacity: how many samples it holds at most.
        replay: how many of them each gradient step replays; None for twice the number of new
            samples. All are replayed while it holds no more than that.
        seed: of the buffer's random generator, which draws the samples to replay.

    >>> buffer = Recent(2)
    >>> x, y = buffer.join(torch.arange(5.0), torch.zeros(5))
    >>> buffer.update(torch.zeros(5))
    >>> buffer.inputs
    tensor([3., 4.])
    """

    def _priorities(self, losses: Tensor, new: int) -> Tensor:
        del losses
        newest = int(self._priority.max()) if len(self) else -1
        numbers = torch.arange(newest + 1, newest + 1 + new)
        return torch.cat([self._priority.long(), numbers]) if len(self) else numbers
