"""Reports and events: what happened in a time step, and why it consolidated."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from taskfree._core.batch import Batch
from taskfree.how import Regularizer
from taskfree.when import Decision, Trigger
from taskfree.which import Buffer

__all__ = ["Event", "EventLog", "Observed", "Report"]


class Observed(Protocol):
    """What is observed of a learner."""

    step: int
    when: Trigger
    which: Buffer | None
    how: Regularizer | None


@dataclass(frozen=True, slots=True)
class Event:
    """A plateau or a peak: what led to it and what followed from it.

    >>> event = Event(7, "peak", "the loss rose", 2.0, 0.1, {"mean": 1.5}, False, {"0": 3}, {})
    >>> event.kind, event.text
    ('peak', 'the loss rose')
    """

    step: int
    """The number of the time step, from 1."""
    kind: Decision
    """`"plateau"` or `"peak"`."""
    text: str
    """The reason, in one sentence with numbers."""
    window_mean: float
    """The mean of the window that was judged; nan if the trigger has none."""
    window_variance: float
    """Its variance."""
    thresholds: Mapping[str, float]
    """What both were compared with."""
    consolidated: bool
    """Whether the importance was updated and the parameters were anchored."""
    buffer: Mapping[str, int]
    """How many samples of each label the buffer held, on this rank; empty without labels."""
    importance: Mapping[str, float]
    """The importance of each layer: the sum over its parameters."""

    def consolidated_by(self, how: Regularizer) -> Event:
        """The event after consolidation, with the new importance."""
        return replace(self, consolidated=True, importance=layer_importance(how.importance))

    def as_json(self) -> str:
        """One line of JSON; numbers that are not finite become null.

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


@dataclass(frozen=True, slots=True)
class Report:
    """What happened in one time step.

    >>> report = Report(1, 0.7, math.nan, 0.7, math.nan, consolidated=False, peak=False)
    >>> report.loss, report.event
    (0.7, None)
    """

    step: int
    """The number of the time step, from 1."""
    loss: float
    """The mean loss over the new samples, before the update: an honest online measure."""
    buffer_loss: float
    """The same over the buffer; nan while it is empty."""
    window_loss: float
    """What entered the trigger's window: the sum of both, without the penalty."""
    window_mean: float
    """The mean of the trigger's window; nan while it fills."""
    consolidated: bool
    """Whether the importance was updated and the parameters were anchored."""
    peak: bool
    """Whether new, harder data was detected, so that the next plateau consolidates again."""
    skipped: int = 0
    """How many new samples were skipped because of a nan or inf; see `on_bad`."""
    event: Event | None = None
    """The plateau or peak of this step, if there was one."""


def describe(learner: Observed, decision: Decision) -> Event:
    """The event of the time step in which the learner's trigger has just decided so."""
    reason, which, how = learner.when.explain(decision), learner.which, learner.how
    return Event(
        step=learner.step + 1,
        kind=decision,
        text=reason.text,
        window_mean=learner.when.window_mean,
        window_variance=reason.variance,
        thresholds=reason.thresholds,
        consolidated=False,
        buffer=label_counts(which.targets) if which is not None and len(which) else {},
        importance=layer_importance(how.importance) if how is not None else {},
    )


def label_counts(targets: Batch) -> dict[str, int]:
    """How many samples there are of each label; empty if targets are not labels.

    >>> label_counts(torch.tensor([1, 0, 1]))
    {'0': 1, '1': 2}
    >>> label_counts(torch.rand(3))
    {}
    """
    if not isinstance(targets, Tensor) or targets.dim() != 1 or targets.is_floating_point():
        return {}
    found, counts = torch.unique(targets, return_counts=True)
    return dict(zip(map(str, found.tolist()), counts.tolist(), strict=True))


def layer_importance(importance: Mapping[str, Tensor]) -> dict[str, float]:
    """The importance of each layer: the sum over its parameters.

    >>> ones = torch.ones
    >>> layer_importance({"0.weight": ones(2, 3), "0.bias": ones(2), "2.bias": torch.zeros(1)})
    {'0': 8.0, '2': 0.0}
    """
    found: dict[str, float] = {}
    for name, value in importance.items():
        layer = name.rpartition(".")[0] or name
        found[layer] = found.get(layer, 0.0) + value.sum().item()
    return found


class EventLog:
    """Writes every event as a line of JSON: call it with each report.

    Saved and resumed in a checkpoint with the learner, the file continues from the checkpoint:
    lines written after it, which will be written again, are cut off.

    Args:
        path: the file.

    >>> import tempfile
    >>> event = Event(7, "peak", "it rose", 2.0, 0.1, {"mean": 1.5}, False, {}, {})
    >>> report = Report(7, 3.0, math.nan, 3.0, 2.0, consolidated=False, peak=True, event=event)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = EventLog(Path(folder) / "events.jsonl")
    ...     log(report)
    ...     [json.loads(line)["text"] for line in log.path.read_text().splitlines()]
    ['it rose']
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def __call__(self, report: Report) -> None:
        """Write the event of a time step, if there was one."""
        if report.event is not None:
            self.write(report.event.as_json())

    def write(self, line: str) -> None:
        """Append a line of your own."""
        with self.path.open("ab") as file:
            file.write(line.encode() + b"\n")

    def state_dict(self) -> dict[str, int]:
        """The length of the file."""
        return {"length": self.path.stat().st_size if self.path.exists() else 0}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Cut off what was written after the state was saved."""
        length = int(state["length"])
        if length < self.state_dict()["length"]:
            with self.path.open("r+b") as file:
                file.truncate(length)
