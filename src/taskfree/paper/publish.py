"""Publishing an experiment: results as JSON, figures, an HTML report, and tables to print."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from taskfree._core import files
from taskfree.observe.figures import save
from taskfree.observe.html import write_html
from taskfree.paper.cache import versions

NOT_SETTINGS = ("out", "workers", "video")
"""Options that no result depends on."""


def publish(
    name: str,
    config: Any,
    *,
    title: str,
    found: Mapping[str, Any],
    tables: Mapping[str, Sequence[Sequence[str]]],
    figures: Mapping[str, tuple[Figure, str]],
    introduction: str | None = None,
    details: Sequence[str] = (),
) -> dict[str, Any]:
    """Write results.json, figures and report.html, and print the tables; return the results.

    Args:
        name: of the experiment, as in `taskfree reproduce NAME`.
        config: its options, with the folder `out`.
        title: of the report.
        found: the results, by name; "config" replaces the settings of `config`.
        tables: by caption, rows of text with the heading first.
        figures: by file name, a figure and its caption.
        introduction: of the report; the config's own description if None.
        details: which of `found` the report shows with the settings.
    """
    results = {
        "command": command(name, config),
        "config": settings(config),
        "versions": versions(),
        **found,
    }
    out: Path = config.out
    out.mkdir(parents=True, exist_ok=True)
    write_results(out / "results.json", results)
    for file, (figure, _) in figures.items():
        save(figure, out / file)
    write_html(
        out / "report.html",
        title=title,
        introduction=" ".join((introduction or config.__doc__ or "").split()),
        tables=tables,
        figures={file: (out / file, caption) for file, (_, caption) in figures.items()},
        details={key: results[key] for key in ("command", "config", "versions", *details)},
    )
    for caption, rows in tables.items():
        print_table(caption, rows)
    Console().print(f"report: {out / 'report.html'}")
    return results


def settings(config: Any, without: Sequence[str] = ()) -> dict[str, Any]:
    """The options that a result depends on, as JSON can hold them."""
    found: dict[str, Any] = {}
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name in (*NOT_SETTINGS, *without):
            continue
        if is_dataclass(value):
            value = settings(value)
        found[field.name] = str(value) if isinstance(value, Path) else value
    return found


def command(name: str, config: Any) -> str:
    """The command line of this config: the options that differ from the defaults."""
    return " ".join([f"taskfree reproduce {name}", *_options(config, type(config)())])


def _options(config: Any, default: Any, prefix: str = "") -> Iterator[str]:
    for field in fields(config):
        value, usual = getattr(config, field.name), getattr(default, field.name)
        option = prefix + field.name.replace("_", "-")
        if field.name in NOT_SETTINGS or value == usual:
            continue
        if is_dataclass(value):
            yield from _options(value, usual, f"{option}.")
        elif isinstance(value, bool):
            yield f"--{option}" if value else f"--{prefix}no-{field.name.replace('_', '-')}"
        else:
            values = value if isinstance(value, tuple) else (value,)
            yield shlex.join([f"--{option}", *map(str, values)])


def print_table(title: str, rows: Sequence[Sequence[str]], caption: str | None = None) -> None:
    """Print a table: a heading and lines, with numbers aligned to the right."""
    heading, *lines = rows
    table = Table(title=title, caption=caption, box=None, padding=(0, 1, 0, 0))
    for index, name in enumerate(heading):
        table.add_column(name, justify="right" if index else "left")
    for line in lines:
        table.add_row(
            *(cell.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}") for cell in line)
        )
    Console().print(table)


def write_results(path: Path, content: Mapping[str, Any]) -> None:
    """Write results as JSON with one line per run, so that people and diffs can read it."""

    def text(value: Any) -> str:
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
        return json.dumps(value)

    lines = [f"{json.dumps(key)}: {text(value)}" for key, value in content.items()]
    files.write_bytes(path, ("{\n " + ",\n ".join(lines) + "\n}\n").encode())
