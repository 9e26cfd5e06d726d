"""Figures and the HTML report of a run: one file that holds everything and needs nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from taskfree.learner import Report

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which colour-blind readers can tell apart."""


def figure_loss(
    reports: Sequence[Report],
    *,
    title: str,
    changes: Sequence[int] = (),
    thresholds: Mapping[str, float] | None = None,
) -> Figure:
    """The loss over time with the window's mean, plateaus and peaks: the paper's Figure 2.

    `changes` are steps at which the stream itself changed, which the learner was not told.
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
        ("peak: looks for a plateau again", [r for r in reports if r.peak], COLOURS[1], "^"),
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
            change, color="0.4", linestyle="--", label="the stream changes" if index == 0 else None
        )
    axis.set(title=title, xlabel="time step", ylabel="loss (new samples + buffer)")
    axis.set_ylim(bottom=0)
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure as a PNG."""
    figure.savefig(path, dpi=130)


STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid #8884; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.wide { overflow-x: auto; }
figure { margin: 2rem 0; } figure img { max-width: 100%; border-radius: 6px; }
figcaption { opacity: .8; } pre { overflow-x: auto; background: #8882; padding: 1rem; }
"""


def write_html(
    path: Path,
    *,
    title: str,
    introduction: str,
    tables: Mapping[str, Sequence[Sequence[str]]],
    figures: Mapping[str, tuple[Path, str]],
    details: Mapping[str, Any],
) -> None:
    """Write one page with a run's tables, figures and settings, pictures included.

    `tables` maps a caption to rows, the heading first; `figures` maps a name to a file and its
    caption; `details` is whatever made the run.
    """
    parts = [f"<h1>{escape(title)}</h1>", f"<p>{escape(introduction)}</p>"]
    for caption, (heading, *rows) in tables.items():
        head = "".join(f"<th>{escape(cell)}</th>" for cell in heading)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        parts.append(
            f"<h2>{escape(caption)}</h2><div class='wide'><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table></div>"
        )
    for name, (file, caption) in figures.items():
        picture = base64.b64encode(file.read_bytes()).decode()
        parts.append(
            f"<figure><img alt='{escape(name)}' src='data:image/png;base64,{picture}'>"
            f"<figcaption>{escape(caption)}</figcaption></figure>"
        )
    made = escape(json.dumps(details, indent=2))
    parts.append(f"<details><summary>What made this</summary><pre>{made}</pre></details>")
    path.write_text(
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)} · taskfree</title><style>{STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n",
        encoding="utf-8",
    )
