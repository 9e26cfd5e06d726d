"""How far replayed samples are learned by heart, by the losses of new and of replayed samples."""

from __future__ import annotations

import math

LEARNED_BY_HEART = 32.0
"""Replayed samples are, if the loss of new ones is higher by this many times theirs."""
MOST = 10.0
"""Outputs are held at most this many times as hard as to begin with."""


def moved(mean: float, value: float, steps: int) -> float:
    """A discounted mean over about so many time steps, with another value in it.

    >>> moved(math.nan, 2.0, 20), moved(2.0, math.nan, 20), moved(2.0, 4.0, 20)
    (2.0, 2.0, 2.1)
    """
    if math.isnan(value):
        return mean
    return value if math.isnan(mean) else mean + (value - mean) / steps


def share(new: float, replayed: float) -> float:
    """How far replayed samples are learned by heart, from 0 to 1; 1 without any.

    >>> share(0.5, 0.5), share(17.0, 1.0), share(9.0, 0.1)
    (0.0, 0.25, 1.0)
    """
    if math.isnan(replayed) or new >= (LEARNED_BY_HEART + 1) * max(0.0, replayed):
        return 1.0
    return max(0.0, (new / replayed - 1) / LEARNED_BY_HEART) ** 2


def firmness(recent: float, usual: float, replayed: float) -> float:
    """How hard to hold outputs, for the recent and the usual loss of new samples and of replayed.

    The more the loss of new samples exceeds that of replayed ones, the less there is to learn from
    the labels of these, and what the model said of them matters more. While new samples are harder
    than usual, something changes, and outputs may change with it. Only ratios count. A loss that
    may be negative has none.

    >>> firmness(0.5, 0.5, 0.5), firmness(0.5, 0.5, 0.1), firmness(1.0, 0.5, 0.1)
    (1.0, 5.0, 1.25)
    >>> firmness(0.5, 0.5, 1e-9), firmness(0.5, -0.5, 0.1)
    (10.0, 1.0)
    """
    if not (recent > 0 and usual > 0 and replayed > 0):  # also if one is not known yet
        return 1.0
    return min(MOST, usual / replayed) * min(1.0, usual / recent) ** 2
