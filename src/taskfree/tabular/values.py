"""Values of a row: what is missing, what is a number or a time, and rows that cannot be read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from itertools import islice, pairwise
from typing import Any, Literal, TypeAlias

from taskfree._core.errors import TaskfreeError

MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))
"""How tables write a missing value, in lower case."""

ColumnKind: TypeAlias = Literal["number", "category", "time", "text"]
MOST = 0.9
"""A column is of a kind if this share of its present values is."""
AROUND_NUMBERS = re.compile(r"[\s\u00a0\u202f'_$€£¥%]")
"""What is left out of a number: spaces, apostrophes, signs of money and percent."""
DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%b %d %Y",
         "%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%B %d, %Y", "%d.%m.%y", "%Y%m%d")  # fmt: skip
CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
"""Formats of dates and of the time behind them, besides ISO's."""
EPOCHS = {"seconds": 1.0, "milliseconds": 1e-3}
TIME_NAME = re.compile(r"time|date|epoch|stamp|when", re.IGNORECASE)
"""What a column of seconds since 1970 must be called."""
WORDS = 3
"""Text has this many words in half of its values."""


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


def text_of(value: Any) -> str:
    r"""A value as text that can be written anywhere: halves of characters become question marks.

    >>> text_of(3), text_of("half of one: \ud83d")
    ('3', 'half of one: ?')
    """
    text = str(value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def kind_of(values: Sequence[Any], name: str = "") -> tuple[ColumnKind, str]:
    """The kind of a column, and the format of its numbers or times.

    Args:
        values: some of it.
        name: its name; seconds since 1970 are a time only in a column that is called so.

    >>> kind_of(["1.5", "", "-2e3"]), kind_of(["red", "1"]), kind_of([None, ""])
    (('number', ''), ('category', ''), ('number', ''))
    >>> kind_of(["1.234,50 €", "7,5 €"]), kind_of(["$1,234", "$5"])
    (('number', 'comma'), ('number', 'point'))
    >>> kind_of(["2013-01-01T05:00", "2013-01-02"]), kind_of(["24.12.2013 18:00"])
    (('time', 'iso'), ('time', '%d.%m.%Y %H:%M'))
    >>> kind_of(["A word or two, no more", "What a day this was"])
    ('text', '')
    """
    present = [value for value in values if not is_missing(value)]

    def most(read: Callable[..., Any], *form: str) -> bool:
        failures = (value for value in present if not _works(read, value, *form))
        allowed = len(present) - math.ceil(MOST * len(present))
        return next(islice(failures, allowed, None), None) is None  # stops when there are more

    if most(float):
        if present and TIME_NAME.search(name):
            numbers = [float(value) for value in present if _works(float, value)]
            for epoch, scale in EPOCHS.items():
                if all(5e8 <= number * scale < 4e9 for number in numbers):
                    return "time", epoch
        return "number", ""
    for form in _number_formats(present):
        if most(read_number, form):
            return "number", form
    forms = ("iso", *(day + clock for day in DATES for clock in CLOCKS))
    sample = present[0] if present else ""
    if not isinstance(sample, str) or any(map(str.isdigit, sample)):
        fit = [form for form in forms if most(read_time, form)]
        if fit:  # 01/02 may be two days
            return "time", max(fit, key=lambda form: _plausible(present, form))
    distinct = set(map(str, present))
    wordy = sum(len(value.split()) >= WORDS for value in distinct)
    if len(distinct) > len(present) / 2 and wordy >= len(distinct) / 2:
        return "text", ""
    return "category", ""


def _plausible(values: Sequence[Any], form: str) -> tuple[int, float]:
    """How plausible a format is: how many times are in order, and how little time they span."""
    times = [read_time(value, form) for value in values if _works(read_time, value, form)]
    span = (max(times) - min(times)).total_seconds()
    return sum(one <= other for one, other in pairwise(times)), -span


def _works(read: Callable[..., Any], value: Any, *form: str) -> bool:
    try:
        read(value, *form)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _number_formats(values: Sequence[Any]) -> list[str]:
    """How numbers may be written: the decimal sign is the last of both, or what is no group."""
    texts = [AROUND_NUMBERS.sub("", value) for value in values if isinstance(value, str)]
    both = [text for text in texts if "," in text and "." in text]
    if both:
        return ["comma" if both[0].rfind(",") > both[0].rfind(".") else "point"]
    grouped = all(
        re.fullmatch(r"[-+]?[1-9]\d{0,2}(,\d{3})+", text) for text in texts if "," in text
    )
    return ["point"] if grouped else ["comma"]


def read_number(value: Any, form: str) -> float:
    """A number with a decimal point or comma, with groups, money or percent.

    >>> read_number("1,234.5 %", "point"), read_number("€ -1.234,5", "comma")
    (1234.5, -1234.5)
    """
    if not form or not isinstance(value, str):
        return float(value)
    text = AROUND_NUMBERS.sub("", value)
    if form == "comma":
        text = text.replace(".", "").replace(",", ".")
    return float(text.replace(",", ""))


def read_time(value: Any, form: str) -> datetime:
    """A time in a format: `iso`, `seconds` or `milliseconds` since 1970, or one of `strptime`.

    >>> read_time("2013-01-01", "iso"), read_time(86400, "seconds")
    (datetime.datetime(2013, 1, 1, 0, 0), datetime.datetime(1970, 1, 2, 0, 0))
    """
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, date):
        return datetime.combine(value, datetime.min.time())
    if form in EPOCHS:
        return datetime.fromtimestamp(float(value) * EPOCHS[form], UTC).replace(tzinfo=None)
    if not isinstance(value, str):
        raise TypeError(f"a time must be text, got {value!r}")
    text = value.strip()
    if form == "iso":
        if text.isdigit():
            raise ValueError("digits alone are a number")
        return datetime.fromisoformat(text).replace(tzinfo=None)
    return datetime.strptime(text, form)  # noqa: DTZ007 - it has none
