"""A mixture of experts whose predictions are weighed by how well each has predicted lately."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

SHARE = 0.002
"""The share of every weight that is spread over all experts after each row (fixed share)."""
FLOOR = 0.001
"""The share of every prediction that is spread over all classes: none is impossible."""
FADING = 0.99
"""The weight of the past in an expert's mean absolute error, per row."""
LEAST = 30.0
"""An expert loses at most this much more than the best one on a row, in nats."""


class Weights:
    """The weights of some experts: posterior probabilities, if the best one may change at any row.

    After each row a weight is multiplied by the probability that the expert gave to the target, and
    a small share of all is spread evenly over the experts (Herbster and Warmuth, *Tracking the best
    expert*, 1998). Whatever the rows, the total loss of the mixture, in nats, exceeds that of the
    best sequence of experts with m changes by at most

        (m + 1) ln K + m ln(1 / a) + (T - m - 1) ln(1 / (1 - a))

    with K experts, T rows and the share a = 0.002. For one expert throughout that is ln K plus
    0.002 nats a row.

    Args:
        experts: how many there are.

    >>> weights = Weights(2)
    >>> likelihoods = torch.tensor([[0.9, 0.1], [0.9, 0.1]]).log()
    >>> before = weights.advance(likelihoods)
    >>> before[0].tolist(), before[1].round(decimals=3).tolist()
    ([0.5, 0.5], [0.899, 0.101])
    """

    def __init__(self, experts: int) -> None:
        self.now = [1 / experts] * experts

    def advance(self, likelihoods: Tensor) -> Tensor:
        """Take the log likelihoods of rows by each expert; return the weights before each row."""
        weights, found = self.now, []
        rest = SHARE / len(weights)
        for row in likelihoods.tolist():
            found.append(weights)
            best = max(row)
            new = [
                weight * math.exp(max(value - best, -LEAST))
                for weight, value in zip(weights, row, strict=True)
            ]
            scale = (1 - SHARE) / sum(new)
            weights = [weight * scale + rest for weight in new]
        self.now = weights
        return torch.tensor(found, dtype=torch.float64)


class LabelMixture:
    """Probabilities of classes, mixed.

    Args:
        experts: how many there are.

    >>> mixture = LabelMixture(2)
    >>> said = [torch.tensor([[0.9, 0.1]]), torch.tensor([[0.2, 0.8]])]
    >>> for _ in range(5):
    ...     answers = mixture.score(said, torch.tensor([0]))
    >>> mixture.weights[0] > 0.99, answers.argmax(1)
    (True, tensor([0]))
    """

    def __init__(self, experts: int) -> None:
        self._weights = Weights(experts)

    @property
    def weights(self) -> list[float]:
        """How far each expert is trusted now."""
        return self._weights.now

    def score(self, said: list[Tensor], targets: Tensor) -> Tensor:
        """The probabilities given to each row before its target was known; then learn from it."""
        stacked = _stack(said)
        classes = stacked.shape[2]
        if not classes:
            return stacked[:, 0]
        seen = targets < classes
        at = torch.where(seen, targets, 0)[:, None, None].expand(-1, stacked.shape[1], 1)
        likely = torch.where(seen[:, None], stacked.gather(2, at)[:, :, 0], FLOOR)
        weights = self._weights.advance(likely.log())
        return _summing_to_1((weights[:, None] @ stacked)[:, 0])

    def answer(self, said: list[Tensor]) -> Tensor:
        """The probabilities of rows whose targets are not known."""
        stacked = _stack(said)
        return _summing_to_1(torch.tensor(self.weights, dtype=torch.float64) @ stacked)

    def state_dict(self) -> dict[str, Any]:
        """The weights."""
        return {"weights": self._weights.now}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self._weights.now = list(state["weights"])


def _summing_to_1(probabilities: Tensor) -> Tensor:
    return probabilities / probabilities.sum(1, keepdim=True)


def _stack(said: list[Tensor]) -> Tensor:
    """Probabilities by row, expert and class, none of them 0."""
    classes = max(each.shape[1] for each in said)
    uniform = 1 / max(1, classes)
    found = torch.stack([
        torch.nn.functional.pad(each.double(), (0, classes - each.shape[1])) for each in said
    ], 1)  # fmt: skip
    total = found.sum(2, keepdim=True)
    found = torch.where(total > 0, found / total.clamp_min(1e-12), uniform)
    return (1 - FLOOR) * found + FLOOR * uniform


class ValueMixture:
    """Values, mixed: each expert stands for a Laplace distribution around what it says.

    Its scale is the expert's mean absolute error on the last rows. The answer is the median of the
    mixture, which has the least expected absolute error.

    Args:
        experts: how many there are.

    >>> mixture = ValueMixture(2)
    >>> said = [torch.tensor([1.0, 1.0, 1.1]), torch.tensor([3.0, 2.0, 4.0])]
    >>> mixture.score(said, torch.tensor([1.1, 1.0, 1.2])).shape, mixture.weights[0] > 0.9
    (torch.Size([3]), True)
    """

    def __init__(self, experts: int) -> None:
        self._weights = Weights(experts)
        self._errors = torch.zeros(experts, dtype=torch.float64)
        self._count = 0.0

    @property
    def weights(self) -> list[float]:
        """How far each expert is trusted now."""
        return self._weights.now

    def score(self, said: list[Tensor], targets: Tensor) -> Tensor:
        """The values given to each row before its target was known; then learn from it."""
        values = torch.stack([each.double() for each in said], 1)
        errors = (values - targets[:, None]).abs()
        powers = FADING ** torch.arange(len(targets) + 1, dtype=torch.float64)[:, None]
        ages = torch.arange(len(targets) + 1)[:, None] - 1 - torch.arange(len(targets))
        own = torch.where(ages >= 0, FADING ** ages.clamp_min(0).double(), 0.0)
        sums = powers * self._errors + own @ errors
        counts = powers[:, 0] * self._count + own.sum(1)
        scales = self._scales(sums, counts)
        likelihoods = -(2 * scales[:-1]).log() - errors / scales[:-1]
        if not self._count:  # before the first row no error is known: all are as good
            likelihoods[0] = 0.0
        weights = self._weights.advance(likelihoods)
        self._errors, self._count = sums[-1], float(counts[-1])
        return _median(values, weights, scales[:-1])

    def answer(self, said: list[Tensor]) -> Tensor:
        """The values of rows whose targets are not known."""
        values = torch.stack([each.double() for each in said], 1)
        weights = torch.tensor(self.weights, dtype=torch.float64).expand_as(values)
        scales = self._scales(self._errors[None], torch.tensor([self._count]).double())
        return _median(values, weights, scales.expand_as(values))

    @staticmethod
    def _scales(sums: Tensor, counts: Tensor) -> Tensor:
        """Mean absolute errors; at least a millionth of the largest."""
        means = sums / counts[:, None].clamp_min(1e-12)
        least = 1e-6 * means.max(1, keepdim=True).values
        return torch.maximum(means, least).clamp_min(1e-12)

    def state_dict(self) -> dict[str, Any]:
        """The weights and the errors."""
        return {"weights": self._weights.now, "errors": self._errors, "count": self._count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self._weights.now = list(state["weights"])
        self._errors, self._count = state["errors"].clone(), state["count"]


def _median(values: Tensor, weights: Tensor, scales: Tensor) -> Tensor:
    """The median of a mixture of Laplace distributions, for every row.

    It lies between two of the values that are next to each other; bisection finds it to a
    thousandth of their distance.

    >>> values = torch.tensor([[0.0, 1.0, 5.0]])
    >>> _median(values, torch.tensor([[0.2, 0.6, 0.2]]), torch.full((1, 3), 0.1)).round(decimals=2)
    tensor([1.])
    """
    away = values[:, :, None] - values[:, None]
    over = _excess(away, weights[:, None], scales[:, None])
    low = values.where(over <= 0, -math.inf).amax(1)
    high = values.where(over >= 0, math.inf).amin(1)
    for _ in range(10):
        middle = (low + high) / 2
        under = _excess(middle[:, None] - values, weights, scales) < 0
        low, high = middle.where(under, low), high.where(under, middle)
    return (low + high) / 2


def _excess(away: Tensor, weights: Tensor, scales: Tensor) -> Tensor:
    """By how much more of the mixture lies below than above, at some distances from the values."""
    part = torch.expm1(away.abs().div(scales).neg_()).copysign_(away)
    return part.mul_(weights).sum(-1)
