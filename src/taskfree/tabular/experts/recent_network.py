"""A small network that keeps up with the stream and remembers nothing on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from taskfree.tabular.experts.expert import RowBatch
from taskfree.tabular.scaler import RunningScaler

HIDDEN = 64
RATE = 0.003
"""The learning rate of Adam."""
BETAS = (0.9, 0.999)
TINY = 1e-8


class RecentNetwork:
    """A network with one hidden layer that learns each row once, and what the last rows said.

    It has no buffer: what was right last year and is wrong now does not hold it back. That is the
    business of the other network.

    Args:
        inputs: how many features a row has, with what the last rows said.
        scaler: the statistics of a target that is a number; None for classes.
        seed: of the initial weights.
    """

    name = "recent network"

    def __init__(self, inputs: int, scaler: RunningScaler | None, seed: int) -> None:
        self.scaler = scaler
        draw = torch.Generator().manual_seed(seed)
        outputs = 0 if scaler is None else 1
        bound = inputs**-0.5
        self.parameters = [
            torch.empty(HIDDEN, inputs).uniform_(-bound, bound, generator=draw),
            torch.empty(HIDDEN).uniform_(-bound, bound, generator=draw),
            torch.empty(outputs, HIDDEN).uniform_(-(HIDDEN**-0.5), HIDDEN**-0.5, generator=draw),
            torch.zeros(outputs),
        ]
        self.means = [torch.zeros_like(value) for value in self.parameters]
        self.squares = [torch.zeros_like(value) for value in self.parameters]
        self.steps = 0

    def predict(self, rows: RowBatch) -> Tensor:
        """The probability of each class seen so far, or the value."""
        outputs = self._forward(rows)[2]
        if self.scaler is None:
            return outputs.softmax(1).double()
        found: Tensor = outputs[:, 0].double() * self.scaler.std + self.scaler.mean
        return found

    def _forward(self, rows: RowBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs, hidden units and outputs."""
        inputs = rows.inputs[:, 1:]
        self._widen(inputs.shape[1])
        first, first_bias, last, last_bias = self.parameters
        hidden = torch.addmm(first_bias, inputs, first.T).relu_()
        return inputs, hidden, torch.addmm(last_bias, hidden, last.T)

    def learn(self, rows: RowBatch, targets: Tensor) -> None:
        """One step of Adam, on the cross entropy or the smooth L1 loss."""
        if self.scaler is None:
            self._grow(int(targets.max()) + 1)
        inputs, hidden, outputs = self._forward(rows)
        if self.scaler is None:
            error = outputs.softmax(1)
            error[torch.arange(len(targets)), targets] -= 1
        else:
            wanted = self.scaler.standardize(targets).float()
            error = (outputs - wanted[:, None]).clamp_(-1, 1)
        error /= len(targets)
        inner = (error @ self.parameters[2]) * (hidden > 0)
        self._descend([inner.T @ inputs, inner.sum(0), error.T @ hidden, error.sum(0)])

    def _widen(self, inputs: int) -> None:
        """The weights of new inputs start at 0."""
        more = inputs - self.parameters[0].shape[1]
        if more > 0:
            for values in (self.parameters, self.means, self.squares):
                values[0] = pad(values[0], (0, more))

    def _grow(self, outputs: int) -> None:
        """New classes start at 0."""
        more = outputs - len(self.parameters[3])
        if more > 0:
            for values in (self.parameters, self.means, self.squares):
                values[2] = pad(values[2], (0, 0, 0, more))
                values[3] = pad(values[3], (0, more))

    def _descend(self, gradients: list[Tensor]) -> None:
        self.steps += 1
        fast, slow = BETAS
        torch._foreach_lerp_(self.means, gradients, 1 - fast)
        torch._foreach_mul_(self.squares, slow)
        torch._foreach_addcmul_(self.squares, gradients, gradients, 1 - slow)
        sizes = torch._foreach_sqrt(self.squares)
        torch._foreach_div_(sizes, (1 - slow**self.steps) ** 0.5)
        torch._foreach_add_(sizes, TINY)
        torch._foreach_addcdiv_(self.parameters, self.means, sizes, -RATE / (1 - fast**self.steps))

    def state_dict(self) -> dict[str, Any]:
        """Parameters and the state of Adam."""
        return {
            "parameters": list(self.parameters), "means": list(self.means),
            "squares": list(self.squares), "steps": self.steps,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.parameters, self.means, self.squares = (
            [value.clone() for value in state[name]] for name in ("parameters", "means", "squares")
        )
        self.steps = state["steps"]
