"""What a learner does, kept in a folder, for people to look at while it happens and afterwards."""

from __future__ import annotations

import json
import math
import os
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from taskfree import arguments, batch
from taskfree.events import JSONLines

if TYPE_CHECKING:
    from taskfree.learner import Learner, Report

__all__ = ["Log", "png"]

HARDEST = 24
"""So many of the buffer's hardest samples are shown."""


class Log:
    """Keeps losses, events, measures and the buffer in a folder: call it with each report.

    `taskfree watch FOLDER` shows it. Saved and resumed in a checkpoint, next to the learner, it
    goes on where the checkpoint was made: what came after that, and will come again, is cut off.

    Args:
        folder: where it is kept.
        learner: whose buffer is shown; None shows none.
        every: time steps between pictures of the buffer.
        picture: makes a picture, bytes of [height, width] or [height, width, 3], of a sample's
            input; None takes inputs that are pictures as they are.
        name: what a target is called.

    >>> import tempfile
    >>> from taskfree.learner import Report
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Log(folder)
    ...     report = Report(1, 0.5, math.nan, 0.5, math.nan, consolidated=False, peak=False)
    ...     log(report, accuracy=0.9)
    ...     sorted(file.name for file in Path(folder).iterdir())
    ['history.jsonl', 'losses.f32']
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        learner: Learner | None = None,
        *,
        every: int = 100,
        picture: Callable[[Tensor], Tensor | None] | None = None,
        name: Callable[[Any], str] = str,
    ) -> None:
        self.folder, self.learner = Path(folder), learner
        self.every = arguments.whole("every", every, least=1)
        self._picture, self._name = picture or as_picture, name
        self.folder.mkdir(parents=True, exist_ok=True)
        self._losses = self.folder / "losses.f32"
        self.events = JSONLines(self.folder / "events.jsonl")
        self.history = JSONLines(self.folder / "history.jsonl")

    def __call__(self, report: Report, **measures: Any) -> None:
        """Keep what a time step reports, and measures of your own: an accuracy, say."""
        with self._losses.open("ab", buffering=0) as file:
            file.write(struct.pack("<f", report.window_loss))
        self.events(report)
        if measures:
            self.history.write(json.dumps({"step": report.step, **measures}))
        if self.learner is not None and (report.event or report.step % self.every == 0):
            self._keep_buffer(self.learner, report.step)

    def _keep_buffer(self, learner: Learner, step: int) -> None:
        which = learner.which
        if which is None or not len(which):
            return
        order = torch.as_tensor(which.losses).argsort(descending=True)[:HARDEST].tolist()
        place = self.folder / "buffer"
        place.mkdir(exist_ok=True)
        told = []
        for rank, at in enumerate(order):
            one = batch.take(which.inputs, torch.tensor([at]))
            target = batch.take(which.targets, torch.tensor([at]))
            said = {"loss": _finite(float(which.losses[at])), "target": self._called(target)}
            picture = self._picture(one[0]) if isinstance(one, Tensor) else None
            if picture is not None:
                _replace(place / f"{rank}.png", png(picture))
                said["picture"] = f"buffer/{rank}.png"
            told.append(said)
        _replace(self.folder / "buffer.json", json.dumps({"step": step, "samples": told}).encode())

    def _called(self, target: Any) -> str:
        if isinstance(target, Tensor) and target.numel() == 1:
            return self._name(target.item())
        return ""

    def state_dict(self) -> dict[str, Any]:
        """How long the files are."""
        size = self._losses.stat().st_size if self._losses.exists() else 0
        return {
            "losses": size // 4,
            "events": self.events.state_dict(), "history": self.history.state_dict(),
        }  # fmt: skip

    def clear(self) -> None:
        """Begin anew: whatever an earlier run left in the folder is cut off."""
        nothing = {"length": 0}
        self.load_state_dict({"losses": 0, "events": nothing, "history": nothing})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Cut off what was written after the state was saved."""
        length = 4 * int(state["losses"])
        if self._losses.exists() and length < self._losses.stat().st_size:
            os.truncate(self._losses, length)
        self.events.load_state_dict(state["events"])
        self.history.load_state_dict(state["history"])


def as_picture(values: Tensor) -> Tensor | None:
    """An input that looks like a picture, as bytes with the colours last; None if it does not.

    >>> as_picture(torch.rand(3, 8, 8)).shape, as_picture(torch.rand(7))
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


def png(picture: Tensor) -> bytes:
    """A picture of bytes, [height, width] or [height, width, 3], as a PNG file.

    >>> png(torch.zeros(2, 2, dtype=torch.uint8))[1:4]
    b'PNG'
    """
    height, width = picture.shape[:2]
    lines = picture.reshape(height, -1)
    raw = b"".join(b"\0" + bytes(line.tolist()) for line in lines)

    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    colour = 2 if picture.dim() == 3 else 0
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _replace(file: Path, content: bytes) -> None:
    unfinished = file.with_name(f".{file.name}")
    unfinished.write_bytes(content)
    unfinished.replace(file)
