"""Evaluation of online and continual learning.

`Prequential` evaluates a stream in one pass: every sample is predicted before it is learned. The
functions evaluate a matrix of accuracies on held-out sets: one row per time, one column per set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from taskfree._core import validation

__all__ = ["Prequential", "StepTimer", "anytime", "backward_transfer", "forgetting", "worst"]


class Prequential:
    """Prequential evaluation (test, then train) over the stream so far.

    In classification a sample scores 1 if its prediction was right, in regression its absolute
    error. Time and memory per step grow only with the number of classes and environments.

    Args:
        window: how many of the last samples `windowed` averages over.
        decay: the fading factor of `fading`.

    >>> metric = Prequential(window=4)
    >>> metric.update(torch.tensor([1, 0, 1, 1]), torch.tensor([1, 1, 1, 0]))
    >>> metric.update(torch.tensor([0, 0]), torch.tensor([0, 0]), environments=["night", "night"])
    >>> f"{metric.mean:.3f} {metric.windowed:.3f} {metric.balanced_accuracy:.3f}"
    '0.667 0.750 0.667'
    >>> metric.by_environment
    {'night': 1.0}
    """

    def __init__(self, window: int = 1000, decay: float = 0.999) -> None:
        self.window = validation.integer("window", window, least=1)
        self.decay = validation.number("decay", decay, above=0)
        if decay >= 1:
            raise ValueError(f"decay must be below 1, got {decay}")
        self.count = 0
        self._total = self._squares = 0.0
        self._fading = self._weight = 0.0
        self._recent = torch.zeros(window, dtype=torch.float64)
        self._recent_sum = 0.0
        self._worst = math.nan
        self._anytime = self._times = 0.0
        self._classes = torch.zeros(2, 0, dtype=torch.float64)
        self._environments: dict[str, list[float]] = {}

    def update(
        self, predicted: Tensor, actual: Tensor, environments: Sequence[str] | None = None
    ) -> None:
        """Take the predictions of some samples and their actual targets.

        Integers are labels, of which a prediction of -1 is always wrong. Floats are numbers.
        """
        if predicted.shape != actual.shape or actual.dim() != 1:
            raise ValueError(
                f"predicted and actual must have one value per sample, got shapes "
                f"{list(predicted.shape)} and {list(actual.shape)}"
            )
        labels = not (actual.is_floating_point() or predicted.is_floating_point())
        if labels:
            scores = (predicted == actual).double()
            self._add_classes(actual, scores)
        else:
            scores = (predicted.double() - actual.double()).abs()
        self._add(scores)
        if environments is not None:
            for name, score in zip(environments, scores.tolist(), strict=True):
                entry = self._environments.setdefault(name, [0, 0.0])
                entry[0] += 1
                entry[1] += score

    def _add(self, scores: Tensor) -> None:
        rows = len(scores)
        self._total += float(scores.sum())
        self._squares += float(scores @ scores)
        faded = self.decay**rows
        self._fading = self._fading * faded + float(_powers(self.decay, rows) @ scores)
        self._weight = self._weight * faded + (1 - faded) / (1 - self.decay)
        last = scores[-self.window :]
        places = torch.arange(self.count + rows - len(last), self.count + rows) % self.window
        self._recent[places] = last
        self.count += rows
        self._recent_sum = float(self._recent.sum())
        if self.count >= self.window:
            now = self.windowed
            self._anytime, self._times = self._anytime + now * rows, self._times + rows
            worse = max if not self._classes.numel() else min
            self._worst = now if math.isnan(self._worst) else worse(self._worst, now)

    def _add_classes(self, actual: Tensor, scores: Tensor) -> None:
        most = int(actual.max()) + 1
        if most > self._classes.shape[1]:
            more = torch.zeros(2, most, dtype=torch.float64)
            more[:, : self._classes.shape[1]] = self._classes
            self._classes = more
        self._classes[0].index_add_(0, actual, torch.ones_like(scores))
        self._classes[1].index_add_(0, actual, scores)

    @property
    def mean(self) -> float:
        """The mean over all samples so far."""
        return self._total / self.count if self.count else math.nan

    @property
    def rmse(self) -> float:
        """The root mean square error, in regression."""
        return math.sqrt(self._squares / self.count) if self.count else math.nan

    @property
    def windowed(self) -> float:
        """The mean over the last `window` samples."""
        return self._recent_sum / min(self.count, self.window) if self.count else math.nan

    @property
    def fading(self) -> float:
        """The mean over all samples, with exponentially decaying weights."""
        return self._fading / self._weight if self._weight else math.nan

    @property
    def anytime(self) -> float:
        """The mean of `windowed` over time, since the window was first full."""
        return self._anytime / self._times if self._times else self.windowed

    @property
    def worst(self) -> float:
        """The worst `windowed` since the window was first full."""
        return self.windowed if math.isnan(self._worst) else self._worst

    @property
    def class_counts(self) -> dict[int, int]:
        """The number of samples of each class, by its number."""
        counts = self._classes[0].long().tolist()
        return {at: count for at, count in enumerate(counts) if count}

    @property
    def by_class(self) -> dict[int, float]:
        """The accuracy on each class seen so far."""
        came, right = self._classes.tolist()
        return {at: right[at] / count for at, count in enumerate(came) if count}

    @property
    def balanced_accuracy(self) -> float:
        """The mean over the classes of their accuracies."""
        found = self.by_class
        return sum(found.values()) / len(found) if found else math.nan

    @property
    def by_environment(self) -> dict[str, float]:
        """The mean over the samples of each environment."""
        return {name: total / count for name, (count, total) in self._environments.items()}

    def summary(self) -> dict[str, float]:
        """All of them by name."""
        names = ["count", "mean", "windowed", "fading", "anytime", "worst"]
        names.append("balanced_accuracy" if self._classes.numel() else "rmse")
        return {name: getattr(self, name) for name in names}

    def state_dict(self) -> dict[str, Any]:
        """All statistics so far."""
        return {key.lstrip("_"): value for key, value in vars(self).items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        for key in vars(self):
            value = state[key.lstrip("_")]
            vars(self)[key] = value.clone() if isinstance(value, Tensor) else value


class StepTimer:
    """The time that steps take: enter it as a context around each step.

    >>> timer = StepTimer()
    >>> for _ in range(3):
    ...     with timer:
    ...         _ = sum(range(1000))
    >>> timer.steps, 0 < timer.mean <= timer.worst
    (3, True)
    """

    def __init__(self) -> None:
        self.steps, self.total, self.worst = 0, 0.0, 0.0
        """Steps so far, their seconds in all, and the longest of them."""
        self._start = 0.0

    def __enter__(self) -> None:
        self._start = perf_counter()

    def __exit__(self, *_: object) -> None:
        seconds = perf_counter() - self._start
        self.steps, self.total = self.steps + 1, self.total + seconds
        self.worst = max(self.worst, seconds)

    @property
    def mean(self) -> float:
        """Seconds per step."""
        return self.total / self.steps if self.steps else math.nan


@lru_cache(maxsize=16)
def _powers(decay: float, rows: int) -> Tensor:
    """The fading weights of `rows` samples that came together."""
    return decay ** torch.arange(rows - 1, -1, -1, dtype=torch.float64)


# Held-out sets: accuracy by time (rows) and set (columns)


def anytime(accuracy: Tensor) -> float:
    """The mean accuracy over all times and sets.

    >>> anytime(torch.tensor([[0.5, 0.5], [1.0, 0.5]]))
    0.625
    """
    return float(_matrix(accuracy).mean())


def worst(accuracy: Tensor) -> float:
    """The worst mean over the sets at any time.

    >>> worst(torch.tensor([[0.5, 0.5], [1.0, 0.5]]))
    0.5
    """
    return float(_matrix(accuracy).mean(1).min())


def forgetting(accuracy: Tensor) -> float:
    """Mean drop from each set's best accuracy to its final accuracy.

    >>> forgetting(torch.tensor([[0.75, 0.0], [0.5, 1.0], [0.25, 0.75]]))
    0.375
    """
    values = _matrix(accuracy)
    return float((values.max(0).values - values[-1]).mean())


def backward_transfer(accuracy: Tensor, learned: Sequence[int]) -> float:
    """Mean change of each set's accuracy from when it had just been learned to the end.

    Args:
        accuracy: by time (rows) and set (columns).
        learned: for each set, the time (row) at which it had just been learned.

    >>> backward_transfer(torch.tensor([[0.75, 0.0], [0.5, 1.0], [0.25, 0.75]]), learned=[0, 1])
    -0.375
    """
    values = _matrix(accuracy)
    if len(learned) != values.shape[1]:
        raise ValueError(
            f"learned must have one time per set: there are {values.shape[1]} sets, got {learned}"
        )
    then = values[torch.tensor(learned), torch.arange(values.shape[1])]
    return float((values[-1] - then).mean())


def _matrix(accuracy: Tensor) -> Tensor:
    values = torch.as_tensor(accuracy, dtype=torch.float64)
    if values.dim() != 2 or not values.numel():
        raise ValueError(
            f"accuracy must have one row per time, one column per set; got {list(values.shape)}"
        )
    return values
