"""The figures of the study of triggers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from taskfree.defaults import STRENGTH
from taskfree.observe.figures import COLOURS

CAPTIONS = {
    "triggers.png": "Score over all environments at the end of each stream, mean and standard "
    "error over the seeds. The default has nothing to tune; the Plateau's thresholds were tuned on "
    "other data of the same stream; the oracle knows where the stream changes.",
    "timeline.png": "When each trigger consolidated (triangles), first seed, with the true changes "
    "of the stream (dashed), which only the oracle knows.",
    "strengths.png": "The default learner with other strengths, mean and standard error.",
}
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*", "h")


def scores(rows: Sequence[dict[str, Any]], settings: Sequence[str]) -> Figure:
    """The final score of every setting on every stream."""
    streams = list(dict.fromkeys(row["stream"] for row in rows))
    figure = Figure(figsize=(11, 5.5), layout="constrained")
    axis = figure.subplots()
    for index, setting in enumerate(settings):
        found = [row["final"] for row in rows if row["setting"] == setting]
        at = [stream + 0.08 * (index - len(settings) / 2) for stream in range(len(streams))]
        axis.errorbar(
            at, [100 * score for score, _ in found], [100 * error for _, error in found],
            linestyle="", marker=MARKERS[index], markersize=9 if setting == "default" else 6,
            color=(*COLOURS, "0.5", "0.7")[index], markeredgecolor="black", markeredgewidth=0.5,
            label=setting,
        )  # fmt: skip
    axis.set_xticks(range(len(streams)), [name.replace(" ", "\n") for name in streams])
    for stream in range(len(streams) - 1):
        axis.axvline(stream + 0.5, color="0.85", linewidth=1)
    axis.set(
        title="Final score over all environments of a stream",
        ylabel="accuracy, or variance explained (%)",
    )
    figure.legend(loc="outside lower center", ncols=5)
    return figure


def timeline(runs: Sequence[dict[str, Any]], settings: Sequence[str]) -> Figure:
    """When each trigger consolidated, with the true changes of the stream."""
    streams = list(dict.fromkeys(one["stream"] for one in runs))
    figure = Figure(figsize=(12, 1.75 * len(streams) + 0.6), layout="constrained")
    for axis, stream in zip(
        figure.subplots(len(streams), squeeze=False)[:, 0], streams, strict=True
    ):
        for row, setting in enumerate(settings):
            one = next(o for o in runs if (o["stream"], o["setting"]) == (stream, setting))
            steps = one["consolidations"]
            axis.plot(
                steps, [row] * len(steps), linestyle="", marker="v", markersize=5,
                color=COLOURS[0] if setting == "default" else "0.45",
            )  # fmt: skip
        for change in one["changes"]:
            axis.axvline(change, color=COLOURS[1], linestyle="--", linewidth=1)
        axis.set_yticks(range(len(settings)), settings, fontsize=7)
        axis.set_ylim(len(settings) - 0.5, -0.5)
        axis.set_xlim(0, one["steps"])
        axis.set_title(stream, fontsize=10, loc="left")
    axis.set_xlabel("time step")
    figure.suptitle("When each trigger consolidated")
    marks = [
        Line2D([], [], color=COLOURS[0], marker="v", linestyle="", label="default"),
        Line2D([], [], color="0.45", marker="v", linestyle="", label="other triggers"),
        Line2D([], [], color=COLOURS[1], linestyle="--", label="stream changes"),
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=3)
    return figure


def strengths(rows: Sequence[dict[str, Any]], values: Sequence[float]) -> Figure:
    """The final score at every strength."""
    figure = Figure(figsize=(9, 5), layout="constrained")
    axis = figure.subplots()
    for index, stream in enumerate(dict.fromkeys(row["stream"] for row in rows)):
        found = {row["setting"]: row["final"] for row in rows if row["stream"] == stream}
        chosen = [found[f"strength {value:g}"] for value in values]
        axis.errorbar(
            values, [100 * score for score, _ in chosen], [100 * error for _, error in chosen],
            marker=MARKERS[index], color=(*COLOURS, "0.6", "0.3")[index], label=stream,
        )  # fmt: skip
        axis.plot(values[0] / 3, 100 * found["online"][0], marker="_", markersize=12,
                  color=(*COLOURS, "0.6", "0.3")[index])  # fmt: skip
    axis.set_xscale("log")
    axis.axvline(STRENGTH, color="0.4", linestyle="--", label="default")
    axis.set(
        title="Final score against the strength of the penalty",
        xlabel="strength (dimensionless); dashes on the left: online learning, strength 0",
        ylabel="final accuracy, or variance explained (%)",
    )
    figure.legend(loc="outside lower center", ncols=3)
    return figure
