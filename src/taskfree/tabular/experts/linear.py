"""Linear experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from taskfree.tabular.experts.expert import RowBatch
from taskfree.tabular.scaler import RunningScaler

RATE = 0.01
"""The learning rate of plain gradient descent."""
ADAPTIVE_RATE = 0.1
"""That of AdaGrad."""
CLIP = 3.0
"""Errors of a linear model on numbers, in standard deviations, are clipped to this."""
FORGET = 0.999
"""The weight of the past in least squares, per row."""
RIDGE = 1.0
"""How many rows of zeros least squares begins with."""
MOST_INPUTS = 256
"""Least squares has no more inputs than this; it predicts the last value otherwise."""


class SoftmaxModel:
    """A linear model of the classes, on the inputs and on what the last rows said.

    Args:
        adaptive: with AdaGrad; with plain gradient descent otherwise.
    """

    def __init__(self, adaptive: bool) -> None:
        self.adaptive = adaptive
        self.name = "linear model" if adaptive else "slow linear model"
        self.weight = torch.zeros(0, 0)
        self.squares = torch.zeros(0, 0)

    def predict(self, rows: RowBatch) -> Tensor:
        """The probability of each class seen so far."""
        if not len(self.weight):
            return torch.zeros(len(rows), 0, dtype=torch.float64)
        inputs = rows.short_inputs
        self._fit(len(self.weight), inputs.shape[1])
        found: Tensor = (inputs @ self.weight.T).softmax(1).double()
        return found

    def _fit(self, classes: int, inputs: int) -> None:
        """New classes and inputs start at 0."""
        more = (0, inputs - self.weight.shape[1], 0, classes - len(self.weight))
        if any(more):
            self.weight = torch.nn.functional.pad(self.weight, more)
            self.squares = torch.nn.functional.pad(self.squares, more)

    def learn(self, rows: RowBatch, targets: Tensor) -> None:
        """A gradient step for each row, all from the same weights."""
        inputs = rows.short_inputs
        self._fit(max(len(self.weight), int(targets.max()) + 1), inputs.shape[1])
        error = (inputs @ self.weight.T).softmax(1)
        error[torch.arange(len(targets)), targets] -= 1
        step = error.T @ inputs
        if self.adaptive:
            self.squares += (error * error).T @ (inputs * inputs)
            self.weight -= ADAPTIVE_RATE * step / (self.squares + 1e-4).sqrt_()
        else:
            self.weight -= RATE * step

    def state_dict(self) -> dict[str, Any]:
        """The weights."""
        return {"weight": self.weight, "squares": self.squares}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.weight, self.squares = state["weight"].clone(), state["squares"].clone()


class LinearModel:
    """A linear model of the value, by gradient descent, on the inputs and what the last rows said.

    Args:
        scaler: the statistics of the target, which is learned standardized.
    """

    name = "linear model"

    def __init__(self, scaler: RunningScaler) -> None:
        self.scaler = scaler
        self.weight = torch.zeros(0)

    def predict(self, rows: RowBatch) -> Tensor:
        """The values."""
        found = self._standardized(rows.short_inputs).double()
        restored: Tensor = found * self.scaler.std + self.scaler.mean
        return restored

    def _standardized(self, inputs: Tensor) -> Tensor:
        if len(self.weight) != inputs.shape[1]:
            self.weight = torch.nn.functional.pad(
                self.weight, (0, inputs.shape[1] - len(self.weight))
            )
        return inputs @ self.weight

    def learn(self, rows: RowBatch, targets: Tensor) -> None:
        """A gradient step for each row, all from the same weights."""
        inputs = rows.short_inputs
        wanted = ((targets - self.scaler.mean) / self.scaler.std).float()
        error = (self._standardized(inputs) - wanted).clamp_(-CLIP, CLIP)
        self.weight = self.weight - RATE * (error @ inputs)

    def state_dict(self) -> dict[str, Any]:
        """The weights."""
        return {"weight": self.weight}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.weight = state["weight"].clone()


class LeastSquares:
    """The change of the value since the last row, by least squares over about 1,000 rows.

    Args:
        scaler: the statistics of the target.
    """

    name = "least squares"

    def __init__(self, scaler: RunningScaler) -> None:
        self.scaler = scaler
        self.products, self.wanted = torch.zeros(0, 0).double(), torch.zeros(0).double()
        self.weight = torch.zeros(0).double()
        self.error = 0.0
        self.waiting = 0
        """RowBatch since the weights were last computed."""

    def predict(self, rows: RowBatch) -> Tensor:
        """The last value and the change."""
        inputs = rows.inputs.double()
        if not len(self.weight) or inputs.shape[1] > MOST_INPUTS:
            return rows.past.last
        known = inputs[:, : len(self.weight)]  # new inputs have no weight yet
        return rows.past.last + known @ self.weight * self.scaler.std

    def learn(self, rows: RowBatch, targets: Tensor) -> None:
        """Add the rows; those with errors of more than four times the usual count less."""
        inputs = rows.inputs.double()
        width = inputs.shape[1]
        if width > MOST_INPUTS:
            return
        if more := width - len(self.wanted):
            self.products = torch.nn.functional.pad(self.products, (0, more, 0, more))
            self.wanted = torch.nn.functional.pad(self.wanted, (0, more))
        change = (targets - rows.past.last) / self.scaler.std
        errors = (targets - self.predict(rows)).abs() / self.scaler.std
        if not self.error:
            self.error = float(errors.mean())
        weights = (4 * self.error / errors.clamp_min(1e-12)).clamp_max_(1)
        faded = FORGET ** len(targets)
        self.error = faded**10 * self.error + (1 - faded**10) * float(errors.mean())
        weighted = inputs * weights[:, None]
        self.products = faded * self.products + weighted.T @ inputs
        self.wanted = faded * self.wanted + weighted.T @ change
        self.waiting += len(targets)
        if self.waiting * 16 >= width:
            self._solve()

    def _solve(self) -> None:
        self.waiting = 0
        scale = self.products.diagonal().sqrt().clamp_min(1e-6)
        correlation = self.products / scale.outer(scale)
        rows = float(self.products[0, 0])  # of the input that is always 1
        correlation.diagonal().add_(RIDGE / max(1.0, rows))
        self.weight = torch.linalg.solve(correlation, self.wanted / scale) / scale

    def state_dict(self) -> dict[str, Any]:
        """The sums over the rows, and the weights."""
        return {
            "products": self.products, "wanted": self.wanted, "weight": self.weight,
            "error": self.error, "waiting": self.waiting,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.products, self.wanted, self.weight = (
            state[name].clone() for name in ("products", "wanted", "weight")
        )
        self.error, self.waiting = state["error"], state["waiting"]
