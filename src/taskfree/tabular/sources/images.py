"""Rows that are the images of a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from taskfree.tabular.sources.source import START, Position, Row, Source

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


class ImageFolderSource(Source):
    """The images in a folder and its subfolders, sorted by file name.

    The label of an image is the name of the folder it is in.

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

    def rows(self, start: Position = START) -> Iterator[Row]:
        """All rows from a position on."""
        for at, file in enumerate(self._files[start[0] :], start[0] + 1):
            yield Row(at, [str(file.relative_to(self.folder)), file.parent.name], (at, at))

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
