"""Rows as lines of text: CSV and JSON lines."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from taskfree.tabular.sources.source import START, Position, Row, Source
from taskfree.tabular.values import text_of

BEGINNING = 2**16
"""Bytes by which a file is recognized."""


class _Lines:
    """The lines of a binary file as text, with their positions; closes the file at the end."""

    def __init__(self, file: IO[bytes], start: Position) -> None:
        self.file = file
        self.end, self.count = start
        self.unreadable = False
        """Whether a line since this was last set to False was not UTF-8."""

    def __iter__(self) -> Iterator[str]:
        with self.file:
            for raw in self.file:
                self.end += len(raw)
                self.count += 1
                try:
                    yield raw.decode()
                except UnicodeDecodeError:
                    self.unreadable = True
                    yield raw.decode(errors="replace")


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
        reader, wide = csv.reader(lines, delimiter=self.delimiter or ","), len(self.columns)
        while True:
            number, lines.unreadable = lines.count + 1, False
            try:
                values = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield Row(number, None, (lines.end, lines.count), str(error))
                continue
            if len(values) == wide and not lines.unreadable:
                yield Row(number, values, (lines.end, lines.count))
            elif values:
                problem = "is not UTF-8"
                if not lines.unreadable:
                    problem = f"has {len(values)} values and there are {wide} columns"
                yield Row(number, None, (lines.end, lines.count), problem)


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
        for text in lines:
            end, problem, values = (lines.end, lines.count), "", None
            if lines.unreadable:
                lines.unreadable, problem = False, "is not UTF-8"
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
