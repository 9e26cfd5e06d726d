"""What a learner uses for `when`, `which` and `how` unless told otherwise."""

from __future__ import annotations

from typing import Literal, TypeAlias

from taskfree.how import MAS, Regularizer, Teacher
from taskfree.how.several import Several
from taskfree.when import Never, Settled, Trigger
from taskfree.which import Buffer, Reservoir

CAPACITY = 500
"""Samples in the buffer."""
STRENGTH = 0.01
"""Strength of the relative penalty on parameters: see `MAS`."""
COVER = 200
"""From this many samples in the buffer on, there is no such penalty."""

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
    """`Reservoir(500, balanced="auto")` for `"auto"`.

    >>> buffer("auto").capacity
    500
    """
    return Reservoir(CAPACITY, balanced="auto") if given == "auto" else given


def regularizer(
    given: Regularizer | list[Regularizer] | Auto | None,
) -> Regularizer | None:
    """A teacher and, for small buffers, MAS for `"auto"`; one that acts for a list of several.

    >>> [type(part).__name__ for part in regularizer("auto").parts]
    ['Teacher', 'MAS']
    """
    if given == "auto":
        given = [Teacher(), MAS(STRENGTH, penalty="relative", cover=COVER)]
    return Several(given) if isinstance(given, list) else given
