"""A mixture of experts whose predictions are weighed by how well each has predicted lately."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from taskfree.tabular.experts.history import decaying_sums

SHARE = 0.002
"""The share of every weight that is spread over all experts after each row (fixed share)."""
FLOOR = 0.001
"""The share of every prediction that is spread over all classes: none is impossible."""
FADING = 0.99
"""The weight of the past in an expert's mean absolute error, per row."""
MOST_LOST = 4.0
"""On one row an expert loses at most so many nats more than the best one: a single row, however
strange, does not turn everything round."""
RATE = 0.5
"""The power of a likelihood by which a weight is multiplied: less than 1, as rows are related."""
TAIL = 5.0
"""How heavy the tails of an expert's errors are; the fifth moment is infinite."""
BEYOND = 0.1
"""A value is at most this share of the targets' range outside of it."""


class Weights:
    """The weights of some experts: probabilities that each is the best one, which may change.

    After each row a weight is multiplied by the square root of the probability that the expert
    gave to the target, and a small share of all is spread anew (Herbster and Warmuth, *Tracking the
    best expert*, 1998). Whatever the rows, the total loss of the mixture, in nats, exceeds that of
    the best sequence of experts with m changes by at most

        2 (m + 1) ln(1 / p) + 2 m ln(1 / a) + 2 (T - m - 1) ln(1 / (1 - a))

    with T rows, the share a = 0.002, and the least initial weight p of those experts. For one
    expert throughout that is 2 ln(1 / p) plus 0.004 nats a row. In all of these
    losses, an expert counts on each row as if it had lost at most 4 nats more than the best one.

    Args:
        initial: the initial weights, which need not sum to 1.

    >>> weights = Weights([1.0, 1.0])
    >>> likelihoods = torch.tensor([[0.64, 0.04], [0.64, 0.04]]).log()
    >>> before = weights.advance(likelihoods)
    >>> before[0].tolist(), before[1].round(decimals=3).tolist()
    ([0.5, 0.5], [0.799, 0.201])
    """

    def __init__(self, initial: Sequence[float]) -> None:
        self._initial = [weight / sum(initial) for weight in initial]
        self.now = list(self._initial)

    def advance(self, likelihoods: Tensor) -> Tensor:
        """Take the log likelihoods of rows by each expert; return the weights before each row."""
        weights, found = self.now, []
        rest = [SHARE * weight for weight in self._initial]
        lost = likelihoods - likelihoods.max(1, keepdim=True).values
        for row in lost.clamp_min_(-MOST_LOST).mul_(RATE).exp_().tolist():
            found.append(weights)
            new = [weight * factor for weight, factor in zip(weights, row, strict=True)]
            scale = (1 - SHARE) / sum(new)
            weights = [weight * scale + own for weight, own in zip(new, rest, strict=True)]
        self.now = weights
        return torch.tensor(found, dtype=torch.float64)


class LabelMixture:
    """Probabilities of classes, mixed.

    Args:
        initial: the initial weights of the experts, which need not sum to 1.

    >>> mixture = LabelMixture([1.0, 1.0])
    >>> said = [torch.tensor([[0.9, 0.1]]), torch.tensor([[0.2, 0.8]])]
    >>> for _ in range(10):
    ...     answers = mixture.score(said, torch.tensor([0]))
    >>> mixture.weights[0] > 0.99, answers.argmax(1)
    (True, tensor([0]))
    """

    def __init__(self, initial: Sequence[float]) -> None:
        self._weights = Weights(initial)

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
    """Values, mixed: each expert stands for a heavy-tailed distribution around what it says.

    Its scale is the expert's mean absolute error on the last rows. The answer is the median of the
    mixture, which has the least expected absolute error. No value is believed that is far outside
    of what the targets have been.

    Args:
        initial: the initial weights of the experts, which need not sum to 1.

    >>> mixture = ValueMixture([1.0, 1.0])
    >>> said = [torch.tensor([1.0, 1.0, 1.1] * 10), torch.tensor([3.0, 2.0, 4.0] * 10)]
    >>> mixture.score(said, torch.tensor([1.1, 1.0, 1.2] * 10)).shape, mixture.weights[0] > 0.9
    (torch.Size([30]), True)
    """

    def __init__(self, initial: Sequence[float]) -> None:
        self._weights = Weights(initial)
        self._errors = torch.zeros(len(initial), dtype=torch.float64)
        self._count = 0.0
        self._range = torch.tensor([math.inf, -math.inf], dtype=torch.float64)
        """The least and the largest target."""

    @property
    def weights(self) -> list[float]:
        """How far each expert is trusted now."""
        return self._weights.now

    def score(self, said: list[Tensor], targets: Tensor) -> Tensor:
        """The values given to each row before its target was known; then learn from it."""
        targets = targets.double()
        before, own = decaying_sums(len(targets), FADING)
        low = torch.cat([self._range[:1], targets]).cummin(0).values
        high = torch.cat([self._range[1:], targets]).cummax(0).values
        values = _believed(said, low[:-1], high[:-1])
        errors = (values - targets[:, None]).abs()
        first = math.isinf(float(self._range[0]))  # nobody knew anything of the first row
        counted = torch.ones_like(targets)
        counted[0] = float(not first)
        sums = before[:, None] * self._errors + own @ (errors * counted[:, None])
        counts = before * self._count + own @ counted
        scales = self._scales(sums, counts)[:-1]
        likelihoods = -scales.log() - (TAIL + 1) * (errors / (TAIL * scales)).log1p()
        likelihoods[counts[:-1] == 0] = 0.0
        weights = self._weights.advance(likelihoods)
        self._errors, self._count = sums[-1], float(counts[-1])
        self._range = torch.stack([low[-1], high[-1]])
        return _median(values, weights, scales)

    def answer(self, said: list[Tensor]) -> Tensor:
        """The values of rows whose targets are not known."""
        values = _believed(said, self._range[0], self._range[1])
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
        """The weights, the errors and the range of the targets."""
        return {
            "weights": self._weights.now, "errors": self._errors, "count": self._count,
            "range": self._range,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self._weights.now = list(state["weights"])
        self._errors, self._count = state["errors"].clone(), state["count"]
        self._range = state["range"].clone()


def _believed(said: list[Tensor], low: Tensor, high: Tensor) -> Tensor:
    """By row and expert, what they say, not far outside of a range; anything, without one."""
    values = torch.stack([each.double() for each in said], 1)
    room = (BEYOND * (high - low)).clamp_min(0.0)  # -inf before the first target
    least, most = low - room, high + room
    some = low <= high
    least, most = least.where(some, -math.inf), most.where(some, math.inf)
    return values.clamp(least.unsqueeze(-1), most.unsqueeze(-1))


def _median(values: Tensor, weights: Tensor, scales: Tensor) -> Tensor:
    """The median of a mixture of distributions around some values, for every row.

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
    within = 1 - (1 + away.abs() / (TAIL * scales)) ** -TAIL
    return (within * away.sign() * weights).sum(-1)
