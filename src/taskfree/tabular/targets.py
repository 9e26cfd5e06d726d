"""Targets: labels that may appear at any time, or numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from taskfree.tabular.scaler import RunningScaler
from taskfree.tabular.values import RowError, is_missing, read_number, text_of

__all__ = ["LabelEncoder", "RegressionTarget"]

LARGEST = 1e90
"""Numbers that are larger, or smaller than its negative, are no targets."""


class LabelEncoder:
    """Labels as class indices in order of appearance; new ones may come at any time.

    >>> labels = LabelEncoder()
    >>> labels.encode([labels.read(label) for label in ("up", "down", "up")]), labels.names
    (tensor([0, 1, 0]), ['up', 'down'])
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def read(self, value: Any) -> str:
        """The name of a label: 1 and 1.0 are the same."""
        if isinstance(value, str) and value in self._numbers:
            return value  # most are, and this is called for every row
        if is_missing(value):
            raise RowError("the target is missing")
        if isinstance(value, str) and value.strip() in self._numbers:
            return value.strip()
        if isinstance(value, bool) and str(value).lower() in self._numbers:
            return str(value).lower()
        whole = isinstance(value, float) and value.is_integer()
        return text_of(int(value) if whole else value)

    def encode(self, names: Sequence[str], learn: bool = True) -> Tensor:
        """Class indices; with `learn=False`, -1 for an unknown label."""
        for name in names if learn else ():
            if name not in self._numbers:
                self._numbers[name] = len(self.names)
                self.names.append(name)
        return torch.tensor([self._numbers.get(name, -1) for name in names])

    def describe(self, target: Any) -> str:
        """The name of a class index."""
        return self.names[int(target)]

    def state_dict(self) -> dict[str, Any]:
        """The names."""
        return {"names": self.names}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.names = list(state["names"])
        self._numbers = {name: number for number, name in enumerate(self.names)}


class RegressionTarget:
    """Numbers, which the network learns standardized.

    They are stored as they are and standardized when they are learned, so that a replayed sample is
    in today's scale and not in that of the day it was stored.

    Args:
        form: how they are written: see `values.kind_of`.

    >>> target = RegressionTarget()
    >>> values = target.encode([target.read("1"), target.read("3")])
    >>> target.scaler.add(values[:, None], None)
    >>> target.standardize(values), target.restore(target.standardize(values))
    (tensor([-1.,  1.]), tensor([1., 3.], dtype=torch.float64))
    """

    def __init__(self, form: str = "") -> None:
        self.form = form
        self.scaler = RunningScaler(1)

    def read(self, value: Any) -> float:
        """A target as a number."""
        if is_missing(value):
            raise RowError("the target is missing")
        try:
            number = read_number(value, self.form)
        except (TypeError, ValueError, OverflowError):
            raise RowError(f"the target must be a number, got {value!r}") from None
        if abs(number) > LARGEST:
            raise RowError(f"the target is {'infinite' if math.isinf(number) else 'too large'}")
        return number

    def encode(self, values: Sequence[float], learn: bool = True) -> Tensor:
        """As they are stored."""
        del learn  # the scale is learned once the rows have been predicted
        return torch.tensor(values, dtype=torch.float64)

    def standardize(self, values: Tensor) -> Tensor:
        """As the network learns them."""
        return self.scaler.standardize(values).float()

    def restore(self, outputs: Tensor) -> Tensor:
        """The network's outputs in the units of the target."""
        found: Tensor = outputs.double() * self.scaler.std + self.scaler.mean
        return found

    def describe(self, target: Any) -> str:
        """A target in short."""
        return f"{float(target):.4g}"

    def state_dict(self) -> dict[str, Any]:
        """The statistics so far."""
        return {"running": self.scaler.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.scaler.load_state_dict(state["running"])
