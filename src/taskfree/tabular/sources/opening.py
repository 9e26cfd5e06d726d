"""Opening a source by its name."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any, Literal, TypeAlias

from taskfree._core import validation
from taskfree.tabular.sources.arrow import ArrowSource
from taskfree.tabular.sources.images import ImageFolderSource
from taskfree.tabular.sources.source import Source
from taskfree.tabular.sources.text import CSVSource, JSONLinesSource

Format: TypeAlias = Literal["auto", "csv", "jsonl", "parquet", "arrow"]
FORMATS = ("csv", "jsonl", "parquet", "arrow")
ENDINGS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".json": "jsonl", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow",
    ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip


def open_source(name: str, form: str | None = None, delimiter: str | None = None) -> Source:
    """The source of a name: a file, a folder of images, or `-` for standard input.

    Args:
        name: of the file or folder.
        form: `csv`, `jsonl`, `parquet` or `arrow`; None or `auto` goes by the name.
        delimiter: of a CSV file; detected in its first line if None.
    """
    form = None if form == "auto" else form
    if form is not None:
        validation.choice("format", form, FORMATS)
    if name == "-":
        return _standard_input(form, delimiter)
    path = Path(name)
    if not path.exists():
        raise ValueError(f"there is no {name}")
    if path.is_dir():
        return ImageFolderSource(name)
    if form is None:
        ending = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
        if (form := ENDINGS.get(ending.lower())) is None:
            raise ValueError(
                f"the format of {name} is not clear from its name: pass --format, one of "
                f"{', '.join(FORMATS)}"
            )
    if form in ("parquet", "arrow"):
        return ArrowSource(name, form)
    return CSVSource(name, None, delimiter) if form == "csv" else JSONLinesSource(name)


def _standard_input(form: str | None, delimiter: str | None) -> Source:
    # `sys.stdin` has a buffer that is closed at exit, which fails while a thread waits for input.
    stream: Any = io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
    if form is None:
        form = "jsonl" if stream.peek(1)[:1] == b"{" else "csv"
    if form not in ("csv", "jsonl"):
        raise ValueError(f"standard input must be csv or jsonl, got format {form!r}")
    if form == "csv":
        return CSVSource("standard input", stream, delimiter)
    return JSONLinesSource("standard input", stream)
