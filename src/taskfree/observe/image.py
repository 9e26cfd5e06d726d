"""Inputs as images that a person can look at."""

from __future__ import annotations

import struct
import zlib

import torch
from torch import Tensor

HARDEST = 24
"""How many of the buffer's hardest samples are shown."""


def hardest(losses: Tensor, count: int) -> list[int]:
    """The indices of the largest losses, largest first.

    >>> hardest(torch.tensor([0.1, 3.0, 2.0]), 2)
    [1, 2]
    """
    return torch.as_tensor(losses).argsort(descending=True)[:count].tolist()


def to_image(values: Tensor) -> Tensor | None:
    """An input that looks like an image, as bytes with channels last; None if it does not.

    >>> to_image(torch.rand(3, 8, 8)).shape, to_image(torch.rand(7))
    (torch.Size([8, 8, 3]), None)
    """
    if values.dim() == 3 and values.shape[0] in (1, 3):
        values = values.permute(1, 2, 0)
    if values.dim() == 3 and values.shape[2] == 1:
        values = values[..., 0]
    if values.dim() not in (2, 3) or (values.dim() == 3 and values.shape[2] != 3):
        return None
    if min(values.shape[:2]) < 4:
        return None
    if values.dtype == torch.uint8:
        return values
    low, high = values.min(), values.max()
    return ((values - low) / (high - low).clamp_min(1e-9) * 255).byte()


def encode_png(image: Tensor) -> bytes:
    """An image of bytes, [height, width] or [height, width, 3], as a PNG file.

    Written here because the core installs without Pillow.

    >>> encode_png(torch.zeros(2, 2, dtype=torch.uint8))[1:4]
    b'PNG'
    """
    height, width = image.shape[:2]
    lines = image.reshape(height, -1)
    raw = b"".join(b"\0" + bytes(line.tolist()) for line in lines)

    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    colour = 2 if image.dim() == 3 else 0
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts
