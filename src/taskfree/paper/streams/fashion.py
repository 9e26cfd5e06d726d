"""Fashion-MNIST, read from its four files: 28x28 grayscale images of ten classes of clothes."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

FOLDERS = (Path("/usr/share/datasets/fashion-mnist"), Path.home() / ".cache/fashion-mnist")
"""Where to look for it by default."""


def find(folder: Path | None = None) -> Path:
    """The folder that holds the files."""
    candidates = FOLDERS if folder is None else (folder,)
    for candidate in candidates:
        if (candidate / "train-images-idx3-ubyte.gz").exists():
            return candidate
    raise FileNotFoundError(
        f"Fashion-MNIST is not in {' or '.join(map(str, candidates))}: install Debian's package "
        "dataset-fashion-mnist, or put the four .gz files of "
        "github.com/zalandoresearch/fashion-mnist there"
    )


@cache
def load(folder: Path, part: str = "train") -> tuple[Tensor, Tensor]:
    """The images, bytes of shape [n, 28, 28], and their labels; `part` is train or t10k."""
    images = _read(folder / f"{part}-images-idx3-ubyte.gz", header=16).view(-1, 28, 28)
    return images, _read(folder / f"{part}-labels-idx1-ubyte.gz", header=8).long()


def _read(file: Path, header: int) -> Tensor:
    with gzip.open(file) as content:
        return torch.frombuffer(bytearray(content.read()), dtype=torch.uint8, offset=header)
