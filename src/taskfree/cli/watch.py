"""`taskfree watch`: a live page of a learner."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from taskfree.observe import server, watch


@dataclass(frozen=True)
class Watch:
    """Show a learner live: loss, plateaus and peaks, metrics, and its hardest samples.

    The folder is the state of `taskfree learn`, or what `taskfree.observe.log.Log` writes. The page
    needs only these files: the learner may be running, stopped, or gone.

        taskfree watch prices
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """of the run"""
    port: int = 0
    """of the page, on this machine only; 0 picks a free one"""
    show: bool = True
    """open the browser"""


def run(command: Watch) -> None:
    """Serve the page until Ctrl-C."""
    server.run(watch.serve(command.folder, command.port), command.show)
