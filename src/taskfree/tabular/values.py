"""Values of a row: what is missing, what is a number, and rows that cannot be read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from taskfree._core.errors import TaskfreeError

MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))
"""How tables write a missing value, in lower case."""

ColumnKind: TypeAlias = Literal["number", "category"]


class RowError(TaskfreeError, ValueError):
    """A row that cannot be learned from; the message says why. Nothing of it was used.

    >>> issubclass(RowError, ValueError)
    True
    """


def is_missing(value: Any) -> bool:
    """Whether a value is a missing one.

    >>> is_missing(" NA "), is_missing(None), is_missing(0)
    (True, True, False)
    """
    if value is None:
        return True
    if isinstance(value, str):
        return value.strip().lower() in MISSING
    return isinstance(value, float) and math.isnan(value)


def kind_of(values: Sequence[Any]) -> ColumnKind:
    """The kind of a column: `"number"` if nine of ten present values are, else `"category"`.

    >>> kind_of(["1.5", "", "-2e3"]), kind_of(["red", "1"]), kind_of([None, ""])
    ('number', 'category', 'number')
    """
    present = [value for value in values if not is_missing(value)]
    return "number" if sum(map(_is_number, present)) >= 0.9 * len(present) else "category"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
