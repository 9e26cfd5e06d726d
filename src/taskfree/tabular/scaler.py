"""Standardization in one pass."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

LIMIT = 8.0
"""Standardized values are clipped to plus or minus this."""


class RunningScaler:
    """Standardizes columns by their mean and standard deviation over all rows so far.

    Args:
        columns: how many columns a row has.

    >>> scaler = RunningScaler(1)
    >>> scaler.add(torch.tensor([[0.0], [4.0]], dtype=torch.float64), None)
    >>> scaler.standardize(torch.tensor([[4.0]], dtype=torch.float64))
    tensor([[1.]], dtype=torch.float64)
    """

    def __init__(self, columns: int) -> None:
        self.count, self.mean, self.squares = torch.zeros(3, columns, dtype=torch.float64)
        self._measure()

    def add(self, values: Tensor, missing: Tensor | None) -> None:
        """Take more rows; where `missing` is true there is no value."""
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
        self.count = total
        self._measure()

    def _measure(self) -> None:
        variance = self.squares / self.count.clamp_min(1)
        self.std = torch.where(variance > 1e-24, variance, 1.0).sqrt_()
        """The standard deviation of each column; 1 where it is unknown or 0."""

    def standardize(self, values: Tensor) -> Tensor:
        """Values in standard deviations from the mean, clipped to plus or minus 8."""
        standardized: Tensor = (values - self.mean) / self.std
        return standardized.clamp_(-LIMIT, LIMIT)

    def state_dict(self) -> dict[str, Tensor]:
        """The statistics so far."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        self.count, self.mean, self.squares = (
            state[name].clone() for name in ("count", "mean", "squares")
        )
        self._measure()


class Standardize(nn.Module):
    """A layer that standardizes inputs by the statistics at the time of the forward pass.

    A replayed sample is thus seen in today's scale. Inputs are rows of numbers, or pairs of rows
    of which the second marks where the first has a number to standardize.

    Args:
        scaler: the statistics.

    >>> scaler = RunningScaler(2)
    >>> scaler.add(torch.tensor([[0.0, 0.0], [4.0, 2.0]]).double(), None)
    >>> Standardize(scaler)(torch.tensor([[4.0, 1.0]]).double())
    tensor([[1., 0.]])
    >>> Standardize(scaler)(torch.tensor([[[4.0, 1.0], [1.0, 0.0]]]).double())
    tensor([[1., 1.]])
    """

    def __init__(self, scaler: RunningScaler) -> None:
        super().__init__()
        self.scaler = scaler

    def forward(self, inputs: Tensor) -> Tensor:
        """Standardized inputs."""
        if inputs.dim() == 2:
            return self.scaler.standardize(inputs).float()
        values, numbers = inputs.unbind(1)
        return torch.where(numbers.bool(), self.scaler.standardize(values), values).float()
