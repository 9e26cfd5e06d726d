"""The figures of the synthetic experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from taskfree.observe.figures import COLOURS

GRID = 50
"""Predictions are drawn on this many points along each axis."""


def plane() -> Tensor:
    """A grid over the first quadrant of the plane in which the other two coordinates are 0."""
    axis = torch.linspace(0.5, 1, GRID)
    first, second = torch.meshgrid(axis, axis, indexing="xy")
    zero = torch.zeros(GRID * GRID)
    return torch.stack([first.flatten(), second.flatten(), zero, zero], dim=1)


def predictions(
    settings: Sequence[str], drawn: Mapping[str, Any], rows: Mapping[str, Any]
) -> Figure:
    """The paper's Figure 3: predictions in the first quadrant after training on the second."""
    figure = Figure(figsize=(11, 4.3), layout="constrained")
    axes = figure.subplots(1, len(settings), sharey=True)
    angle = torch.linspace(0, torch.pi / 2, 200)
    for axis, setting in zip(axes, settings, strict=True):
        one, row = drawn[setting], rows[setting]
        shade = axis.imshow(
            one["grid"].reshape(GRID, GRID), origin="lower", extent=(0.5, 1, 0.5, 1),
            vmin=0, vmax=1, cmap="cividis", alpha=0.85,
        )  # fmt: skip
        points, wrong = one["points"], one["wrong"]
        axis.scatter(
            *points[~wrong].T, s=9, color="white", edgecolor="black", linewidth=0.4,
            label="correct",
        )  # fmt: skip
        axis.scatter(*points[wrong].T, s=16, color=COLOURS[1], marker="x", label="wrong")
        axis.plot(
            angle.cos().numpy(),
            angle.sin().numpy(),
            color="black",
            linewidth=2,
            label="unit ball",
        )
        axis.set(xlim=(0.5, 1), ylim=(0.5, 1), xlabel="first coordinate")
        axis.set_title(
            f"{setting}\nfirst quadrant {row['first quadrant'][0]:.1%} (both {row['total'][0]:.1%})"
        )
    axes[0].set_ylabel("second coordinate")
    figure.colorbar(shade, ax=axes, label="predicted probability of 'inside'", shrink=0.8)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, facecolor="0.75"
    )
    figure.suptitle("Predictions in the first quadrant after training on the second")
    return figure


def strengths(values: Sequence[float], rows: Mapping[str, Any]) -> Figure:
    """Accuracy against the strength of the penalty, proximal and gradient."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axis = figure.subplots()
    for penalty, colour, marker in (("proximal", 0, "o"), ("gradient", 1, "s")):
        found = [rows[f"{penalty} at {strength:g}"] for strength in values]
        axis.errorbar(
            values,
            [row["total"][0] for row in found],
            [row["total"][1] for row in found],
            color=COLOURS[colour], marker=marker, capsize=3, label=f'penalty="{penalty}"',
        )  # fmt: skip
        for strength, row in zip(values, found, strict=True):
            if row["diverged"]:
                axis.annotate(
                    f"{row['diverged']} of {row['seeds']}\ndiverged",
                    (strength, row["total"][0]), (0, -30), textcoords="offset points",
                    ha="center", fontsize=8,
                )  # fmt: skip
    online = rows["online"]["total"][0]
    axis.axhline(online, color="0.4", linestyle="--", label="online (no penalty)")
    axis.set(
        xscale="log", xlabel="strength of the penalty", ylim=(0.4, 1.02),
        ylabel="accuracy on both quadrants at the end",
        title="The proximal penalty is stable at any strength",
    )  # fmt: skip
    axis.legend(loc="center right", bbox_to_anchor=(0.99, 0.48))
    axis.grid(alpha=0.3)
    return figure


CAPTIONS = {
    "figure3.png": "The paper's Figure 3: predictions in the first quadrant (other coordinates 0) "
    "after training on the second, for the first seed. Accuracies above the panels are means over "
    "all seeds on 4-D test points.",
    "figure2.png": "The paper's Figure 2: the loss, with the plateaus at which the full method "
    "consolidates and the peaks that arm the trigger again.",
    "strength.png": "Accuracy against the strength of the penalty. Error bars are standard "
    "deviations over the seeds.",
}
