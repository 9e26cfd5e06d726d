"""`taskfree inspect`: what has been learned, when, and what is held."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from taskfree.tabular.inspection import tables
from taskfree.tabular.session import Session


@dataclass(frozen=True)
class Inspect:
    """Show what a network has learned, when it consolidated, and its hardest rows."""

    state: Annotated[Path, tyro.conf.Positional]
    """the folder in which taskfree learn kept everything"""
    hardest: int = 5
    """how many of the hardest rows in the buffer to show"""
    last: int = 10
    """how many of the last plateaus and peaks to show"""


def run(command: Inspect) -> None:
    """Print it."""
    session, console = Session(command.state, reading=True), Console(markup=False, emoji=False)
    for title, rows in tables(session, command.hardest, command.last).items():
        table = Table(title=title, title_justify="left", box=None, header_style="bold")
        for at, name in enumerate(rows[0]):
            table.add_column(name, justify="right" if at else "left")
        for row in rows[1:]:
            table.add_row(*row)
        console.print(table)
        console.print()
