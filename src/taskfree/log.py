"""What a learner does, kept in a folder, for people to look at while it happens and afterwards."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from taskfree import arguments, batch
from taskfree.events import JSONLines
from taskfree.pictures import HARDEST, as_picture, hardest, png

if TYPE_CHECKING:
    from taskfree.learner import Learner, Report

__all__ = ["Log"]


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
        order = hardest(which.losses, HARDEST)
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


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _replace(file: Path, content: bytes) -> None:
    unfinished = file.with_name(f".{file.name}")
    unfinished.write_bytes(content)
    unfinished.replace(file)
