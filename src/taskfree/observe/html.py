"""An HTML report: one file that holds tables, figures and settings, and needs nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from taskfree._core import files

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
    """Write one page with a run's tables, figures and settings.

    Args:
        path: the file.
        title: of the page.
        introduction: its first paragraph.
        tables: by caption, rows of text with the heading first.
        figures: by name, a PNG file and its caption.
        details: what made the run.
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
        image = base64.b64encode(file.read_bytes()).decode()
        parts.append(
            f"<figure><img alt='{escape(name)}' src='data:image/png;base64,{image}'>"
            f"<figcaption>{escape(caption)}</figcaption></figure>"
        )
    made = escape(json.dumps(details, indent=2))
    parts.append(f"<details><summary>Settings and versions</summary><pre>{made}</pre></details>")
    page = (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)} · taskfree</title><style>{STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )
    files.write_bytes(path, page.encode())
