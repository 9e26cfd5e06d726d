"""What an expert is, and what it sees of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

LONGEST = 10.0
"""The norm to which rows of inputs are shortened."""


class Past(NamedTuple):
    """What the targets before each row said: all that was known when it came."""

    last: Tensor
    """The target before: a class index, -1 for none; or a value, 0 for none."""
    recent: Tensor
    """Decaying means, one row each: the shares of the first classes; or one value."""
    inputs: Tensor
    """Both, and more, as inputs of a model."""


@dataclass(frozen=True)
class RowBatch:
    """RowBatch in the order in which they came."""

    features: Tensor
    """Standardized inputs, one row each."""
    past: Past
    """What was known before each row."""
    keys: Sequence[Sequence[str | None]] = ()
    """By column of categories, the category of each row."""

    def __len__(self) -> int:
        return len(self.features)

    @cached_property
    def inputs(self) -> Tensor:
        """1, what the last rows said, and the features, which may become more."""
        ones = self.features.new_ones(len(self), 1)
        return torch.cat([ones, self.past.inputs, self.features], 1)

    @cached_property
    def short_inputs(self) -> Tensor:
        """The same, not longer than `LONGEST`, so that no row moves weights too far."""
        sizes = torch.linalg.vector_norm(self.inputs, dim=1, keepdim=True)
        short: Tensor = self.inputs * (LONGEST / sizes).clamp_(max=1)
        return short


class Expert(Protocol):
    """Predicts rows one after the other, cheaply.

    Those of one call are predicted before any is learned, but `past` has the targets before each.
    """

    name: str
    """What it is called in reports."""

    def predict(self, rows: RowBatch) -> Tensor:
        """The probability of each class seen so far, or a value, for each row."""

    def learn(self, rows: RowBatch, targets: Tensor) -> None:
        """Take the targets of rows."""

    def state_dict(self) -> dict[str, Any]:
        """Everything it has learned."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""


class Stateless:
    """An expert that others learn for."""

    def learn(self, rows: RowBatch, targets: Tensor) -> None:
        """It has nothing of its own to learn."""

    def state_dict(self) -> dict[str, Any]:
        """It has no state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """It has no state."""
