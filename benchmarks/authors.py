"""The authors' way to do a time step, for comparison: as their public demo goes about it.

Two forward passes, the penalty as a term that autograd differentiates, importance by one backward
pass a sample, the buffer as lists that are concatenated and sorted.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from taskfree import Plateau


class AuthorsWay:
    """The same method and the same result in the paper's sense; only the way differs."""

    def __init__(
        self, model: nn.Module, lr: float, repeats: int, capacity: int, strength: float
    ) -> None:
        self.model, self.repeats, self.capacity, self.strength = model, repeats, capacity, strength
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        self.loss = nn.CrossEntropyLoss(reduction="none")
        self.when = Plateau(window=5, mean=0.2, variance=0.1)
        self.inputs: list[Tensor] = []
        self.targets: list[Tensor] = []
        self.omega: list[Tensor] = []
        self.star: list[Tensor] = []
        self.updates = 0

    def learn(self, x: Tensor, y: Tensor) -> bool:
        """One time step; whether it consolidated."""
        held = bool(self.inputs)
        if held:
            buffer_x, buffer_y = torch.stack(self.inputs), torch.stack(self.targets)
        for repeat in range(self.repeats):
            losses = self.loss(self.model(x), y)
            total = losses.mean()
            if held:
                buffer_losses = self.loss(self.model(buffer_x), buffer_y)
                total = total + buffer_losses.mean()
            if repeat == 0:
                window_loss = total.item()
            for value, omega, star in zip(
                self.model.parameters(), self.omega, self.star, strict=False
            ):
                total = total + self.strength / 2 * (omega * (value - star) ** 2).sum()
            self.optimizer.zero_grad()
            total.backward()
            self.optimizer.step()
        consolidated = self.when.update(window_loss) == "plateau"
        if consolidated:
            self._consolidate(buffer_x if held else x)
        everything = [*zip(losses.tolist(), x, y, strict=True)]
        if held:
            everything += zip(buffer_losses.tolist(), self.inputs, self.targets, strict=True)
        everything.sort(key=lambda sample: -sample[0])
        self.inputs = [sample[1] for sample in everything[: self.capacity]]
        self.targets = [sample[2] for sample in everything[: self.capacity]]
        return consolidated

    def _consolidate(self, inputs: Tensor) -> None:
        parameters = list(self.model.parameters())
        new = [torch.zeros_like(value) for value in parameters]
        for row in inputs:
            size = self.model(row[None]).square().sum()
            for total, gradient in zip(new, torch.autograd.grad(size, parameters), strict=True):
                total += gradient.abs() / len(inputs)
        self.updates += 1
        old = self.omega or [torch.zeros_like(value) for value in parameters]
        self.omega = [a + (b - a) / self.updates for a, b in zip(old, new, strict=True)]
        self.star = [value.detach().clone() for value in parameters]
