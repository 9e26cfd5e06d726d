"""Losses, plateaus, peaks, importance and hard samples on TensorBoard."""

from __future__ import annotations

import math
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from taskfree._core import validation
from taskfree.observe.events import Event, Observed, Report
from taskfree.observe.image import HARDEST, hardest, to_image

__all__ = ["TensorBoard"]


class TensorBoard:
    """Writes losses, plateaus and peaks for TensorBoard: call it with each report.

    It needs `pip install 'taskfree[tensorboard]'`. View it with `tensorboard --logdir FOLDER`.

    Args:
        folder: where TensorBoard's files go.
        every: write losses every n-th time step; events are always written.
        learner: if given, each consolidation writes a histogram of the importance in every layer,
            as powers of ten, and each event the hardest samples of the buffer, if they are images.

    >>> import tempfile
    >>> report = Report(1, 0.7, math.nan, 0.7, math.nan, consolidated=False, peak=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     board = TensorBoard(folder)
    ...     board(report)
    ...     board.close()
    """

    def __init__(
        self, folder: str | PathLike[str], every: int = 1, learner: Observed | None = None
    ) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(
                "TensorBoard is not installed: pip install 'taskfree[tensorboard]'"
            ) from error
        self.every = validation.integer("every", every, least=1)
        self.learner = learner
        self.writer: Any = SummaryWriter(str(folder))

    def __call__(self, report: Report) -> None:
        """Write what a time step reports."""
        if report.step % self.every == 0:
            names = ("loss", "buffer_loss", "window_mean")
            self._write({f"learner/{n}": getattr(report, n) for n in names}, report.step)
        event = report.event
        if event is None:
            return
        self.writer.add_text(event.kind, event.text, event.step)
        numbers = {
            f"{event.kind}/window_mean": event.window_mean,
            f"{event.kind}/window_variance": event.window_variance,
            **{f"{event.kind}/threshold_{name}": value for name, value in event.thresholds.items()},
            **{f"buffer/label_{label}": count for label, count in event.buffer.items()},
            **{f"importance/{layer}": value for layer, value in event.importance.items()},
        }
        self._write(numbers, event.step)
        if self.learner is not None:
            self._show(self.learner, event)

    def _write(self, numbers: dict[str, float], step: int) -> None:
        for name, value in numbers.items():
            if math.isfinite(value):
                self.writer.add_scalar(name, value, step)

    def _show(self, learner: Observed, event: Event) -> None:
        if event.consolidated and learner.how is not None:
            for name, importance in learner.how.importance.items():
                some = importance[importance > 0]
                if len(some):
                    powers = some.double().log10()
                    self.writer.add_histogram(f"importance_log10/{name}", powers, event.step)
        which = learner.which
        if which is None or not len(which) or not isinstance(which.inputs, Tensor):
            return
        found = [to_image(which.inputs[at]) for at in hardest(which.losses, HARDEST)]
        shown = [image for image in found if image is not None]
        if shown:
            images = torch.stack(shown)
            if images.dim() == 3:
                images = images[..., None].expand(-1, -1, -1, 3)  # grey
            self.writer.add_images("buffer/hardest", images, event.step, dataformats="NHWC")

    def close(self) -> None:
        """Write what is left and close the files."""
        self.writer.close()
