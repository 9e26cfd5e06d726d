"""Figures of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from taskfree._core.files import atomic_write
from taskfree.observe.events import Report

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The Okabe-Ito palette, which colour-blind readers can distinguish."""


def figure_loss(
    reports: Sequence[Report],
    *,
    title: str,
    changes: Sequence[int] = (),
    thresholds: Mapping[str, float] | None = None,
) -> Figure:
    """The loss over time with the window's mean, plateaus and peaks: the paper's Figure 2.

    Args:
        reports: of all time steps.
        title: of the figure.
        changes: steps at which the stream changed, which the learner was not told.
        thresholds: horizontal lines, by label.
    """
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    axis = figure.subplots()
    steps = [report.step for report in reports]
    axis.plot(
        steps, [report.window_loss for report in reports], color="0.7", linewidth=1, label="loss"
    )
    axis.plot(
        steps, [report.window_mean for report in reports], color=COLOURS[0], label="window mean"
    )
    for name, happened, colour, marker in (
        ("plateau: consolidated", [r for r in reports if r.consolidated], COLOURS[2], "v"),
        ("peak: trigger armed again", [r for r in reports if r.peak], COLOURS[1], "^"),
    ):
        axis.plot(
            [report.step for report in happened],
            [report.window_mean for report in happened],
            linestyle="", marker=marker, markersize=10, color=colour, markeredgecolor="black",
            label=f"{name} ({len(happened)})",
        )  # fmt: skip
    for label, value in (thresholds or {}).items():
        axis.axhline(value, color="0.3", linestyle=":", label=label)
    for index, change in enumerate(changes):
        axis.axvline(
            change, color="0.4", linestyle="--", label="stream changes" if index == 0 else None
        )
    axis.set(title=title, xlabel="time step", ylabel="loss (new samples + buffer)")
    axis.set_ylim(bottom=0)
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure as a PNG file."""
    with atomic_write(path) as unfinished:
        figure.savefig(unfinished, dpi=130)
