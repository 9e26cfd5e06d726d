"""The file of predictions that `taskfree learn` writes while it learns."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from taskfree.tabular.progress import Progress

__all__ = ["Predictions"]


class Predictions:
    """What was predicted of each row before it was learned, as JSON lines.

    A run that continues goes on with the file where the saved state left it.

    Args:
        name: of the file, or `-` for standard output; None writes nothing.
        progress: knows how much of the file belongs to the saved state.
    """

    def __init__(self, name: str | None, progress: Progress) -> None:
        self.name, self._progress = name, progress
        self._file: Any = None
        self.is_new = False
        """Whether no saved state knows of the file."""
        if name == "-":
            self._file = sys.stdout
        elif name is not None:
            path, length = Path(name), progress.written.get(name, 0)
            self.is_new = name not in progress.written
            if path.exists() and path.stat().st_size < length:
                raise ValueError(
                    f"predictions: {name} is shorter than when it was written; name another file"
                )
            if self.is_new and path.exists() and path.stat().st_size:
                raise ValueError(f"predictions: {name} exists already; name another file")
            self._file = path.open("a", encoding="utf-8")
            self._file.truncate(length)
            self._file.seek(0, 2)

    def write(self, lines: list[dict[str, Any]]) -> None:
        """Add these, so that a reader of the file has them now."""
        if self._file is None:
            return
        self._file.write("".join(json.dumps(line) + "\n" for line in lines))
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self.name is not None and self.name != "-":
            self._file.close()

    def save(self) -> None:
        """Have what was written belong to the state that is saved next."""
        if self.name is not None and self.name != "-":
            self._progress.written[self.name] = self._file.tell()
