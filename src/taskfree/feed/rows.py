"""Rows in the order they come: CSV, JSON lines, Parquet, Arrow, standard input, pictures.

A source can begin where it was left: each row says where the next one begins. A row that cannot be
read is a row too, with what is wrong with it.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from taskfree import arguments

__all__ = ["Picker", "Row", "Source", "open_source"]

FORMATS = ("csv", "jsonl", "parquet", "arrow", "images")
ENDINGS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".json": "jsonl", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow",
    ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
BEGINNING = 2**16
"""Bytes by which a file is known again."""


class Row(NamedTuple):
    """One row of a source."""

    number: int
    """The line it begins at, or which row it is; from 1."""
    values: Any
    """A list in the order of the source's columns, or a dict."""
    end: tuple[int, int]
    """Where the next row begins: bytes (or rows) and lines before it."""
    problem: str = ""
    """Why it cannot be read, if it cannot."""


START = (0, 0)


class Source:
    """Where rows come from.

    `columns` are the names of the values of a row; empty if rows are dicts.
    """

    columns: Sequence[str] = ()
    unit = "line"
    """What a row's number counts."""
    live = False
    """Whether it cannot be read again, and more may come at any time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = Path(name).parent
        """What the names of files in it are relative to."""

    def rows(self, start: tuple[int, int] = START) -> Iterator[Row]:
        """All rows from a place on."""
        raise NotImplementedError

    def beginning(self, place: tuple[int, int]) -> str:
        """What it is known by when it is continued from a place: a digest of its beginning."""
        raise NotImplementedError

    def size(self) -> int | None:
        """How much there is, in what places count; None if nobody knows."""
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


Picker = Callable[[Any], list[Any]]


class _Lines:
    """The lines of a binary file as text, which counts what it has given, and closes it."""

    def __init__(self, file: IO[bytes], start: tuple[int, int]) -> None:
        self.file = file
        self.end, self.count = start
        self.unreadable = False
        """Whether a line since this was last set to False was no text."""

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


class _Text(Source):
    """A source of lines: a file, compressed with gzip or not, or standard input."""

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
        return open(self.name, "rb")

    def _lines(self, start: tuple[int, int]) -> tuple[_Lines, list[Row]]:
        """The lines from a place on, and what is left of one that was cut there."""
        file, cut = self._open(), list[Row]()
        if start[0]:
            file.seek(start[0] - 1)
            if file.read(1) != b"\n":
                rest = file.readline()
                start = (start[0] + len(rest), start[1])
                if rest.strip():
                    problem = "goes on, and was learned before it was complete"
                    cut.append(Row(start[1], None, start, problem))
        return _Lines(file, start), cut

    def beginning(self, place: tuple[int, int]) -> str:
        """A digest of the first bytes that were read."""
        with self._open() as file:
            return hashlib.sha256(file.read(min(place[0], BEGINNING))).hexdigest()

    def size(self) -> int | None:
        """Bytes."""
        if self.stream is not None or self.name.endswith(".gz"):
            return None
        return Path(self.name).stat().st_size


class CSV(_Text):
    """A table as text, with the names of its columns in the first line."""

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
            raise ValueError(f"{self.name} does not begin with a line of text: {error}") from None
        if not text:
            raise ValueError(f"{self.name} must begin with a line of column names, and is empty")
        if self.delimiter is None:
            self.delimiter = max(",;\t|", key=text.count)
        self.columns = [name.strip() for name in next(csv.reader([text], delimiter=self.delimiter))]
        twice = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if twice:
            raise ValueError(f"{self.name} has more than one column {', '.join(map(repr, twice))}")

    def rows(self, start: tuple[int, int] = START) -> Iterator[Row]:
        """All rows from a place on."""
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


class JSONLines(_Text):
    """One JSON object a line."""

    def rows(self, start: tuple[int, int] = START) -> Iterator[Row]:
        """All rows from a place on."""
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
                    problem = f"must be an object with names, is a {type(values).__name__}"
            yield Row(lines.count, None if problem else values, end, problem)


class Arrow(Source):
    """A Parquet or Arrow file."""

    unit = "row"

    def __init__(self, name: str, form: str) -> None:
        super().__init__(name)
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ModuleNotFoundError:
            raise ValueError(f"{name} needs pyarrow: pip install 'taskfree[learn]'") from None
        try:
            if form == "parquet":
                file = pq.ParquetFile(name)
                self._batches: Callable[[], Iterator[Any]] = lambda: file.iter_batches(4096)
                self._rows, schema = file.metadata.num_rows, file.schema_arrow
            else:
                table = _arrow(pa, name)
                self._batches = lambda: iter(table.to_batches(4096))
                self._rows, schema = table.num_rows, table.schema
        except pa.ArrowException as error:
            raise ValueError(f"{name} cannot be read as {form}: {error}") from None
        self.columns = schema.names
        self._schema = str(schema)

    def rows(self, start: tuple[int, int] = START) -> Iterator[Row]:
        """All rows from a place on."""
        done = 0
        for batch in self._batches():
            if done + batch.num_rows > start[0]:
                columns = [column.to_pylist() for column in batch.columns]
                for at, values in enumerate(zip(*columns, strict=True), done):
                    if at >= start[0]:
                        yield Row(at + 1, list(values), (at + 1, at + 1))
            done += batch.num_rows

    def beginning(self, place: tuple[int, int]) -> str:
        """A digest of the columns; the file's own end moves when it grows."""
        return hashlib.sha256(self._schema.encode()).hexdigest()

    def size(self) -> int | None:
        """Rows."""
        return int(self._rows)


def _arrow(pa: Any, name: str) -> Any:
    """The table in a file of Arrow's file or stream format."""
    with pa.memory_map(name) as source:
        try:
            return pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source).read_all()


class Images(Source):
    """The pictures in a folder and its subfolders, in the order of their names.

    A picture's label is the name of the folder that it is in.
    """

    unit = "picture"
    columns = ("image", "label")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        found = (file for file in Path(name).rglob("*") if file.suffix.lower() in PICTURES)
        self._files = sorted(found, key=lambda file: (file.name, str(file)))
        if not self._files:
            raise ValueError(f"{name} holds no pictures ({', '.join(PICTURES)})")
        self.folder = Path(name)

    def rows(self, start: tuple[int, int] = START) -> Iterator[Row]:
        """All rows from a place on."""
        for at, file in enumerate(self._files[start[0] :], start[0] + 1):
            yield Row(at, [str(file.relative_to(self.folder)), file.parent.name], (at, at))

    def beginning(self, place: tuple[int, int]) -> str:
        """A digest of the names of the pictures that were read."""
        names = "\n".join(file.name for file in self._files[: place[0]])
        return hashlib.sha256(names.encode()).hexdigest()

    def size(self) -> int | None:
        """Pictures."""
        return len(self._files)


def _standard_input() -> Any:
    """Standard input with a buffer of its own.

    That of `sys.stdin` is closed at the end, which fails while a thread waits for more to come.
    """
    return io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))


def open_source(name: str, form: str | None = None, delimiter: str | None = None) -> Source:
    """The source of a name: a file, a folder of pictures, or `-` for standard input.

    Args:
        name: where the rows are.
        form: `csv`, `jsonl`, `parquet`, `arrow` or `images`; judged by the name if not said.
        delimiter: between the values of a CSV; judged by its first line if not said.
    """
    if form is not None:
        arguments.one_of("format", form, FORMATS)
    if name == "-":
        stream = _standard_input()
        if form is None:
            form = "jsonl" if stream.peek(1)[:1] == b"{" else "csv"
        if form not in ("csv", "jsonl"):
            raise ValueError(f"standard input must be csv or jsonl, got format {form!r}")
        if form == "csv":
            return CSV("standard input", stream, delimiter)
        return JSONLines("standard input", stream)
    path = Path(name)
    if not path.exists():
        raise ValueError(f"there is no {name}")
    if path.is_dir():
        return Images(name)
    if form is None:
        ending = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
        if (form := ENDINGS.get(ending.lower())) is None:
            raise ValueError(
                f"the name of {name} does not say what it is: pass --format, one of "
                f"{', '.join(FORMATS)}"
            )
    if form in ("parquet", "arrow"):
        return Arrow(name, form)
    return CSV(name, None, delimiter) if form == "csv" else JSONLines(name)
