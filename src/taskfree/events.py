"""What the learner did and why: an event for every plateau and peak, to read, keep and plot."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from taskfree import arguments
from taskfree.batch import Batch
from taskfree.how import Importance
from taskfree.pictures import HARDEST, as_picture, hardest
from taskfree.when import Decision

if TYPE_CHECKING:
    from taskfree.learner import Learner, Report

__all__ = ["Event", "JSONLines", "TensorBoard"]


@dataclass(frozen=True, slots=True)
class Event:
    """A plateau or a peak, with all that led to it and what came of it."""

    step: int
    """The time step's number, from 1."""
    kind: Decision
    """`"plateau"` or `"peak"`."""
    text: str
    """Why, in one sentence with numbers."""
    window_mean: float
    """The mean of the window that was judged; nan if the trigger has none."""
    window_variance: float
    """Its variance."""
    thresholds: Mapping[str, float]
    """What these were compared with."""
    consolidated: bool
    """Whether the importance was updated and the parameters were anchored."""
    buffer: Mapping[str, int]
    """How many samples of each label the buffer held then, on this rank; empty if they have no
    labels."""
    importance: Mapping[str, float]
    """The importance of each layer: the sum over its parameters."""

    def consolidated_as(self, how: Importance) -> Event:
        """The event once the parameters were anchored, with the importance that they now have."""
        return replace(self, consolidated=True, importance=mass(how.importance))

    def as_json(self) -> str:
        """One line of JSON. What is not a finite number is null.

        >>> event = Event(7, "peak", "it rose", 2.0, math.nan, {"mean": 1.5}, False, {"0": 3}, {})
        >>> event.as_json()[:79]
        '{"step": 7, "kind": "peak", "text": "it rose", "window_mean": 2.0, "window_vari'
        >>> json.loads(event.as_json())["window_variance"] is None
        True
        """
        return json.dumps(_without_nan(asdict(self)), allow_nan=False)


def _without_nan(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_nan(value) for key, value in node.items()}
    return None if isinstance(node, float) and not math.isfinite(node) else node


def describe(learner: Learner, decision: Decision) -> Event:
    """The event of the time step in which the learner's trigger has just decided so."""
    because, which, how = learner.when.explain(decision), learner.which, learner.how
    return Event(
        step=learner.step + 1,
        kind=decision,
        text=because.text,
        window_mean=learner.when.window_mean,
        window_variance=because.variance,
        thresholds=because.thresholds,
        consolidated=False,
        buffer=labels(which.targets) if which is not None and len(which) else {},
        importance=mass(how.importance) if how is not None else {},
    )


def labels(targets: Batch) -> dict[str, int]:
    """How many samples of each label there are; empty if targets are not labels.

    >>> labels(torch.tensor([1, 0, 1]))
    {'0': 1, '1': 2}
    >>> labels(torch.rand(3))
    {}
    """
    if not isinstance(targets, Tensor) or targets.dim() != 1 or targets.is_floating_point():
        return {}
    found, counts = torch.unique(targets, return_counts=True)
    return dict(zip(map(str, found.tolist()), counts.tolist(), strict=True))


def mass(importance: Mapping[str, Tensor]) -> dict[str, float]:
    """The sum of the importance over each layer's parameters.

    >>> mass({"0.weight": torch.ones(2, 3), "0.bias": torch.ones(2), "2.bias": torch.zeros(1)})
    {'0': 8.0, '2': 0.0}
    """
    found: dict[str, float] = {}
    for name, value in importance.items():
        layer = name.rpartition(".")[0] or name
        found[layer] = found.get(layer, 0.0) + value.sum().item()
    return found


class JSONLines:
    """Keeps every event as a line of a file: call it with each report.

    Saved and resumed in a checkpoint, next to the learner, the file goes on where the checkpoint
    was made: what came after that, and will come again, is cut off.

    >>> import tempfile
    >>> from taskfree.learner import Report
    >>> event = Event(7, "peak", "it rose", 2.0, 0.1, {"mean": 1.5}, False, {}, {})
    >>> report = Report(7, 3.0, math.nan, 3.0, 2.0, consolidated=False, peak=True, event=event)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     keep = JSONLines(Path(folder) / "events.jsonl")
    ...     keep(report)
    ...     [json.loads(line)["text"] for line in keep.path.read_text().splitlines()]
    ['it rose']
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def __call__(self, report: Report) -> None:
        """Write down the event of a time step, if there was one."""
        if report.event is not None:
            self.write(report.event.as_json())

    def write(self, line: str) -> None:
        """Add a line of your own."""
        with self.path.open("ab") as file:
            file.write(line.encode() + b"\n")

    def state_dict(self) -> dict[str, int]:
        """How long the file is."""
        return {"length": self.path.stat().st_size if self.path.exists() else 0}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Cut off what was written after the state was saved."""
        length = int(state["length"])
        if length < self.state_dict()["length"]:
            with self.path.open("r+b") as file:
                file.truncate(length)


class TensorBoard:
    """Shows losses, plateaus and peaks on TensorBoard: call it with each report.

    It needs `pip install taskfree[tensorboard]`. Look at it with `tensorboard --logdir FOLDER`.

    Args:
        folder: where TensorBoard's files go.
        every: losses are written every so many time steps; events always.
        learner: if given, each consolidation shows how importance is distributed in every layer,
            as powers of ten, and each event the buffer's hardest samples, if they are pictures.
    """

    def __init__(
        self, folder: str | PathLike[str], every: int = 1, learner: Learner | None = None
    ) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(
                "TensorBoard is not installed: pip install 'taskfree[tensorboard]'"
            ) from error
        self.every = arguments.whole("every", every, least=1)
        self.learner = learner
        self.writer: Any = SummaryWriter(str(folder))

    def __call__(self, report: Report) -> None:
        """Write down what a time step reports."""
        if report.step % self.every == 0:
            for name in ("loss", "buffer_loss", "window_mean"):
                value = getattr(report, name)
                if math.isfinite(value):
                    self.writer.add_scalar(f"learner/{name}", value, report.step)
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
        for name, value in numbers.items():
            if math.isfinite(value):
                self.writer.add_scalar(name, value, event.step)
        if self.learner is not None:
            self._show(self.learner, event)

    def _show(self, learner: Learner, event: Event) -> None:
        if event.consolidated and learner.how is not None:
            for name, importance in learner.how.importance.items():
                some = importance[importance > 0]
                if len(some):
                    powers = some.double().log10()
                    self.writer.add_histogram(f"importance_log10/{name}", powers, event.step)
        which = learner.which
        if which is None or not len(which) or not isinstance(which.inputs, Tensor):
            return
        found = [as_picture(which.inputs[at]) for at in hardest(which.losses, HARDEST)]
        shown = [picture for picture in found if picture is not None]
        if shown:
            pictures = torch.stack(shown)
            if pictures.dim() == 3:
                pictures = pictures[..., None].expand(-1, -1, -1, 3)  # grey
            self.writer.add_images("buffer/hardest", pictures, event.step, dataformats="NHWC")

    def close(self) -> None:
        """Write what is left and close the files."""
        self.writer.close()
