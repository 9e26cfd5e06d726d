"""Rows of Parquet and Arrow files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from taskfree.tabular.sources.source import START, Position, Row, Source


class ArrowSource(Source):
    """A Parquet or Arrow file.

    Args:
        name: of the file.
        form: `"parquet"` or `"arrow"`.
    """

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

    def rows(self, start: Position = START) -> Iterator[Row]:
        """All rows from a position on."""
        done = 0
        for batch in self._batches():
            if done + batch.num_rows > start[0]:
                columns = [column.to_pylist() for column in batch.columns]
                for at, values in enumerate(zip(*columns, strict=True), done):
                    if at >= start[0]:
                        yield Row(at + 1, list(values), (at + 1, at + 1))
            done += batch.num_rows

    def fingerprint(self, position: Position) -> str:
        """A digest of the columns; the end of the file moves when it grows."""
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
