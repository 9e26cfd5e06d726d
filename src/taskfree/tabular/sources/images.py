"""Rows that are the images of a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from taskfree.tabular.sources.source import START, Position, Row, Source

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


class ImageFolderSource(Source):
    """The images in a folder and its subfolders, sorted by file name.

    The label of an image is the name of the folder it is in. The folder may grow: images that were
    not there when it was read come after those that were.

    Args:
        name: of the folder.
    """

    unit = "image"
    columns = ("image", "label")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        found = (file for file in Path(name).rglob("*") if file.suffix.lower() in ENDINGS)
        self._files = sorted(found, key=lambda file: (file.name, str(file)))
        if not self._files:
            raise ValueError(f"{name} holds no images ({', '.join(ENDINGS)})")
        self.folder = Path(name)
        self.labelled = all(file.parent != self.folder for file in self._files)
        """Whether every image is in a subfolder."""

    def _name(self, file: Path) -> str:
        return str(file.relative_to(self.folder))

    def place(self, position: Position) -> dict[str, Any]:
        """The names of the images that were read, too."""
        names = [self._name(file) for file in self._files[: position[0]]]
        return super().place(position) | {"names": names}

    def continue_from(self, saved: Mapping[str, Any]) -> Position:
        """Behind the images that were read before, wherever others have come since."""
        read = {name: at for at, name in enumerate(saved["names"])}
        known = {self._name(file): file for file in self._files}
        first = [known[name] for name in read if name in known]
        self._files = first + [file for name, file in known.items() if name not in read]
        return (len(first), len(first))

    def rows(self, start: Position = START) -> Iterator[Row]:
        """All rows from a position on."""
        for at, file in enumerate(self._files[start[0] :], start[0] + 1):
            yield Row(at, [self._name(file), file.parent.name], (at, at))

    def identity(self, row: Row) -> str:
        """The file name."""
        return str(row.values[0])

    def fingerprint(self, position: Position) -> str:
        """A digest of the names of the images that were read."""
        names = "\n".join(file.name for file in self._files[: position[0]])
        return hashlib.sha256(names.encode()).hexdigest()

    def size(self) -> int | None:
        """Images."""
        return len(self._files)
