"""A time step as the authors implement it, for comparison.

It takes two forward passes, adds the penalty as a term that autograd differentiates, estimates
importance by one backward pass per sample, and sorts the buffer in Python. `AuthorsWay` uses
tensors throughout. `AuthorsDemo` uses the data structures of their public demo: lists of NumPy
arrays that are converted to tensors in every gradient step, a loss that is evaluated once for the
samples and once for the sum, and importance in NumPy. The demo also computes accuracies on batch
and test sets after each time step; that is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from taskfree import Plateau


class AuthorsWay:
    """The same method with the same result, in the paper's sense, implemented as the authors do."""

    def __init__(
        self, model: nn.Module, lr: float, repeats: int, capacity: int, strength: float
    ) -> None:
        self.model, self.repeats, self.capacity, self.strength = model, repeats, capacity, strength
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        self.loss = nn.CrossEntropyLoss(reduction="none")
        self.when = Plateau(window=5, mean=0.2, variance=0.1)
        self.inputs: list[Any] = []
        self.targets: list[Any] = []
        self.omega: list[Any] = []
        self.star: list[Tensor] = []
        self.updates = 0

    def learn(self, x: Tensor, y: Tensor) -> bool:
        """Take one time step; return whether it consolidated."""
        new_x, new_y = self.stored(x, y)
        for repeat in range(self.repeats):
            losses = self.evaluate(new_x, new_y)
            total = self.total(losses, new_x, new_y)
            if self.inputs:
                buffer_losses = self.evaluate(self.inputs, self.targets)
                total = total + self.total(buffer_losses, self.inputs, self.targets)
            if repeat == 0:
                window_loss = total.item()
            for value, omega, star in zip(
                self.model.parameters(), self.omega, self.star, strict=False
            ):
                weights = torch.as_tensor(omega)
                total = total + self.strength / 2 * (weights * (value - star) ** 2).sum()
            self.optimizer.zero_grad()
            total.backward()
            self.optimizer.step()
        consolidated = self.when.update(window_loss) == "plateau"
        if consolidated:
            self._consolidate(self.inputs or new_x)
        everything = [*zip(losses.tolist(), new_x, new_y, strict=True)]
        if self.inputs:
            everything += zip(buffer_losses.tolist(), self.inputs, self.targets, strict=True)
        everything.sort(key=lambda sample: -sample[0])
        self.inputs = [sample[1] for sample in everything[: self.capacity]]
        self.targets = [sample[2] for sample in everything[: self.capacity]]
        return consolidated

    def stored(self, x: Tensor, y: Tensor) -> tuple[list[Any], list[Any]]:
        """New samples, as they are stored."""
        return list(x), list(y)

    def batch(self, samples: list[Any]) -> Tensor:
        """Stored samples as one tensor."""
        return torch.stack(samples)

    def evaluate(self, x: list[Any], y: list[Any]) -> Tensor:
        """The loss of each sample."""
        return self.loss(self.model(self.batch(x)), self.batch(y))

    def total(self, losses: Tensor, x: list[Any], y: list[Any]) -> Tensor:
        """The samples' term of the objective."""
        return losses.mean()

    def _consolidate(self, inputs: list[Any]) -> None:
        parameters = list(self.model.parameters())
        new = [torch.zeros_like(value) for value in parameters]
        for sample in inputs:
            size = self.model(self.batch([sample])).square().sum()
            for sums, gradient in zip(new, torch.autograd.grad(size, parameters), strict=True):
                sums.add_(gradient.abs() / len(inputs))
        self.updates += 1
        old = self.omega or [
            self.stored_importance(torch.zeros_like(value)) for value in parameters
        ]
        self.omega = [
            a + (self.stored_importance(b) - a) / self.updates
            for a, b in zip(old, new, strict=True)
        ]
        self.star = [value.detach().clone() for value in parameters]

    def stored_importance(self, omega: Tensor) -> Any:
        """Importance, as it is stored."""
        return omega


class AuthorsDemo(AuthorsWay):
    """The same with samples and importance as NumPy arrays, as in their demo."""

    def stored(self, x: Tensor, y: Tensor) -> tuple[list[Any], list[Any]]:
        """New samples, as they are stored."""
        return list(x.numpy()), list(y.numpy())

    def batch(self, samples: list[Any]) -> Tensor:
        """Stored samples as one tensor."""
        return torch.from_numpy(np.asarray(samples))

    def evaluate(self, x: list[Any], y: list[Any]) -> Tensor:
        """The loss of each sample."""
        self.outputs, self.labels = self.model(self.batch(x)), self.batch(y)
        return self.loss(self.outputs, self.labels)

    def total(self, losses: Tensor, x: list[Any], y: list[Any]) -> Tensor:
        """The samples' term of the objective: the loss is evaluated again for it."""
        return self.loss(self.outputs, self.labels).mean()

    def stored_importance(self, omega: Tensor) -> Any:
        """Importance, as it is stored."""
        return omega.numpy()
