"""`taskfree report`: an HTML page with figures of what has been learned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from taskfree.tabular import report
from taskfree.tabular.session import Session


@dataclass(frozen=True)
class WriteReport:
    """Write an HTML page: metrics over time, plateaus and peaks, classes, importance."""

    state: Annotated[Path, tyro.conf.Positional]
    """the folder in which taskfree learn kept everything"""
    out: Path | None = None
    """the page; report.html in that folder if not given"""


def run(command: WriteReport) -> None:
    """Write the page."""
    out = command.out or command.state / "report.html"
    report.write(Session(command.state, reading=True), out)
    Console().print(f"report: {out}")
