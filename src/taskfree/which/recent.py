"""The newest samples."""

from __future__ import annotations

import torch
from torch import Tensor

from taskfree.which.rows import PriorityRows


class Recent(PriorityRows):
    """The newest samples: first in, first out.

    Args:
        capacity: how many samples it holds at most.

    >>> buffer = Recent(2)
    >>> x, y = buffer.join(torch.arange(5.0), torch.zeros(5))
    >>> buffer.update(torch.zeros(5))
    >>> buffer.inputs
    tensor([3., 4.])
    """

    def _priorities(self, losses: Tensor, new: int) -> Tensor:
        newest = int(self._priority.max()) if len(self) else -1
        numbers = torch.arange(newest + 1, newest + 1 + new)
        return torch.cat([self._priority.long(), numbers]) if len(self) else numbers
