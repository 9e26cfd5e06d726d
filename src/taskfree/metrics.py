"""Evaluation in one pass: every sample is predicted before it is learned, and that is counted.

`Prequential` follows a stream; the functions at the end look at accuracies on held-out sets that
were evaluated again and again: rows are times, columns are sets.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from taskfree import arguments

__all__ = ["Cost", "Prequential", "anytime", "backward_transfer", "forgetting", "memory", "worst"]


class Prequential:
    """How right the answers were that were given before learning, over the stream so far.

    With classes a sample scores 1 if its prediction was right, with numbers its absolute error.
    Time and memory a step do not grow, but with the number of classes and environments.

    Args:
        window: how many of the last samples the running value looks at.
        decay: what a sample counts for in the decaying value when the next one comes.

    >>> metric = Prequential(window=4)
    >>> metric.update(torch.tensor([1, 0, 1, 1]), torch.tensor([1, 1, 1, 0]))
    >>> metric.update(torch.tensor([0, 0]), torch.tensor([0, 0]), environments=["night", "night"])
    >>> f"{metric.mean:.3f} {metric.running:.3f} {metric.balanced:.3f}"
    '0.667 0.750 0.667'
    >>> metric.by_environment
    {'night': 1.0}
    """

    def __init__(self, window: int = 1000, decay: float = 0.999) -> None:
        self.window = arguments.whole("window", window, least=1)
        self.decay = arguments.number("decay", decay, above=0)
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
        """Take in what was predicted of samples, and what they were.

        Labels are whole numbers; a prediction of -1 is wrong. Everything else is numbers.
        """
        if predicted.shape != actual.shape or actual.dim() != 1:
            raise ValueError(
                f"predicted and actual must have one value a sample, got shapes "
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
            now = self.running
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
        """Over all samples so far."""
        return self._total / self.count if self.count else math.nan

    @property
    def root_mean_square(self) -> float:
        """Of the errors, for numbers."""
        return math.sqrt(self._squares / self.count) if self.count else math.nan

    @property
    def running(self) -> float:
        """Over the last `window` samples."""
        return self._recent_sum / min(self.count, self.window) if self.count else math.nan

    @property
    def decaying(self) -> float:
        """Over all samples, older ones counting less and less."""
        return self._fading / self._weight if self._weight else math.nan

    @property
    def anytime(self) -> float:
        """The mean of `running` over all times since the window was full first."""
        return self._anytime / self._times if self._times else self.running

    @property
    def worst(self) -> float:
        """The worst `running` since the window was full first."""
        return self.running if math.isnan(self._worst) else self._worst

    @property
    def by_class(self) -> dict[int, float]:
        """The accuracy on each class that has come."""
        came, right = self._classes.tolist()
        return {at: right[at] / count for at, count in enumerate(came) if count}

    @property
    def balanced(self) -> float:
        """The mean of the accuracies on the classes that have come."""
        found = self.by_class
        return sum(found.values()) / len(found) if found else math.nan

    @property
    def by_environment(self) -> dict[str, float]:
        """The mean over the samples of each environment."""
        return {name: total / count for name, (count, total) in self._environments.items()}

    def summary(self) -> dict[str, float]:
        """All of it as numbers."""
        names = ["count", "mean", "running", "decaying", "anytime", "worst"]
        names.append("balanced" if self._classes.numel() else "root_mean_square")
        return {name: getattr(self, name) for name in names}

    def state_dict(self) -> dict[str, Any]:
        """All that it knows."""
        return {key.lstrip("_"): value for key, value in vars(self).items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        for key in vars(self):
            value = state[key.lstrip("_")]
            vars(self)[key] = value.clone() if isinstance(value, Tensor) else value


class Cost:
    """Seconds that steps take: put each into a `with`.

    >>> cost = Cost()
    >>> for _ in range(3):
    ...     with cost:
    ...         _ = sum(range(1000))
    >>> cost.steps, 0 < cost.seconds <= cost.worst < 1
    (3, True)
    """

    def __init__(self) -> None:
        self.steps, self.total, self.worst = 0, 0.0, 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = perf_counter()

    def __exit__(self, *_: object) -> None:
        took = perf_counter() - self._began
        self.steps, self.total, self.worst = (
            self.steps + 1,
            self.total + took,
            max(self.worst, took),
        )

    @property
    def seconds(self) -> float:
        """Of a step, in the mean."""
        return self.total / self.steps if self.steps else math.nan


def memory() -> float:
    """MiB of memory that this process holds.

    >>> memory() > 10
    True
    """
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    except (OSError, ValueError):  # not Linux
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


@lru_cache(maxsize=16)
def _powers(decay: float, rows: int) -> Tensor:
    """What each of so many samples that came together counts."""
    return decay ** torch.arange(rows - 1, -1, -1, dtype=torch.float64)


# On held-out sets: accuracies by time (rows) and set (columns)


def anytime(accuracy: Tensor) -> float:
    """The mean over all times of the mean over the sets.

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
    """How far each set is at the end below the best that it was before, in the mean.

    >>> forgetting(torch.tensor([[0.75, 0.0], [0.5, 1.0], [0.25, 0.75]]))
    0.375
    """
    values = _matrix(accuracy)
    return float((values.max(0).values - values[-1]).mean())


def backward_transfer(accuracy: Tensor, learned: Sequence[int]) -> float:
    """How much better each set is at the end than when it had just been learned, in the mean.

    `learned` says for each set the time (the row) at which it had.

    >>> backward_transfer(torch.tensor([[0.75, 0.0], [0.5, 1.0], [0.25, 0.75]]), learned=[0, 1])
    -0.375
    """
    values = _matrix(accuracy)
    if len(learned) != values.shape[1]:
        raise ValueError(
            f"learned must have one time a set: there are {values.shape[1]} sets, got {learned}"
        )
    then = values[torch.tensor(learned), torch.arange(values.shape[1])]
    return float((values[-1] - then).mean())


def _matrix(accuracy: Tensor) -> Tensor:
    values = torch.as_tensor(accuracy, dtype=torch.float64)
    if values.dim() != 2 or not values.numel():
        raise ValueError(
            f"accuracy must have a row a time and a column a set, got shape {list(values.shape)}"
        )
    return values
