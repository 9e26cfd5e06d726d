"""Fashion-MNIST, read from its four files: 28x28 grey pictures of ten kinds of clothes."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

FOLDERS = (Path("/usr/share/datasets/fashion-mnist"), Path.home() / ".cache/fashion-mnist")
"""Where it is looked for if no folder is given."""


def find(folder: Path | None = None) -> Path:
    """The folder that holds the files."""
    for place in FOLDERS if folder is None else (folder,):
        if (place / "train-images-idx3-ubyte.gz").exists():
            return place
    looked = ", ".join(map(str, FOLDERS if folder is None else (folder,)))
    raise FileNotFoundError(
        f"Fashion-MNIST is not in {looked}: install Debian's package dataset-fashion-mnist, or put "
        "the four .gz files of github.com/zalandoresearch/fashion-mnist into a folder and name it"
    )


@cache
def load(folder: Path, part: str = "train") -> tuple[Tensor, Tensor]:
    """The pictures, as bytes of shape [n, 28, 28], and their labels; `part` is train or t10k."""
    pictures = _read(folder / f"{part}-images-idx3-ubyte.gz", header=16).view(-1, 28, 28)
    return pictures, _read(folder / f"{part}-labels-idx1-ubyte.gz", header=8).long()


def _read(file: Path, header: int) -> Tensor:
    with gzip.open(file) as content:
        return torch.frombuffer(bytearray(content.read()), dtype=torch.uint8, offset=header)
