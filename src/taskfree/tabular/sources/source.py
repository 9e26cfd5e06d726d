"""The interface of a source of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Picker: TypeAlias = Callable[[Any], list[Any]]
"""From a row's values to a list of some columns' values."""
Position: TypeAlias = tuple[int, int]
"""Where a row starts: bytes (or rows) and lines before it."""
START: Position = (0, 0)


class Row(NamedTuple):
    """One row of a source."""

    number: int
    """The line it starts at, or its index; from 1."""
    values: Any
    """A list in the order of the source's columns, or a dict."""
    end: Position
    """Where the next row starts."""
    problem: str = ""
    """Why it cannot be read, if it cannot."""


class Source(ABC):
    """Where rows come from. A source can continue at the end of any of its rows.

    Args:
        name: of the file or folder.
    """

    columns: Sequence[str] = ()
    """The names of the values of a row; empty if rows are dicts."""
    unit = "line"
    """What a row's number counts."""
    live = False
    """Whether it cannot be read again, and more rows may come at any time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = Path(name).parent
        """What file names in it are relative to."""

    @abstractmethod
    def rows(self, start: Position = START) -> Iterator[Row]:
        """All rows from a position on. A row that cannot be read is a row with a problem."""

    @abstractmethod
    def fingerprint(self, position: Position) -> str:
        """A digest of its beginning, by which it is recognized when it continues at a position."""

    def place(self, position: Position) -> dict[str, Any]:
        """What to save, to continue at a position later."""
        at, line = position
        return {"at": at, "line": line, "beginning": self.fingerprint(position)}

    def continue_from(self, saved: Mapping[str, Any]) -> Position:
        """The position to continue at, if it is still the same source."""
        at = (saved["at"], saved["line"])
        size = self.size()
        if (size is not None and size < at[0]) or self.fingerprint(at) != saved["beginning"]:
            raise ValueError(
                f"{self.name} has changed since it was last read: it is shorter, or begins "
                "differently. To learn it from the start, give it another name"
            )
        return at

    def identity(self, row: Row) -> int | str:
        """What an answer says of which row it is: its line or index."""
        return row.number

    def size(self) -> int | None:
        """How much there is, in the unit of positions; None if unknown."""
        return None

    def picker(self, columns: Sequence[str], optional: Collection[str] = ()) -> Picker:
        """A function from a row's values to a list of these columns' values, None if missing."""
        if not self.columns:
            return lambda values: [values.get(name) for name in columns]
        missing = [name for name in columns if name not in self.columns and name not in optional]
        if missing:
            raise ValueError(
                f"{self.name} has no column {', '.join(map(repr, missing))}; it has "
                f"{', '.join(self.columns)}"
            )
        if list(columns) == list(self.columns):
            return lambda values: values
        places = [self.columns.index(n) if n in self.columns else None for n in columns]
        return lambda values: [None if at is None else values[at] for at in places]
