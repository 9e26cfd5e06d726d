"""Results as JSON, and tables as Markdown."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def results(name):
    """The content of a file in results/."""
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def summary(name):
    """The summary rows of an experiment, by setting."""
    return {row["setting"]: row for row in results(f"{name}/results")["summary"]}


def percent(spread):
    """Mean and spread in percent; empty if there are none."""
    return "" if spread is None else " ± ".join(f"{100 * value:.1f}" for value in spread)


def points(value):
    """A difference in percentage points."""
    return f"{100 * value:.1f}"


def table(heading, rows, bold=None):
    """A Markdown table; rows for which `bold(row)` is true are in bold."""
    lines = ["| " + " | ".join(heading) + " |", "|---" * len(heading) + "|"]
    for row in rows:
        mark = "**" if bold is not None and bold(row) else ""
        lines.append(
            "| " + " | ".join(f"{mark}{cell}{mark}" if cell else "" for cell in row) + " |"
        )
    return "\n".join(lines) + "\n"
