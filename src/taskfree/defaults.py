"""What a learner uses for `when`, `which` and `how` unless told otherwise."""

from __future__ import annotations

from typing import Literal, TypeAlias

from taskfree.how import MAS, Regularizer
from taskfree.how.several import Several
from taskfree.when import Never, Settled, Trigger
from taskfree.which import Buffer, Hardest

STRENGTH = 0.01
"""Strength of the relative penalty: see `MAS`."""
CAPACITY = 30
"""Samples in the buffer."""

Auto: TypeAlias = Literal["auto"]


def trigger(given: Trigger | Auto | None) -> Trigger:
    """`Settled()` for `"auto"`, `Never()` for None.

    >>> trigger("auto").window_mean, trigger(None).armed
    (nan, False)
    """
    if given is None:
        return Never()
    return Settled() if given == "auto" else given


def buffer(given: Buffer | Auto | None) -> Buffer | None:
    """`Hardest(30)` for `"auto"`.

    >>> buffer("auto").capacity
    30
    """
    return Hardest(CAPACITY) if given == "auto" else given


def regularizer(
    given: Regularizer | list[Regularizer] | Auto | None,
) -> Regularizer | None:
    """`MAS(0.01, penalty="relative")` for `"auto"`; one regularizer that acts for a list of them.

    >>> regularizer("auto").strength
    0.01
    """
    if given == "auto":
        return MAS(STRENGTH, penalty="relative")
    return Several(given) if isinstance(given, list) else given
