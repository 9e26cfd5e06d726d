"""The HTML report of what has been learned from a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from taskfree.observe import figures, html
from taskfree.observe.events import layer_importance
from taskfree.tabular.inspection import read_lines, tables
from taskfree.tabular.session import Session
from taskfree.tabular.targets import LabelEncoder

__all__ = ["write"]


def write(session: Session, out: Path) -> None:
    """Write the report, with its figures in the session's folder."""
    history, events = (read_lines(one.path) for one in (session.log.history, session.log.events))
    score = "accuracy" if isinstance(session.targets, LabelEncoder) else "absolute error"
    drawn = {"history.png": (_history(history, events, score), CAPTIONS["history"])}
    if any("held out" in point for point in history):
        drawn["held-out.png"] = (_held_out(history, score), CAPTIONS["held out"])
    if session.learner.how is not None and session.learner.how.importance:
        shares = layer_importance(session.learner.how.importance)
        drawn["importance.png"] = (_importance(shares), CAPTIONS["importance"])
    for name, (figure, _) in drawn.items():
        figures.save(figure, session.folder / name)
    html.write_html(
        out,
        title=f"Learning {session.schema.choices.target}",
        introduction=f"{session.progress.rows:,} rows, each predicted before it was learned.",
        tables=tables(session, hardest=10, last=30),
        figures={name: (session.folder / name, caption) for name, (_, caption) in drawn.items()},
        details={
            "schema": session.schema.state_dict(),
            "progress": session.progress.state_dict(),
        },
    )


CAPTIONS = {
    "history": "Prequential score: each row is predicted before it is learned. Over the last 1,000 "
    "rows and over all rows. Below, the loss with plateaus (consolidation) and peaks (new data).",
    "held out": "Score on held-out rows, which are never learned. A drop is forgetting.",
    "importance": "Share of the total importance in each layer.",
}


def _history(
    history: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]], score: str
) -> Figure:
    figure = Figure(figsize=(11, 6.5), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    steps = [point["step"] for point in history]
    for key, label, colour in (
        ("windowed", "last 1,000 rows", figures.COLOURS[0]),
        ("mean", "all rows", "0.5"),
    ):
        top.plot(
            steps, [point.get(key) for point in history], color=colour, label=label, marker="."
        )
    top.set(title=f"Prequential {score}", ylabel=score)
    bottom.plot(steps, [point["loss"] for point in history], color="0.5", label="loss", marker=".")
    for kind, colour, marker in (
        ("plateau", figures.COLOURS[2], "v"),
        ("peak", figures.COLOURS[1], "^"),
    ):
        chosen = [event for event in events if event["kind"] == kind]
        bottom.plot(
            [event["step"] for event in chosen],
            [event["window_mean"] for event in chosen],
            linestyle="", marker=marker, markersize=8, color=colour, markeredgecolor="black",
            label=f"{kind} ({len(chosen)})",
        )  # fmt: skip
    bottom.set(xlabel="time step", ylabel="loss (new rows + buffer)")
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
            color=figures.COLOURS[at % len(figures.COLOURS)], label=name, marker=".",
        )  # fmt: skip
    axis.set(title="Held-out rows", xlabel="time step", ylabel=score)
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def _importance(shares: Mapping[str, float]) -> Figure:
    figure = Figure(figsize=(9, 1.2 + 0.4 * len(shares)), layout="constrained")
    axis = figure.subplots()
    total = sum(shares.values()) or 1.0
    axis.barh(list(shares), [100 * value / total for value in shares.values()],
              color=figures.COLOURS[0])  # fmt: skip
    axis.invert_yaxis()
    axis.set(
        title="Importance by layer", xlabel="share of the total importance (%)", ylabel="layer"
    )
    return figure
