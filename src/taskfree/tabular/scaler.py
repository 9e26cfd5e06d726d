"""Standardization in one pass, which no single value can ruin."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

LIMIT = 8.0
"""Values count as at most this many standard deviations from the mean."""
FIRST = 20
"""The first rows are kept, until there are so many, and judged by their median."""
MEMORY = 20_000.0
"""Statistics are over about so many rows: what was earlier fades."""


class RunningScaler:
    """Standardizes columns by their mean and standard deviation over the last 20,000 rows or so.

    A value that is further than 8 standard deviations from the mean counts as one that is just
    that far: one such value among millions changes little, and a new scale is soon the usual one.
    Of the first 20 rows, the distance is measured from the median.

    Args:
        columns: how many columns a row has.

    >>> scaler = RunningScaler(1)
    >>> scaler.add(torch.tensor([[0.0], [4.0]], dtype=torch.float64), None)
    >>> scaler.standardize(torch.tensor([[4.0]], dtype=torch.float64))
    tensor([[1.]], dtype=torch.float64)
    >>> for value in [0.0, 4.0] * 100 + [1e9]:
    ...     scaler.add(torch.tensor([[value]], dtype=torch.float64), None)
    >>> scaler.far.tolist(), float(scaler.std) < 2.5
    ([1.0], True)
    """

    def __init__(self, columns: int) -> None:
        self.count, self.mean, self.squares, self.far = torch.zeros(4, columns, dtype=torch.float64)
        """By column: rows, mean, sum of squared distances, and how many values were far away."""
        self._first = torch.zeros(0, columns, dtype=torch.float64)
        """The first rows, nan where a value is missing."""
        self._measure()

    def grow(self, columns: int) -> None:
        """Have this many columns; new ones have no values yet."""
        more = (0, columns - len(self.count))
        if more[1] <= 0:
            return
        pad = torch.nn.functional.pad
        self.count, self.mean, self.squares, self.far = (
            pad(value, more) for value in (self.count, self.mean, self.squares, self.far)
        )
        self._first = pad(self._first, more, value=torch.nan)
        self._measure()

    def add(self, values: Tensor, missing: Tensor | None) -> None:
        """Take more rows; where `missing` is true there is no value."""
        if len(self._first) < FIRST:
            own = values if missing is None else values.masked_fill(missing, torch.nan)
            self._first = torch.cat([self._first, own])
            self.count, self.mean, self.squares = torch.zeros(
                3, values.shape[1], dtype=torch.float64
            )
            values, missing = self._first, self._first.isnan()
            middle = _median(values)
            reach = LIMIT * 1.5 * _median((values - middle).abs())  # 1.5 as for normal values
            self.far = torch.zeros_like(self.far)
            known = reach > 0
        else:
            known = (self.count >= FIRST) & (self.squares > 0)
            middle, reach = self.mean, LIMIT * self.std
        away = values - middle
        far = known & (away.abs() > reach)
        if far.any():
            self.far = self.far + far.sum(0)
            values = torch.where(far, middle + reach * away.sign(), values)
        self._merge(values, missing)
        self._measure()

    def _merge(self, values: Tensor, missing: Tensor | None) -> None:
        """Add rows to the statistics (Chan, Golub and LeVeque, 1983)."""
        if missing is None:
            count = torch.full_like(self.count, len(values))
            mean = values.mean(0)
            squares = (values - mean).square_().sum(0)
        else:
            count = (~missing).sum(0).double()
            mean = torch.where(missing, 0.0, values).sum(0) / count.clamp_min(1)
            squares = torch.where(missing, 0.0, values - mean).square_().sum(0)
        total = self.count + count
        away, share = mean - self.mean, count / total.clamp_min(1)
        self.mean = self.mean + away * share
        self.squares = self.squares + squares + away * away * self.count * share
        kept = (MEMORY / total.clamp_min(1)).clamp_max_(1.0)
        self.count, self.squares = total * kept, self.squares * kept

    def _measure(self) -> None:
        variance = self.squares / self.count.clamp_min(1)
        self.std = torch.where(variance > 1e-24, variance, 1.0).sqrt_()
        """The standard deviation of each column; 1 where it is unknown or 0."""

    def standardize(self, values: Tensor) -> Tensor:
        """Values in standard deviations from the mean, clipped to plus or minus 8."""
        standardized: Tensor = (values - self.mean) / self.std
        return standardized.clamp_(-LIMIT, LIMIT)

    def prepare(self, values: Tensor) -> Tensor:
        """Values as a network takes them, in today's scale."""
        return self.standardize(values).float()

    def state_dict(self) -> dict[str, Tensor]:
        """The statistics so far."""
        return {
            "count": self.count, "mean": self.mean, "squares": self.squares, "far": self.far,
            "first": self._first,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        self.count, self.mean, self.squares, self.far, self._first = (
            state[name].clone() for name in ("count", "mean", "squares", "far", "first")
        )
        self._measure()


def _median(values: Tensor) -> Tensor:
    """By column, of what is not nan; 0 where there is nothing.

    >>> _median(torch.tensor([[1.0, torch.nan], [5.0, torch.nan], [2.0, torch.nan]]))
    tensor([2., 0.])
    """
    return values.nanmedian(0).values.nan_to_num(0.0)
