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
    sizes = sorted({row["memory"] for row in rows} - {0})
    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axis, last = figure.subplots(), dict[str, float]()
    for method in methods:
        own = sorted({size for name, _, size in found if name == method})
        points = [
            (size, 100 * mean(found[method, stream, size] for stream in streams))
            for size in own
            if streams and all((method, stream, size) in found for stream in streams)
        ]
        ours = method == "taskfree"
        if points and points[0][0] == 0:
            axis.axhline(points[0][1], dashes=(4, 2), color="0.6", linewidth=1)
            axis.annotate(
                method, (sizes[0], points[0][1]), (0, 2),
                fontsize=8, color="0.3", textcoords="offset points",
            )  # fmt: skip
        elif points:
            x, y = zip(*points, strict=True)
            last[method] = y[-1]
            axis.plot(x, y, marker="o", label=method, linewidth=2.5 if ours else 1.2)
    axis.set_xscale("log")
    axis.set_xticks(sizes, list(map(str, sizes)))
    axis.minorticks_off()
    axis.set_xlabel("samples in the memory")
    axis.set_ylabel(f"final score (%), mean of {len(streams)} streams")
    handles, names = axis.get_legend_handles_labels()
    by_score = sorted(zip(handles, names, strict=True), key=lambda pair: -last[pair[1]])
    if by_score:
        axis.legend(
            *zip(*by_score, strict=True),
            fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5),
        )  # fmt: skip
    axis.spines[["top", "right"]].set_visible(False)
    return figure
