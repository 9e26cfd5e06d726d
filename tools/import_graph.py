"""Draw which package imports which: docs/imports.png.

`python tools/import_graph.py` reads the imports from the source and the layers from pyproject.toml.
"""

import tomllib
from pathlib import Path

import grimp
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

ROOT = Path(__file__).parents[1]
COLOURS = {"cli": "#E69F00", "paper": "#CC79A7", "_core": "#999999"}
QUESTIONS = ("when", "which", "how")
PLACES = {"cli": 6, "paper": 10.7, "adapters": 4.5, "tabular": 8, "checks": 1.1, "grow": 5.6,
          "onpolicy": 10.65, "defaults": 3, "observe": 10, "_learner": 5.2, "checkpoint": 4,
          "metrics": 8, "robot": 11.9}  # fmt: skip
"""How far to the right a box is, so that arrows do not cross boxes; others are spread evenly."""
CURVES = {("paper", "robot"): -0.12, ("checks", "which"): -0.1, ("checks", "how"): -0.16}
"""How much an arrow is bent, for the same reason."""


def layers():
    """The layers of the architecture, from top to bottom."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return [[name.strip().removeprefix("taskfree.") for name in row.split("|")] for row in found]


def imports():
    """Pairs of packages of which the first imports the second."""
    graph = grimp.build_graph("taskfree")
    found = set()
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            parts = [name.split(".")[1:2] for name in (importer, imported)]
            if all(parts) and parts[0] != parts[1]:
                found.add((parts[0][0], parts[1][0]))
    return found


def reduced(pairs):
    """The pairs that do not follow from others: the transitive reduction."""
    below = {start: {end for first, end in pairs if first == start} for start, _ in pairs}

    def reaches(start, end):
        return any(one == end or reaches(one, end) for one in below.get(start, ()))

    return {
        (start, end)
        for start, end in pairs
        if not any(reaches(other, end) for other in below[start] - {end})
    }


def draw():
    """The packages in their layers, with an arrow for every import that others do not imply."""
    rows = layers()
    places = {
        name: (PLACES.get(name, 12 * (at + 0.5) / len(row)), -1.05 * level)
        for level, row in enumerate(rows)
        for at, name in enumerate(row)
    }
    figure = Figure(figsize=(10, 9.5), layout="constrained")
    axis = figure.subplots()
    for start, end in sorted(reduced(imports())):
        if start not in places or end not in places:
            continue
        (x, y), (u, v) = places[start], places[end]
        axis.add_patch(
            FancyArrowPatch(
                (x, y - 0.28), (u, v + 0.28), arrowstyle="-|>", mutation_scale=11, linewidth=1.3,
                color="0.45" if end == "_core" else "#0072B2", alpha=0.75,
                connectionstyle=f"arc3,rad={CURVES.get((start, end), 0.06 if x <= u else -0.06)}",
            )
        )  # fmt: skip
    for name, (x, y) in places.items():
        colour = "#009E73" if name in QUESTIONS else COLOURS.get(name, "#56B4E9")
        axis.add_patch(
            FancyBboxPatch(
                (x - 0.95, y - 0.24), 1.9, 0.48, boxstyle="round,pad=0.04", facecolor=colour,
                edgecolor="black", linewidth=0.8, zorder=3,
            )
        )  # fmt: skip
        axis.text(x, y, name, ha="center", va="center", fontsize=12, zorder=4)
    axis.set(xlim=(0, 13), ylim=(-1.05 * len(rows) + 0.6, 0.6))
    axis.set_axis_off()
    figure.suptitle(
        "Which package imports which. Arrows that follow from others are left out.", fontsize=13
    )
    figure.savefig(ROOT / "docs/imports.png", dpi=110)


if __name__ == "__main__":
    draw()
