"""Retrieval: a few of the held samples are drawn anew for every gradient step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from taskfree._core import validation
from taskfree.which.rows import PriorityRows

RATIO = 2
"""How many samples are replayed for each new one, by default."""


class DrawnRows(PriorityRows):
    """A buffer that replays `replay` of its samples, drawn by its own random generator.

    So the cost of a step does not grow with the capacity, and the draws neither disturb nor follow
    the model's random numbers.
    """

    def __init__(self, capacity: int, replay: int | None = None, seed: int = 0) -> None:
        super().__init__(capacity)
        self.replay = None if replay is None else validation.integer("replay", replay, least=1)
        self._generator = (
            torch.Generator().manual_seed(validation.integer("seed", seed, least=0)).get_state()
        )

    def _draw(self) -> Tensor | None:
        count = RATIO * self._new if self.replay is None else self.replay
        if count >= len(self):
            return None
        return self._random(lambda generator: draw(count, len(self), generator))

    def _random(self, draw: Callable[[torch.Generator], Tensor]) -> Tensor:
        """Draw with the generator. Its state is an attribute, so that a failed step is undone."""
        generator = torch.Generator()
        generator.set_state(self._generator)
        drawn = draw(generator)
        self._generator = generator.get_state()
        return drawn

    def state_dict(self) -> dict[str, Tensor]:
        """The held samples, their losses and priorities, and the generator."""
        return super().state_dict() | {"generator": self._generator}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        generator = state.get("generator", self._generator).cpu().clone()
        super().load_state_dict(state)
        self._generator = generator


def draw(count: int, among: int, generator: torch.Generator) -> Tensor:
    """`count` distinct numbers below `among`, at a cost that does not grow with `among`.

    >>> numbers = draw(3, 1000, torch.Generator().manual_seed(0))
    >>> len(set(numbers.tolist())), int(numbers.max()) < 1000
    (3, True)
    """
    if 4 * count < among:
        found = torch.randint(among, (2 * count,), generator=generator).tolist()
        distinct = list(dict.fromkeys(found))[:count]
        if len(distinct) == count:
            return torch.tensor(distinct)
    return torch.randperm(among, generator=generator)[:count]
