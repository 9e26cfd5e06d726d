"""The figures of the corridor experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from taskfree.observe.figures import COLOURS

KINDS = ("accuracy", "balanced accuracy")
CAPTIONS = {
    "views.png": "Camera views along every corridor.",
    "accuracy.png": "Accuracy on each corridor and on all of them while learning (the paper's "
    "Figure 6): mean and standard deviation over the seeds. Shaded: the corridor is being flown. "
    "Horizontal lines: before learning, and joint learning in one epoch and in several. Last "
    "panel: the loss per time step (new frames plus buffer), with the plateaus and peaks of the "
    "first seed.",
    "balanced.png": "The same for balanced accuracy, the mean over the three actions: a network "
    "that always flies straight on reaches 33 %.",
    "final.png": "Balanced accuracy on every corridor after the last one, without (top) and with "
    "(bottom) a class-balanced buffer (the supplement's figure).",
    "rollout.png": "The trained networks fly every corridor by themselves for 20 seconds. The "
    "distance is the length of the path flown, at most 15.7 m.",
}
CURVES = {
    "online, no buffer": "0.6",
    "online": COLOURS[5],
    "online continual": COLOURS[4],
    "online, class-balanced": COLOURS[0],
    "online continual, class-balanced": COLOURS[1],
}
LINES = {
    "scratch": (":", "0.4"),
    "online joint": ("-.", COLOURS[2]),
    "offline joint": ("--", COLOURS[3]),
}
CONTINUAL = "online continual, class-balanced"


def views(flights: Mapping[str, Tensor], each: int = 8) -> Figure:
    """Images along the path, one row per corridor."""
    figure = Figure(figsize=(1.25 * each + 0.3, 1.3 * len(flights) + 0.4), layout="constrained")
    axes = figure.subplots(len(flights), each, squeeze=False)
    for row, (name, frames) in zip(axes, flights.items(), strict=True):
        for axis, index in zip(
            row, np.linspace(0, len(frames) - 1, each + 2)[1:-1].astype(int), strict=True
        ):
            axis.imshow(frames[int(index)].numpy())
            axis.set(xticks=[], yticks=[])
        row[0].set_ylabel(name, rotation=0, labelpad=10, va="center", fontsize=13)
    figure.suptitle("Camera views of every corridor, in the order flown")
    return figure


def curves(names: Sequence[str], runs: Sequence[Mapping[str, Any]], kind: int) -> Figure:
    """Accuracy over time on every corridor and on all of them, and the loss: Figure 6."""
    panels = len(names) + 2
    columns = 3 if panels <= 6 else 4
    rows = -(-panels // columns)
    figure = Figure(figsize=(4.2 * columns, 2.7 * rows + 0.8), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    crossings = runs[0]["crossings"]
    for number, axis in enumerate(axes[: panels - 1]):
        corridor = number if number < len(names) else None
        for setting, colour in CURVES.items():
            _band(axis, runs, setting, (corridor, kind), colour)
        for setting, (style, colour) in LINES.items():
            final = [
                _over(one["final"], corridor, kind) for one in runs if one["setting"] == setting
            ]
            axis.axhline(np.mean(final), linestyle=style, color=colour, label=setting)
        if corridor is not None:
            start = crossings[corridor - 1] if corridor else 0
            axis.axvspan(start, crossings[corridor], color="0.93", zorder=0)
        axis.set_title("all corridors" if corridor is None else f"corridor {names[corridor]}")
        axis.set_ylim(0, 103)
        axis.set_ylabel(f"{KINDS[kind]} (%)", fontsize=8)
    _losses(axes[panels - 1], runs)
    for axis in axes[:panels]:
        for step in crossings[:-1]:
            axis.axvline(step, color="0.75", linewidth=0.8, zorder=0)
        axis.set_xlim(0, crossings[-1])
        axis.set_xlabel("time step (10 frames)", fontsize=8)
        axis.tick_params(labelsize=8)
    for axis in axes[panels:]:
        axis.remove()
    figure.suptitle(
        f"{KINDS[kind].capitalize()} on every corridor while learning them one after the other"
    )
    handles, labels = axes[0].get_legend_handles_labels()
    more, more_labels = axes[panels - 1].get_legend_handles_labels()
    figure.legend(
        handles + more, labels + more_labels, loc="outside lower center", ncols=5, fontsize=9
    )
    return figure


def _over(final: Sequence[Sequence[float]], corridor: int | None, kind: int) -> float:
    chosen = final if corridor is None else [final[corridor]]
    return 100 * float(np.mean([one[kind] for one in chosen]))


def _band(
    axis: Axes,
    runs: Sequence[Mapping[str, Any]],
    setting: str,
    what: tuple[int | None, int],
    colour: str,
) -> None:
    """The mean over the seeds, and a band of one standard deviation."""
    chosen = [one["curve"] for one in runs if one["setting"] == setting]
    steps = [point["step"] for point in chosen[0]]
    values = np.array([[_over(point["corridors"], *what) for point in curve] for curve in chosen])
    mean, spread = values.mean(0), _std(values)
    axis.plot(
        steps, mean, color=colour, label=setting,
        linewidth=2 if "balanced" in setting else 1.2,
        linestyle="-" if "balanced" in setting else (0, (5, 1)),
    )  # fmt: skip
    axis.fill_between(steps, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)


def _std(values: Any) -> Any:
    """The standard deviation over the seeds, as in the tables."""
    return values.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])


def _losses(axis: Axes, runs: Sequence[Mapping[str, Any]]) -> None:
    """The loss of the continual learner, with the plateaus and peaks of the first seed."""
    chosen = [one for one in runs if one["setting"] == CONTINUAL]
    losses = np.array([one["losses"] for one in chosen])
    steps = np.arange(1, losses.shape[1] + 1)
    kernel = np.ones(5) / 5
    smooth = np.array([np.convolve(one, kernel, "valid") for one in losses])
    mean, spread = smooth.mean(0), _std(smooth)
    axis.plot(
        steps[4:], mean, color="black", linewidth=1, label="loss, moving average over 5 time steps"
    )
    axis.fill_between(steps[4:], mean - spread, mean + spread, color="0.5", alpha=0.3, linewidth=0)
    for kind, marker, colour in (("plateau", "v", COLOURS[2]), ("peak", "^", COLOURS[3])):
        at = [event["step"] for event in chosen[0]["events"] if event["kind"] == kind]
        axis.plot(
            at, mean[[step - 5 for step in at]], marker=marker, color=colour, linestyle="",
            markeredgecolor="black", label=f"{kind}, first seed",
        )  # fmt: skip
    axis.set_title("cross-entropy, online continual, class-balanced", fontsize=10)
    axis.set_ylabel("mean of new frames + mean of buffer", fontsize=8)
    axis.set_ylim(bottom=0)


def bars(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """The final balanced accuracy on every corridor: online and online continual."""
    found = {row["setting"]: row["balanced accuracy by corridor"] for row in rows}
    names = list(found["online"])
    figure = Figure(figsize=(max(7.0, 1.1 * len(names)), 6.2), layout="constrained")
    for axis, end, title in zip(
        figure.subplots(2, 1, sharex=True, sharey=True),
        ("", ", class-balanced"),
        ("not class-balanced", "with a class-balanced buffer"),
        strict=True,
    ):
        for shift, setting, colour in (
            (-0.2, "online", COLOURS[0]),
            (0.2, "online continual", COLOURS[1]),
        ):
            values = [found[setting + end][name] for name in names]
            axis.bar(
                np.arange(len(names)) + shift, [100 * mean for mean, _ in values], 0.38,
                yerr=[100 * spread for _, spread in values], color=colour, label=setting,
                error_kw={"ecolor": "0.2", "capsize": 3},
            )  # fmt: skip
        axis.axhline(100 / 3, color="0.4", linestyle=":", label="always straight on")
        axis.set_xticks(range(len(names)), names)
        axis.set(title=title, ylabel="balanced accuracy (%)", ylim=(0, 105))
    axis.set_xlabel("corridor, in the order flown")
    figure.suptitle("After the last corridor: mean and standard deviation over the seeds")
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def rollouts(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Collisions of the networks per minute, and metres before the first collision."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    names = [row["setting"] for row in rows]
    panels = (
        ("collisions per minute", "collisions per minute (fewer is better)"),
        (
            "metres before the first collision",
            "metres before the first collision (more is better)",
        ),
    )
    for axis, (key, title) in zip(figure.subplots(1, 2, sharey=True), panels, strict=True):
        values = [row[key] for row in rows]
        axis.barh(
            names, [mean for mean, _ in values], xerr=[spread for _, spread in values],
            color=[COLOURS[1] if "continual" in name else COLOURS[0] for name in names],
            error_kw={"ecolor": "0.2", "capsize": 3},
        )  # fmt: skip
        axis.set_xlabel(title)
        axis.set_xlim(left=0)
    axis.invert_yaxis()  # of both axes, which share it: the first setting on top
    figure.suptitle(
        "The trained networks fly by themselves: mean and standard deviation over the seeds"
    )
    return figure
