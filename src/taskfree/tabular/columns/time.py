"""Columns of times: the hour, the weekday, the season, and how long ago the first row was."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import torch

from taskfree.tabular.columns.inputs import Inputs, Written
from taskfree.tabular.values import RowError, is_missing, read_time

WAVES = 2
"""Sine and cosine of the day and of the year, and of half of each."""
PARTS = 2 * WAVES + 7 + 2 * WAVES
"""Inputs: of the hour, of the weekday, of the season."""
DAY, YEAR = 86400.0, 365.2425
EPOCH = datetime.fromisoformat("1970-01-01")


class TimeColumn:
    """Times, as what recurs in them and as the days since the first row.

    Args:
        name: of the column.
        form: how they are written: see `values.read_time`.
        inputs: where it writes.

    >>> inputs = Inputs()
    >>> when = TimeColumn("when", "iso", inputs)
    >>> read = [when.read(text) for text in ("2024-05-06T06:00", "2024-05-07T18:00")]
    >>> {name: list(values) for name, values in when.keys(read).items()}
    {'hour of when': ['6', '18'], 'weekday of when': ['0', '1'], 'month of when': ['5', '5']}
    """

    kind = "time"

    def __init__(self, name: str, form: str, inputs: Inputs) -> None:
        self.name, self.form, self._inputs = name, form, inputs
        self.place = inputs.take_number()
        self.number = len(inputs.scaled) - 1
        self.first = inputs.take(PARTS)

    def read(self, value: Any) -> datetime | None:
        """The time."""
        if is_missing(value):
            return None
        try:
            return read_time(value, self.form)
        except (TypeError, ValueError, OverflowError, OSError):
            raise RowError(f"{self.name} must be a time, got {value!r}") from None

    def write(self, values: Sequence[datetime | None], to: Written, learn: bool) -> None:
        """All parts; none of a missing time."""
        del learn
        to.fit(self._inputs)
        for row, value in enumerate(values):
            if value is None:
                continue
            days = (value - EPOCH).total_seconds() / DAY
            to.numbers[row, self.number] = days
            hour, season = days % 1, (value.timetuple().tm_yday - 1) / YEAR
            week = [float(value.weekday() == day) for day in range(7)]
            parts = [*_waves(hour), *week, *_waves(season)]
            to.values[row, self.first : self.first + PARTS] = torch.tensor(parts).double()

    def keys(self, values: Sequence[datetime | None]) -> Mapping[str, Sequence[str | None]]:
        """Hour, weekday and month."""

        def each(part: Any) -> list[str | None]:
            return [None if value is None else str(part(value)) for value in values]

        return {
            f"hour of {self.name}": each(lambda time: time.hour),
            f"weekday of {self.name}": each(datetime.weekday),
            f"month of {self.name}": each(lambda time: time.month),
        }

    def names(self) -> Mapping[int, str]:
        """The parts."""
        waves = [f"{part} {wave}" for wave in range(1, WAVES + 1) for part in ("sine", "cosine")]
        hours, seasons = ([f"{one} {wave}" for wave in waves] for one in ("day", "year"))
        parts = [*hours, *(f"weekday {day}" for day in range(7)), *seasons]
        found = {self.first + at: f"{self.name} {part}" for at, part in enumerate(parts)}
        return {self.place: f"{self.name} days", **found}

    def text(self, inputs: Mapping[int, float]) -> str:
        """The time."""
        if self.place not in inputs:
            return "missing"
        return (EPOCH + timedelta(days=inputs[self.place])).isoformat(" ", "seconds")

    def state_dict(self) -> dict[str, Any]:
        """Its inputs."""
        return {"place": self.place, "number": self.number, "first": self.first}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.place, self.number, self.first = (state[name] for name in ("place", "number", "first"))


def _waves(phase: float) -> list[float]:
    """Sines and cosines of a phase from 0 to 1.

    >>> [round(value, 6) for value in _waves(0.25)]
    [1.0, 0.0, 0.0, -1.0]
    """
    angles = [2 * math.pi * wave * phase for wave in range(1, WAVES + 1)]
    return [part(angle) for angle in angles for part in (math.sin, math.cos)]
