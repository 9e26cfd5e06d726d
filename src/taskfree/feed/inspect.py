"""`taskfree inspect`: what has been learned, when, and what is held on to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table as Printed

from taskfree.events import labels, mass
from taskfree.feed.encode import Classes, Table
from taskfree.feed.stream import Stream


@dataclass(frozen=True)
class Config:
    """Show what a network has learned, when it consolidated, and what it finds hard."""

    state: Annotated[Path, tyro.conf.Positional]
    """the folder in which taskfree learn kept everything"""
    hardest: int = 5
    """how many of the buffer's hardest rows to show"""
    last: int = 10
    """how many of the last plateaus and peaks to show"""


def run(config: Config) -> None:
    """Print it."""
    stream, console = Stream(config.state), Console()
    for title, rows in tables(stream, config.hardest, config.last).items():
        printed = Printed(title=title, title_justify="left", box=None, header_style="bold")
        for at, name in enumerate(rows[0]):
            printed.add_column(name, justify="right" if at else "left")
        for row in rows[1:]:
            printed.add_row(*row)
        console.print(printed)
        console.print()


def tables(stream: Stream, hardest: int = 5, last: int = 10) -> dict[str, list[list[str]]]:
    """All that is shown: by title, rows of text with the heading first."""
    found = {"What it has learned": _learned(stream), "Columns": _columns(stream)}
    found["How well"] = [["", ""], *_how_well(stream)]
    if isinstance(stream.targets, Classes):
        found["Classes"] = _classes(stream, stream.targets)
    found["Last plateaus and peaks"] = _events(stream, last)
    if stream.learner.how is not None and stream.learner.how.importance:
        found["Importance by layer"] = _importance(stream)
    if stream.learner.which is not None and len(stream.learner.which):
        found["The buffer's hardest rows"] = _hardest(stream, hardest)
    return {title: rows for title, rows in found.items() if len(rows) > 1}


def _learned(stream: Stream) -> list[list[str]]:
    read, setup = stream.read, stream.setup
    sizes = (value.numel() for value in stream.learner.model.parameters())
    consolidations = getattr(stream.learner.how, "consolidations", 0)
    return [
        ["", ""],
        ["target", f"{setup.target} ({setup.task})"],
        ["rows", f"{read.rows:,}, of which {read.skipped:,} could not be read"],
        ["steps", f"{stream.learner.step:,}"],
        ["consolidations", f"{consolidations:,}"],
        ["network", f"{setup.model or 'the default one'}, {sum(sizes):,} parameters"],
        *([f"read of {name}", f"{kept['at']:,}"] for name, kept in stream.read.places.items()),
    ]


def _columns(stream: Stream) -> list[list[str]]:
    inputs = stream.inputs
    if not isinstance(inputs, Table):
        return [["", ""], ["pictures", f"{inputs.size}x{inputs.size}"]]
    rows = [["", "kind", "mean", "deviation", "known"]]
    running = inputs.running
    for at, name in enumerate(inputs.numbers):
        mean, deviation = float(running.mean[at]), float(running.deviation[at])
        rows.append([name, "number", f"{mean:.4g}", f"{deviation:.4g}", ""])
    rows += [
        [name, "category", "", "", f"{len(inputs.places[at])}"]
        for at, name in enumerate(inputs.categories)
    ]
    return rows


def _how_well(stream: Stream) -> list[list[str]]:
    metric = stream.metric
    rows = [
        [name.replace("_", " "), f"{value:.4f}"]
        for name, value in metric.summary().items()
        if name != "count"
    ]
    return rows + [[f"in {name}", f"{value:.4f}"] for name, value in metric.by_environment.items()]


def _classes(stream: Stream, classes: Classes) -> list[list[str]]:
    which = stream.learner.which
    held = labels(which.targets) if which is not None and len(which) else {}
    return [
        ["", "accuracy", "in the buffer"],
        *(
            [classes.names[at], f"{value:.4f}", str(held.get(str(at), 0))]
            for at, value in stream.metric.by_class.items()
        ),
    ]


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _events(stream: Stream, last: int) -> list[list[str]]:
    events = read_lines(stream.log.events.path)[-last:] if last else []
    return [["step", "", "why"]] + [[str(e["step"]), e["kind"], e["text"]] for e in events]


def _importance(stream: Stream) -> list[list[str]]:
    assert stream.learner.how is not None
    found = mass(stream.learner.how.importance)
    total = sum(found.values()) or 1.0
    return [["layer", "share"], *([name, f"{value / total:.1%}"] for name, value in found.items())]


def _hardest(stream: Stream, count: int) -> list[list[str]]:
    inputs, targets = stream.inputs, stream.targets
    which: Any = stream.learner.which
    order = which.losses.argsort(descending=True)[:count].tolist()
    rows = [["target", "loss", "row"]]
    for at in order:
        target = which.targets[at]
        if isinstance(targets, Classes):
            named = targets.names[int(target)]
        else:
            named = f"{float(target):.4g}"
        told = "a picture"
        if isinstance(inputs, Table):
            said = inputs.decode(which.inputs[at])
            told = ", ".join(f"{name} {value}" for name, value in said.items())
        rows.append([named, f"{float(which.losses[at]):.3f}", told])
    return rows
