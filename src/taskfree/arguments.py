"""Checks of arguments, whose errors name the argument, what came and what to do."""

from __future__ import annotations

import math
from typing import Any


def whole(name: str, value: Any, least: int) -> int:
    """Check that `value` is a whole number of at least `least`.

    >>> whole("capacity", 2.5, 1)
    Traceback (most recent call last):
    ...
    TypeError: capacity must be a whole number of at least 1, got 2.5
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number of at least {least}, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value}")
    return value


def number(
    name: str, value: Any, *, least: float = -math.inf, above: float = -math.inf, hint: str = ""
) -> float:
    """Check that `value` is a number in range, and not nan. With `least`, it must be finite too.

    >>> number("strength", -1, least=0, hint="0 switches the penalty off")
    Traceback (most recent call last):
    ...
    ValueError: strength must be finite and at least 0, got -1; 0 switches the penalty off
    """
    if least > -math.inf:
        wanted = f"finite and at least {least:g}"
    else:
        wanted = "a number" if above == -math.inf else f"above {above:g}"
    told = f"{name} must be {wanted}, got {value!r}" + (f"; {hint}" if hint else "")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(told)
    in_range = least <= value < math.inf if least > -math.inf else value > above
    if not in_range:
        raise ValueError(told)
    return float(value)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Check that `value` is one of the named choices.

    >>> one_of("accumulate", "average", ("mean", "decay"))
    Traceback (most recent call last):
    ...
    ValueError: accumulate must be 'mean' or 'decay', got 'average'
    """
    if value not in choices:
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}")
    return str(value)
