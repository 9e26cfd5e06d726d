"""Rows as lines of text: CSV and JSON lines."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import zlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from taskfree.tabular.sources.source import START, Position, Row, Source
from taskfree.tabular.values import text_of

BEGINNING = 2**16
"""Bytes by which a file is recognized."""
MOST_LINES = 1000
"""A row of a CSV file has at most so many lines."""


class _LongRowError(Exception):
    """A row of too many lines."""


class _Lines:
    """The lines of a binary file as text, with their positions."""

    def __init__(self, file: IO[bytes], start: Position) -> None:
        self.file = file
        self.end, self.count = start
        self.unreadable = False
        """Whether a line of the row was not UTF-8."""
        self.taken: list[bytes] = []
        """The lines of the row."""
        self.problem = ""
        """Why nothing can be read any more, if it is not the end."""
        self._back: deque[bytes] = deque()

    def begin_row(self) -> None:
        """The next line is the first of a row."""
        self.unreadable = False
        self.taken.clear()

    def give_back(self) -> None:
        """Read all lines of the row but the first again."""
        rest = self.taken[1:]
        self._back.extendleft(reversed(rest))
        self.end -= sum(map(len, rest))
        self.count -= len(rest)
        del self.taken[1:]

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if len(self.taken) >= MOST_LINES:
            raise _LongRowError
        raw = self._back.popleft() if self._back else self._read()
        if not raw:
            raise StopIteration
        self.end += len(raw)
        self.count += 1
        self.taken.append(raw)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.unreadable = True
            return raw.decode(errors="replace")

    def _read(self) -> bytes:
        try:
            return self.file.readline()
        except (EOFError, OSError, zlib.error) as error:  # an archive that is cut off, for example
            self.problem = f"cannot be read, and nothing behind it: {error}"
            return b""


class _TextSource(Source):
    """A source of lines: a file, gzip-compressed or not, or standard input."""

    def __init__(self, name: str, stream: IO[bytes] | None = None) -> None:
        super().__init__(name)
        self.stream, self.live = stream, stream is not None
        self._read_header()

    def _read_header(self) -> None:
        pass

    def _open(self) -> Any:
        if self.stream is not None:
            return self.stream
        if self.name.endswith(".gz"):
            return gzip.open(self.name, "rb")
        return Path(self.name).open("rb")

    def _lines(self, start: Position) -> tuple[_Lines, list[Row]]:
        """The lines from a position on, and the rest of a line that was incomplete there."""
        file, cut = self._open(), list[Row]()
        if start[0]:
            file.seek(start[0] - 1)
            if file.read(1) != b"\n":
                rest = file.readline()
                start = (start[0] + len(rest), start[1])
                if rest.strip():
                    problem = "was learned before it was complete"
                    cut.append(Row(start[1], None, start, problem))
        return _Lines(file, start), cut

    def fingerprint(self, position: Position) -> str:
        """A digest of the first bytes that were read."""
        with self._open() as file:
            return hashlib.sha256(file.read(min(position[0], BEGINNING))).hexdigest()

    def size(self) -> int | None:
        """Bytes."""
        if self.stream is not None or self.name.endswith(".gz"):
            return None
        return Path(self.name).stat().st_size


class CSVSource(_TextSource):
    """A CSV file with the names of the columns in its first line.

    Args:
        name: of the file.
        stream: read instead of the file.
        delimiter: between values; the most frequent of `,;|` and tab in the first line if None.
    """

    def __init__(
        self, name: str, stream: IO[bytes] | None = None, delimiter: str | None = None
    ) -> None:
        self.delimiter = delimiter
        super().__init__(name, stream)

    def _read_header(self) -> None:
        file = self._open()
        first = file.readline()
        self._header = len(first)
        if self.stream is None:
            file.close()
        try:
            text = first.decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.name} does not start with a line of text: {error}") from None
        if not text:
            raise ValueError(f"{self.name} must start with a line of column names, but is empty")
        if self.delimiter is None:
            self.delimiter = max(",;\t|", key=text.count)
        self.columns = [name.strip() for name in next(csv.reader([text], delimiter=self.delimiter))]
        twice = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if twice:
            raise ValueError(f"{self.name} has more than one column {', '.join(map(repr, twice))}")

    def rows(self, start: Position = START) -> Iterator[Row]:
        """All rows from a position on."""
        if start == START:
            start = (self._header, 1)
        if self.stream is not None:
            lines = _Lines(self.stream, (0, 1))  # its header has been read
        else:
            lines, cut = self._lines(start)
            yield from cut
        with lines.file:
            yield from self._rows(lines)

    def _rows(self, lines: _Lines) -> Iterator[Row]:
        reader, wide = self._reader(lines), len(self.columns)
        while True:
            number, problem = lines.count + 1, ""
            lines.begin_row()
            try:
                values = next(reader)
            except StopIteration:
                if lines.problem:
                    yield Row(number, None, (lines.end, lines.count), lines.problem)
                return
            except (csv.Error, _LongRowError) as error:
                values = []
                problem = str(error) or f"has a quote that is not closed in {MOST_LINES} lines"
            if len(values) == wide and not lines.unreadable:
                yield Row(number, values, (lines.end, lines.count))
                continue
            if not problem and values:
                problem = f"has {len(values)} values and there are {wide} columns"
            if lines.unreadable:
                problem = "is not UTF-8"
            if len(lines.taken) > 1:  # perhaps a stray quote: its other lines are rows
                lines.give_back()
                reader = self._reader(lines)
            if problem:
                yield Row(number, None, (lines.end, lines.count), problem)

    def _reader(self, lines: _Lines) -> Iterator[list[str]]:
        return csv.reader(lines, delimiter=self.delimiter or ",")


class JSONLinesSource(_TextSource):
    """One JSON object per line.

    Args:
        name: of the file.
        stream: read instead of the file.
    """

    def rows(self, start: Position = START) -> Iterator[Row]:
        """All rows from a position on."""
        lines, cut = self._lines(start)
        yield from cut
        with lines.file:
            yield from self._rows(lines)

    def _rows(self, lines: _Lines) -> Iterator[Row]:
        for line in lines:
            end, problem, values = (lines.end, lines.count), "", None
            text = line.removeprefix("\ufeff") if lines.count == 1 else line
            unreadable = lines.unreadable
            lines.begin_row()
            if unreadable:
                problem = "is not UTF-8"
            elif not text.strip():
                continue
            else:
                try:
                    values = json.loads(text)
                except (ValueError, RecursionError) as error:
                    problem = f"is not JSON: {error}"
                if not problem and not isinstance(values, dict):
                    problem = f"must be an object, got a {type(values).__name__}"
                elif values and "\\u" in text:  # there may be halves of characters
                    values = {text_of(name): value for name, value in values.items()}
            yield Row(lines.count, None if problem else values, end, problem)
        if lines.problem:
            yield Row(lines.count + 1, None, (lines.end, lines.count), lines.problem)
