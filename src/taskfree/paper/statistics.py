"""Mean and spread over the seeds of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import mean, stdev
from typing import Literal, TypeAlias

Spread: TypeAlias = Literal["std", "error", "interval"]


def mean_and_spread(values: Sequence[float], spread: Spread = "std") -> list[float]:
    """The mean and a measure of spread, rounded to four digits.

    Args:
        values: one per seed.
        spread: `"std"`, the sample standard deviation; `"error"`, the standard error of the mean;
            `"interval"`, half the width of the 95 % confidence interval of the mean (Student's t).

    >>> mean_and_spread([1.0, 2.0, 3.0]), mean_and_spread([1.0, 2.0, 3.0], "interval")
    ([2.0, 1.0], [2.0, 2.4841])
    """
    count = len(values)
    width = stdev(values) if count > 1 else 0.0
    if spread != "std" and count > 1:
        width /= sqrt(count)
        if spread == "interval":
            from scipy.stats import t

            width *= float(t.ppf(0.975, count - 1))
    return [round(mean(values), 4), round(width, 4)]


def text(spread: Sequence[float], scale: float = 100, digits: int = 1) -> str:
    """A mean and its spread as text, in percent unless another scale is given.

    >>> text([0.915, 0.02])
    '91.5 ± 2.0'
    """
    return " ± ".join(f"{scale * value:.{digits}f}" for value in spread)
