"""A uniform sample of the stream."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from taskfree._core import validation
from taskfree.which.rows import PriorityRows


class Reservoir(PriorityRows):
    """Reservoir sampling: a uniform random sample of the whole stream so far.

    Every sample draws a random number once, and the largest numbers stay. The buffer has its own
    random generator, so its draws neither disturb nor follow the model's.

    Vitter, *Random Sampling with a Reservoir*, ACM TOMS 1985.

    Args:
        capacity: how many samples it holds at most.
        seed: of the buffer's random generator.

    >>> buffer = Reservoir(2, seed=1)
    >>> x, y = buffer.join(torch.arange(100.0), torch.zeros(100))
    >>> buffer.update(torch.zeros(100))
    >>> len(buffer)
    2
    """

    def __init__(self, capacity: int, seed: int = 0) -> None:
        super().__init__(capacity)
        self._generator = (
            torch.Generator().manual_seed(validation.integer("seed", seed, least=0)).get_state()
        )

    def _priorities(self, losses: Tensor, new: int) -> Tensor:
        generator = torch.Generator()
        generator.set_state(self._generator)
        drawn = torch.rand(new, dtype=torch.float64, generator=generator)
        self._generator = generator.get_state()
        return torch.cat([self._priority, drawn]) if len(self) else drawn

    def state_dict(self) -> dict[str, Tensor]:
        """The held samples, their random numbers, and the generator."""
        return super().state_dict() | {"generator": self._generator}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        generator = state["generator"].cpu().clone()
        super().load_state_dict(state)
        self._generator = generator
