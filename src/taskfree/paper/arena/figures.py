"""The figures of the arena experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Polygon

from taskfree.observe.figures import COLOURS
from taskfree.paper.arena.world import OBSTACLE_RADIUS, PANELS, WALL_DISTANCE

CAPTIONS = {
    "collisions.png": "Collisions per gradient step over time (the paper's Figure 7): moving "
    "average over 30 steps, mean over the seeds, with a band of one standard error.",
    "total.png": "Total collisions divided by gradient steps, with 95 % intervals (the "
    "supplement's figure), and the same for the trained network after learning.",
    "paths.png": "The robot's path from above, first seed: dark is early, bright is late, crosses "
    "are collisions.",
}
STYLES = {
    "straight on": ("0.5", ":"),
    "expert": ("black", ":"),
    "online": (COLOURS[5], (0, (5, 1))),
    "online continual": (COLOURS[4], (0, (5, 1))),
    "online, class-balanced": (COLOURS[0], "-"),
    "online continual, class-balanced": (COLOURS[1], "-"),
}
SMOOTH = 30
"""Steps of the moving average."""


def collisions(runs: Sequence[Mapping[str, Any]], steps: int) -> Figure:
    """Collisions per gradient step over time."""
    figure = Figure(figsize=(9, 5), layout="constrained")
    axis = figure.subplots()
    smooth = min(SMOOTH, steps)
    for setting, (colour, style) in STYLES.items():
        counts = np.array(
            [
                np.histogram(one["collisions"], bins=steps, range=(0.5, 10 * steps + 0.5))[0]
                for one in runs
                if one["setting"] == setting
            ]
        )
        values = np.array([np.convolve(c, np.ones(smooth) / smooth, "valid") for c in counts])
        at = np.arange(values.shape[1]) + smooth
        middle, error = values.mean(0), values.std(0) / len(values) ** 0.5
        axis.plot(at, middle, color=colour, linestyle=style, label=setting)
        axis.fill_between(at, middle - error, middle + error, color=colour, alpha=0.2, lw=0)
    axis.set(
        title="Collisions while learning on policy", xlabel="gradient step (10 frames)",
        ylabel=f"collisions per step, moving average over {smooth}",
    )  # fmt: skip
    axis.set_ylim(bottom=0)
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def total(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Total collisions divided by gradient steps, while learning and after."""
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axis = figure.subplots()
    for shift, key, colour in (
        (-0.2, "overall", COLOURS[0]),
        (0.2, "after learning", COLOURS[4]),
    ):
        axis.barh(
            np.arange(len(rows)) + shift, [row[key][0] for row in rows], 0.38, color=colour,
            xerr=[row[key][1] for row in rows], label=key, error_kw={"ecolor": "0.2", "capsize": 3},
        )  # fmt: skip
    axis.set_yticks(range(len(rows)), [row["setting"] for row in rows])
    axis.invert_yaxis()
    axis.set_xlim(left=0)
    axis.set(title="Collisions per gradient step", xlabel="collisions per gradient step")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def paths(runs: Sequence[Mapping[str, Any]]) -> Figure:
    """The paths of the first seed's robots, from above."""
    first = [one for one in runs if one["seed"] == runs[0]["seed"]]
    columns = 3
    figure = Figure(figsize=(11, 3.9 * -(-len(first) // columns)), layout="constrained")
    axes = figure.subplots(-(-len(first) // columns), columns, squeeze=False).flatten()
    corners = (2 * np.arange(PANELS) + 1) * np.pi / PANELS
    radius = WALL_DISTANCE / np.cos(np.pi / PANELS)
    for axis, one in zip(axes, first, strict=False):
        axis.add_patch(
            Polygon(
                np.stack([radius * np.cos(corners), radius * np.sin(corners)], 1),
                fill=False, edgecolor="#9c7a3c", linewidth=3,
            )
        )  # fmt: skip
        axis.add_patch(Circle((0, 0), OBSTACLE_RADIUS, color="#f0c808"))
        path = np.array(one["path"])
        drawn = axis.scatter(*path.T, c=np.arange(len(path)) / 10, s=2, cmap="viridis")
        hits = path[[at - 1 for at in one["collisions"]]].reshape(-1, 2)
        axis.scatter(*hits.T, marker="x", color=COLOURS[1], s=30)
        axis.set_title(f"{one['setting']}\ncollisions: {len(hits)}", fontsize=10)
        axis.set(aspect="equal", xlabel="x (m)", ylabel="y (m)")
    for axis in axes[len(first) :]:
        axis.remove()
    figure.colorbar(drawn, ax=list(axes[: len(first)]), label="gradient step", shrink=0.6)
    figure.suptitle("The robot's path from above; crosses are collisions")
    return figure
