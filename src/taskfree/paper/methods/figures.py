"""Figure of the methods: score against memory."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from matplotlib.figure import Figure

CAPTION = (
    "Final score against the number of samples in the memory, mean over the streams that every "
    "method with a memory has run. Dashed: without memory; joint learning sees the same samples in "
    "random order, in one pass."
)


def memory(rows: Sequence[dict[str, Any]]) -> Figure:
    """One line per method: the mean final score over all streams against the memory."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    with_memory = [m for m in methods if any(r["memory"] for r in rows if r["method"] == m)]
    found = {(r["method"], r["stream"], r["memory"]): r["final"][0] for r in rows}
    streams = [
        stream
        for stream in dict.fromkeys(row["stream"] for row in rows)
        if all(any((m, stream, r["memory"]) in found for r in rows) for m in with_memory)
    ]
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axis = figure.subplots()
    for method in methods:
        sizes = sorted({size for name, _, size in found if name == method})
        points = [
            (size, 100 * mean(found[method, stream, size] for stream in streams))
            for size in sizes
            if streams and all((method, stream, size) in found for stream in streams)
        ]
        ours = method == "taskfree"
        if points and points[0][0] == 0:
            dashes = (4, 2) if method == "joint" else (1, 2)
            line = axis.axhline(points[0][1], dashes=dashes, color="0.4")
            line.set_label(method)
        elif points:
            x, y = zip(*points, strict=True)
            axis.plot(x, y, marker="o", label=method, linewidth=2.5 if ours else 1.2)
    axis.set_xscale("log")
    sizes = sorted({row["memory"] for row in rows} - {0})
    axis.set_xticks(sizes, list(map(str, sizes)))
    axis.minorticks_off()
    axis.set_xlabel("samples in the memory")
    axis.set_ylabel(f"final score (%), mean of {len(streams)} streams")
    axis.legend(fontsize=8, frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    return figure
