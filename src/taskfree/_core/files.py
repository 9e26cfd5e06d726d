"""Atomic file writes: a file is there whole, or as it was before."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

UNFINISHED = ".writing"
"""Part of the name of a file that is still being written."""


@contextmanager
def atomic_write(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Write to the temporary file this yields; it then replaces `path` in one step.

    The temporary file keeps the suffix of `path`. If the block raises, it is removed and `path`
    is unchanged. With `durable`, the content and the name are on disk before this returns;
    without, they survive a crash of the process but not necessarily of the machine.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "log.txt"
    ...     with atomic_write(file) as unfinished:
    ...         _ = unfinished.write_text("whole")
    ...     file.read_text(), len(list(file.parent.iterdir()))
    ('whole', 1)
    """
    unfinished = path.with_name(f"{path.stem}{UNFINISHED}{path.suffix}")
    try:
        yield unfinished
        if durable:
            sync(unfinished)
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_bytes(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace a file's content atomically."""
    with atomic_write(path, durable=durable) as unfinished:
        unfinished.write_bytes(content)


def write_json(path: Path, content: Any, *, durable: bool = True) -> None:
    """Replace a file's content by JSON, atomically.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_json(Path(folder) / "step.json", {"step": 3})
    ...     (Path(folder) / "step.json").read_text()
    '{"step": 3}'
    """
    write_bytes(path, json.dumps(content).encode(), durable=durable)


def read_json(path: Path) -> Any:
    """The content of a JSON file; None if it is missing or damaged.

    >>> read_json(Path("missing.json")) is None
    True
    """
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
