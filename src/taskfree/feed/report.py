"""`taskfree report`: a page with figures of what has been learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from matplotlib.figure import Figure
from rich.console import Console

from taskfree import report
from taskfree.events import mass
from taskfree.feed.encode import Classes
from taskfree.feed.inspect import read_lines, tables
from taskfree.feed.stream import Stream


@dataclass(frozen=True)
class Config:
    """Write an HTML page: how well it went over time, plateaus and peaks, classes, importance."""

    state: Annotated[Path, tyro.conf.Positional]
    """the folder in which taskfree learn kept everything"""
    out: Path | None = None
    """the page; report.html in that folder if not given"""


def run(config: Config) -> None:
    """Write the page."""
    stream = Stream(config.state)
    out = config.out or config.state / "report.html"
    history, events = (read_lines(one.path) for one in (stream.log.history, stream.log.events))
    score = "accuracy" if isinstance(stream.targets, Classes) else "absolute error"
    figures = {"history.png": (_history(history, events, score), CAPTIONS["history"])}
    if any("held out" in point for point in history):
        figures["held-out.png"] = (_held_out(history, score), CAPTIONS["held out"])
    if stream.learner.how is not None and stream.learner.how.importance:
        shares = mass(stream.learner.how.importance)
        figures["importance.png"] = (_importance(shares), CAPTIONS["importance"])
    drawn = {}
    for name, (figure, caption) in figures.items():
        report.save(figure, config.state / name)
        drawn[name] = (config.state / name, caption)
    report.write_html(
        out,
        title=f"Learning {stream.setup.target}",
        introduction=f"{stream.read.rows:,} rows, each predicted before it was learned.",
        tables=tables(stream, hardest=10, last=30),
        figures=drawn,
        details={"setup": stream.setup.state_dict(), "read": stream.read.state_dict()},
    )
    Console().print(f"report: {out}")


CAPTIONS = {
    "history": "How right the predictions were before each row was learned: over the last 1,000 "
    "rows and over all of them. Below, the loss, with plateaus (knowledge was consolidated) and "
    "peaks (something new had come).",
    "held out": "On rows that are never learned: what is forgotten falls.",
    "importance": "Which layers hold what was learned: the share of all importance.",
}


def _history(
    history: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]], score: str
) -> Figure:
    figure = Figure(figsize=(11, 6.5), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    steps = [point["step"] for point in history]
    for key, label, colour in (
        ("running", "the last 1,000 rows", report.COLOURS[0]),
        ("mean", "all rows", "0.5"),
    ):
        top.plot(steps, [point[key] for point in history], color=colour, label=label, marker=".")
    top.set(title=f"Predicted before learned: {score}", ylabel=score)
    bottom.plot(steps, [point["loss"] for point in history], color="0.5", label="loss", marker=".")
    for kind, colour, marker in (
        ("plateau", report.COLOURS[2], "v"),
        ("peak", report.COLOURS[1], "^"),
    ):
        chosen = [event for event in events if event["kind"] == kind]
        bottom.plot(
            [event["step"] for event in chosen],
            [event["window_mean"] for event in chosen],
            linestyle="", marker=marker, markersize=8, color=colour, markeredgecolor="black",
            label=f"{kind} ({len(chosen)})",
        )  # fmt: skip
    bottom.set(xlabel="step", ylabel="loss (new rows + buffer)")
    bottom.set_ylim(bottom=0)
    for axis in (top, bottom):
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _held_out(history: Sequence[Mapping[str, Any]], score: str) -> Figure:
    figure = Figure(figsize=(11, 4), layout="constrained")
    axis = figure.subplots()
    points = [point for point in history if "held out" in point]
    names = list(points[-1]["held out"])
    for at, name in enumerate(names):
        axis.plot(
            [point["step"] for point in points if name in point["held out"]],
            [point["held out"][name] for point in points if name in point["held out"]],
            color=report.COLOURS[at % len(report.COLOURS)], label=name, marker=".",
        )  # fmt: skip
    axis.set(title="On rows that are never learned", xlabel="step", ylabel=score)
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def _importance(shares: Mapping[str, float]) -> Figure:
    figure = Figure(figsize=(9, 1.2 + 0.4 * len(shares)), layout="constrained")
    axis = figure.subplots()
    total = sum(shares.values()) or 1.0
    axis.barh(list(shares), [100 * value / total for value in shares.values()],
              color=report.COLOURS[0])  # fmt: skip
    axis.invert_yaxis()
    axis.set(title="Importance by layer", xlabel="share of all importance (%)", ylabel="layer")
    return figure
