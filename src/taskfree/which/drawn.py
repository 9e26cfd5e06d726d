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

    The rows are shuffled and drawn in turn, so that each is replayed equally often. The cost of a
    step does not grow with the capacity, and the draws neither disturb nor follow the model's
    random numbers.
    """

    def __init__(self, capacity: int, replay: int | None = None, seed: int = 0) -> None:
        super().__init__(capacity)
        self.replay = None if replay is None else validation.integer("replay", replay, least=1)
        self._generator = (
            torch.Generator().manual_seed(validation.integer("seed", seed, least=0)).get_state()
        )
        self._order = torch.empty(0, dtype=torch.long)
        self._next = 0

    def _draw(self) -> Tensor | None:
        count = RATIO * self._new if self.replay is None else self.replay
        if count >= len(self):
            return None
        if self._next + count > len(self._order):  # all had their turn: shuffle again
            self._order, self._next = self._random(self._shuffle), 0
        drawn = self._order[self._next : self._next + count]
        self._next += count
        return drawn

    def _shuffle(self, generator: torch.Generator) -> Tensor:
        return torch.randperm(len(self), generator=generator)

    def _random(self, draw: Callable[[torch.Generator], Tensor]) -> Tensor:
        """Draw with the generator. Its state is an attribute, so that a failed step is undone."""
        generator = torch.Generator()
        generator.set_state(self._generator)
        drawn = draw(generator)
        self._generator = generator.get_state()
        return drawn

    def state_dict(self) -> dict[str, Tensor]:
        """The held samples, their losses and priorities, the generator and the order of draws."""
        return super().state_dict() | {
            "generator": self._generator,
            "order": self._order[self._next :],
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        generator = state.get("generator", self._generator).cpu().clone()
        order = state.get("order", self._order[:0]).cpu().clone()
        super().load_state_dict(state)
        self._generator, self._order, self._next = generator, order, 0
