"""A log of a run in a folder, for the live page and for later."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from taskfree._core import batch, files, validation
from taskfree.observe.events import EventLog, Observed, Report
from taskfree.observe.image import HARDEST, encode_png, hardest, to_image

__all__ = ["Log"]


class Log:
    """Writes losses, events, metrics and the buffer to a folder: call it with each report.

    `taskfree watch FOLDER` shows it. Saved and resumed in a checkpoint with the learner, it
    continues from the checkpoint: what was written after it, and will come again, is cut off.

    Args:
        folder: where it is written.
        learner: whose buffer is shown; None shows none.
        every: time steps between snapshots of the buffer.
        image: makes an image, bytes of [height, width] or [height, width, 3], of a sample's input;
            by default, inputs that are images are taken as they are.
        name: the name of a target.

    >>> import tempfile
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
        learner: Observed | None = None,
        *,
        every: int = 100,
        image: Callable[[Tensor], Tensor | None] | None = None,
        name: Callable[[Any], str] = str,
    ) -> None:
        self.folder, self.learner = Path(folder), learner
        self.every = validation.integer("every", every, least=1)
        self._image, self._name = image or to_image, name
        self.folder.mkdir(parents=True, exist_ok=True)
        self._losses = self.folder / "losses.f32"
        self.events = EventLog(self.folder / "events.jsonl")
        self.history = EventLog(self.folder / "history.jsonl")

    def __call__(self, report: Report, **metrics: Any) -> None:
        """Write what a time step reports, and metrics of your own: an accuracy, for example."""
        with self._losses.open("ab", buffering=0) as file:
            file.write(struct.pack("<f", report.window_loss))
        self.events(report)
        if metrics:
            self.history.write(json.dumps({"step": report.step, **metrics}))
        if self.learner is not None and (report.event or report.step % self.every == 0):
            self._write_buffer(self.learner, report.step)

    def _write_buffer(self, learner: Observed, step: int) -> None:
        which = learner.which
        if which is None or not len(which):
            return
        order = hardest(which.losses, HARDEST)
        folder = self.folder / "buffer"
        folder.mkdir(exist_ok=True)
        samples = []
        for rank, at in enumerate(order):
            one = batch.take(which.inputs, torch.tensor([at]))
            target = batch.take(which.targets, torch.tensor([at]))
            loss = float(which.losses[at])
            sample = {
                "loss": loss if math.isfinite(loss) else None,
                "target": self._target_name(target),
            }
            image = self._image(one[0]) if isinstance(one, Tensor) else None
            if image is not None:
                files.write_bytes(folder / f"{rank}.png", encode_png(image), durable=False)
                sample["image"] = f"buffer/{rank}.png"
            samples.append(sample)
        content = {"step": step, "samples": samples}
        files.write_json(self.folder / "buffer.json", content, durable=False)

    def _target_name(self, target: Any) -> str:
        if isinstance(target, Tensor) and target.numel() == 1:
            return self._name(target.item())
        return ""

    def state_dict(self) -> dict[str, Any]:
        """The lengths of the files."""
        size = self._losses.stat().st_size if self._losses.exists() else 0
        return {
            "losses": size // 4,
            "events": self.events.state_dict(), "history": self.history.state_dict(),
        }  # fmt: skip

    def clear(self) -> None:
        """Start over: what an earlier run left in the folder is cut off."""
        nothing = {"length": 0}
        self.load_state_dict({"losses": 0, "events": nothing, "history": nothing})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Cut off what was written after the state was saved."""
        length = 4 * int(state["losses"])
        if self._losses.exists() and length < self._losses.stat().st_size:
            os.truncate(self._losses, length)
        self.events.load_state_dict(state["events"])
        self.history.load_state_dict(state["history"])
