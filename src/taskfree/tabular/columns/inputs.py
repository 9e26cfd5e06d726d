"""The inputs of a network: columns take them as they need them, and their number grows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from taskfree.tabular.scaler import LIMIT, RunningScaler

ABSENT = 1e100
"""The value of an input that a row does not have; the network sees 0."""
LARGEST = 1e90
"""Numbers are clipped to plus or minus this."""
SPARE = 1.25
"""Room for this many times the inputs that are taken, so that a network seldom has to grow."""
GROWTH = 1.5
"""There are this many times as many when there is no room any more."""


class Written:
    """Rows of inputs that are being written.

    Args:
        rows: how many.
        width: how many inputs each has.
        scaled: how many numbers of each are standardized.
    """

    def __init__(self, rows: int, width: int, scaled: int) -> None:
        self.values = torch.full((rows, width), ABSENT, dtype=torch.float64)
        self.numbers = torch.full((rows, scaled), torch.nan, dtype=torch.float64)

    def fit(self, inputs: Inputs) -> None:
        """Have as many inputs as there are by now."""
        more, scaled = inputs.width - self.values.shape[1], len(inputs.scaled)
        if more > 0:
            self.values = torch.nn.functional.pad(self.values, (0, more), value=ABSENT)
        if scaled > self.numbers.shape[1]:
            missing = scaled - self.numbers.shape[1]
            self.numbers = torch.nn.functional.pad(self.numbers, (0, missing), value=torch.nan)


class Inputs:
    """Which inputs are taken, and the statistics of those that are standardized.

    They are stored as they are and standardized when the network sees them, so that a replayed row
    is in today's scale.

    >>> inputs = Inputs()
    >>> inputs.take(1), inputs.take_number(), inputs.width
    (0, 1, 2)
    >>> inputs.scaler.add(torch.tensor([[1.0], [3.0]]).double(), None)
    >>> inputs.prepare(torch.tensor([[ABSENT, 3.0]], dtype=torch.float64))
    tensor([[0., 1.]])
    """

    def __init__(self) -> None:
        self.taken = self.width = 0
        self._has_room = False
        self.scaled: list[int] = []
        """The inputs that are standardized."""
        self.scaler = RunningScaler(0)
        self._shift, self._rate = torch.zeros(0), torch.ones(0)
        self._measured: Tensor | None = None

    def take(self, count: int) -> int:
        """Take the next inputs; return the first one."""
        first, self.taken = self.taken, self.taken + count
        if self.taken > self.width:
            self.width = max(self.taken, int(GROWTH * self.width))
        return first

    def take_number(self) -> int:
        """Take an input that is standardized."""
        self.scaled.append(self.take(1))
        self.scaler.grow(len(self.scaled))
        return self.scaled[-1]

    def leave_room(self) -> None:
        """Have some inputs that are not taken yet; the first rows do so by themselves."""
        self.width, self._has_room = max(1, self.width, int(SPARE * self.taken)), True

    def finish(self, written: Written, learn: bool) -> Tensor:
        """The rows, with their numbers in place; the statistics are updated."""
        if learn and not self._has_room:
            self.leave_room()
        written.fit(self)
        if self.scaled:
            numbers = written.numbers
            missing = numbers.isnan()
            some = bool(missing.any())
            if learn:
                self.scaler.add(numbers, missing if some else None)
            placed = numbers.masked_fill(missing, ABSENT) if some else numbers
            written.values[:, self.scaled] = placed
        return written.values

    def prepare(self, values: Tensor) -> Tensor:
        """Rows as the network sees them: standardized, and 0 where something is absent."""
        if self._measured is not self.scaler.std or len(self._shift) != self.width:
            self._measured = self.scaler.std
            shift = torch.zeros(self.width, dtype=torch.float64)
            rate = torch.ones(self.width, dtype=torch.float64)
            shift[self.scaled], rate[self.scaled] = self.scaler.mean, 1 / self.scaler.std
            self._shift, self._rate = shift, rate
        seen = (values - self._shift).mul_(self._rate).clamp_(-LIMIT, LIMIT)
        return seen.masked_fill_(values == ABSENT, 0.0).float()

    def state_dict(self) -> dict[str, Any]:
        """What is taken, and the statistics."""
        return {
            "taken": self.taken, "width": self.width, "scaled": list(self.scaled),
            "running": self.scaler.state_dict(),
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.taken, self.width, self._has_room = state["taken"], state["width"], True
        self.scaled = list(state["scaled"])
        self.scaler.load_state_dict(state["running"])
        self._measured = None
