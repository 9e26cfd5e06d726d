"""What the last rows said: the targets before each row, as far as they were known."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from taskfree.tabular.experts.expert import Past
from taskfree.tabular.scaler import RunningScaler

DECAYS = (0.5, 0.9, 0.99)
"""The weights of the past in the decaying means."""
RECENT = 1
"""Which of them is the expert's."""
SLOTS = 16
"""This many classes have inputs of their own; later ones share them."""


def decaying_sums(rows: int, decay: float) -> tuple[Tensor, Tensor]:
    """The weights in sums that decay, before each of some rows and after the last.

    Of the sum before them all, and of the rows, in a lower triangle.

    >>> decaying_sums(2, 0.5)[0].tolist(), decaying_sums(2, 0.5)[1].tolist()
    ([1.0, 0.5, 0.25], [[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]])
    """
    before, own = _decaying_sums(_room(rows), decay)
    return before[: rows + 1], own[: rows + 1, :rows]


def _room(rows: int) -> int:
    """The next power of two: few tables are made, of which parts are used."""
    return 1 << (rows - 1).bit_length()


@lru_cache(maxsize=64)
def _decaying_sums(rows: int, decay: float) -> tuple[Tensor, Tensor]:
    ages = torch.arange(rows + 1)[:, None] - 1 - torch.arange(rows)
    own = torch.where(ages >= 0, decay ** ages.clamp_min(0).double(), 0.0)
    return decay ** torch.arange(rows + 1, dtype=torch.float64), own


@lru_cache(maxsize=16)
def _weights(rows: int) -> tuple[Tensor, Tensor]:
    """The same for the means with each of the decays."""
    before, own = zip(*(decaying_sums(rows, decay) for decay in DECAYS), strict=True)
    shares = 1 - torch.tensor(DECAYS, dtype=torch.float64)
    return torch.stack(before)[:, :, None], torch.stack(own) * shares[:, None, None]


def decaying_means(start: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The decaying means before each row of values, and after the last.

    Args:
        start: those before the first row, one row for each of `DECAYS`.
        values: one row per row.

    >>> start = torch.zeros(3, 1, dtype=torch.float64)
    >>> before, after = decaying_means(start, torch.tensor([[1.0], [1.0]], dtype=torch.float64))
    >>> before[:, 0].T, after[0]
    (tensor([[0.0000, 0.5000]], dtype=torch.float64), tensor([0.7500], dtype=torch.float64))
    """
    rows = len(values)
    before, own = _weights(_room(rows))
    found = before[:, : rows + 1] * start[:, None] + own[:, : rows + 1, :rows] @ values
    return found[:, :-1].transpose(0, 1), found[:, -1]


class LabelHistory:
    """The last label, and how frequent each was lately.

    >>> history = LabelHistory()
    >>> past = history.look(torch.tensor([0, 1, 1]))
    >>> past.last
    tensor([-1,  0,  1])
    >>> past.recent[:, :2]
    tensor([[0.0000, 0.0000],
            [0.1000, 0.0000],
            [0.0900, 0.1000]], dtype=torch.float64)
    """

    width = SLOTS * (1 + len(DECAYS))

    def __init__(self) -> None:
        self._last = torch.full((1,), -1)
        self._next: tuple[Tensor | None, Tensor | None] = (None, None)
        """The rows that were looked at last, and the means after them."""
        self._means = torch.zeros(len(DECAYS), SLOTS, dtype=torch.float64)

    def look(self, targets: Tensor) -> Past:
        """What was known before each of these rows."""
        last = torch.cat([self._last, targets[:-1]])
        means, after = decaying_means(self._means, _slots(targets))
        self._next = targets, after
        return self._past(last, means)

    def now(self, rows: int) -> Past:
        """What is known before each of some rows that come next, without their targets."""
        return self._past(self._last.expand(rows), self._means.expand(rows, -1, -1))

    def _past(self, last: Tensor, means: Tensor) -> Past:
        inputs = torch.cat([_slots(last), means.flatten(1)], 1).float()
        return Past(last, means[:, RECENT], inputs)

    def learn(self, targets: Tensor) -> None:
        """Take the targets of rows."""
        looked, after = self._next
        if after is None or looked is not targets:
            _, after = decaying_means(self._means, _slots(targets))
        self._means, self._next = after, (None, None)
        self._last = targets[-1:].clone()

    def state_dict(self) -> dict[str, Tensor]:
        """The last label and the means."""
        return {"last": self._last, "means": self._means}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self._last, self._means = state["last"].clone(), state["means"].clone()


def _slots(labels: Tensor) -> Tensor:
    """Labels one-hot over the slots; nothing is set for none."""
    found = torch.zeros(len(labels), SLOTS, dtype=torch.float64)
    return found.scatter_(
        1, (labels.clamp_min(0) % SLOTS)[:, None], (labels >= 0)[:, None].double()
    )


class ValueHistory:
    """The last value, its last changes, and decaying means.

    Args:
        scaler: the statistics of the target.

    >>> scaler = RunningScaler(1)
    >>> scaler.add(torch.tensor([[0.0], [4.0]]).double(), None)
    >>> history = ValueHistory(scaler)
    >>> history.learn(torch.tensor([1.0, 3.0]).double())
    >>> past = history.now(1)
    >>> past.last, past.inputs[:, :4]
    (tensor([3.], dtype=torch.float64), tensor([[0.5000, 1.0000, 0.0000, 0.0000]]))
    """

    width = 3 + len(DECAYS)

    def __init__(self, scaler: RunningScaler) -> None:
        self.scaler = scaler
        self._last = torch.zeros(0, dtype=torch.float64)
        """The last three values; fewer at the start."""
        self._means = torch.zeros(len(DECAYS), 1, dtype=torch.float64)

    def look(self, targets: Tensor) -> Past:
        """What was known before each of these rows."""
        known = self._known(targets)
        means, _ = decaying_means(self._first(targets), targets[:, None])
        if not len(self._last):
            means[0] = 0.0  # nothing is known before the first row
        return self._past(known.unfold(0, 3, 1)[: len(targets)], means[:, :, 0])

    def now(self, rows: int) -> Past:
        """What is known before each of some rows that come next, without their targets."""
        known = self._known(torch.zeros(0, dtype=torch.float64))
        return self._past(known.expand(rows, 3), self._means[:, 0].expand(rows, -1))

    def _known(self, targets: Tensor) -> Tensor:
        """The three values before the first row, repeated where there are fewer, and these."""
        first = self._last if len(self._last) else torch.zeros(1, dtype=torch.float64)
        return torch.cat([first[:1].expand(3 - len(first)), first, targets])

    def _first(self, targets: Tensor) -> Tensor:
        """The means, which begin with the first value."""
        return self._means if len(self._last) else targets[:1].expand(len(DECAYS), 1)

    def _past(self, known: Tensor, means: Tensor) -> Past:
        last = known[:, 2]
        levels = torch.cat([last[:, None], means], 1)
        scale = self.scaler.std
        standardized = ((levels - self.scaler.mean) / scale).clamp_(-8, 8)
        changes = (known.diff(dim=1).flip(1) / scale).clamp_(-8, 8)
        inputs = torch.cat([standardized[:, :1], changes, standardized[:, 1:]], 1).float()
        return Past(last, means[:, RECENT], inputs)

    def learn(self, targets: Tensor) -> None:
        """Take the targets of rows."""
        _, self._means = decaying_means(self._first(targets), targets[:, None])
        self._last = torch.cat([self._last, targets])[-3:].clone()

    def state_dict(self) -> dict[str, Tensor]:
        """The last values and the means."""
        return {"last": self._last, "means": self._means}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self._last, self._means = state["last"].clone(), state["means"].clone()
