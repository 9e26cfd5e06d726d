"""What `taskfree learn` shows on the terminal: a status line and a summary."""

from __future__ import annotations

from time import monotonic
from typing import Self

import psutil
import rich.console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from taskfree.metrics import StepTimer
from taskfree.observe.events import label_counts
from taskfree.tabular.held_out import HeldOut
from taskfree.tabular.session import Session
from taskfree.tabular.targets import LabelEncoder

__all__ = ["Console"]


class Console:
    """Writes to standard error: on a terminal one line that changes, otherwise a line now and then.

    Args:
        first_row: how many rows were learned before this run.
    """

    def __init__(self, first_row: int = 0) -> None:
        self.events: dict[str, int] = {}
        """The step of the last plateau and of the last peak."""
        self._rich = rich.console.Console(stderr=True)
        self._live = Live(console=self._rich, transient=True, auto_refresh=False)
        self._first_row, self._started = first_row, monotonic()
        self._shown = 0.0 if self._rich.is_terminal else monotonic()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, message: str) -> None:
        """Print a message."""
        self._rich.print(f"taskfree: {message}", markup=False, highlight=False, soft_wrap=True)

    def show(self, session: Session) -> None:
        """Update the status line, if it is time."""
        terminal = self._rich.is_terminal
        if monotonic() - self._shown < (0.25 if terminal else 10.0):
            return
        self._shown = monotonic()
        if terminal:
            self._live.update(self._status(session), refresh=True)
        else:
            self.say(str(self._status(session)))

    def _rate(self, session: Session) -> float:
        seconds = monotonic() - self._started
        return (session.progress.rows - self._first_row) / max(1e-9, seconds)

    def _status(self, session: Session) -> Text:
        progress, metric = session.progress, session.metric
        parts = [f"{progress.rows:,} rows", f"{self._rate(session):,.0f}/s"]
        if metric.count:
            name = "accuracy" if isinstance(session.targets, LabelEncoder) else "error"
            parts.append(f"{name} {metric.windowed:.3f} (all {metric.mean:.3f})")
        parts += [f"{kind} {step:,}" for kind, step in sorted(self.events.items(), reverse=True)]
        if buffer := _buffer(session):
            parts.append(f"buffer {buffer}")
        if progress.skipped:
            parts.append(f"{progress.skipped:,} skipped")
        parts.append(_memory())
        return Text("  ".join(parts), overflow="ellipsis", no_wrap=True)

    def summarize(self, session: Session, timer: StepTimer, held_out: list[HeldOut]) -> None:
        """Print how it went."""
        rows, skipped = session.progress.rows, session.progress.skipped
        table = Table(box=None, show_header=False)
        table.add_row("rows", f"{rows:,}, of which {skipped:,} could not be read")
        new, rate = rows - self._first_row, self._rate(session)
        table.add_row("this run", f"{new:,}, {rate:,.0f} per second")
        if timer.steps:
            times = f"{1000 * timer.mean:.2f} ms, at most {1000 * timer.worst:.0f} ms"
            table.add_row("time per step", f"{times}; memory {_memory()}")
        for name, value in session.metric.summary().items():
            if name != "count":
                table.add_row(name.replace("_", " "), f"{value:.4f}")
        for name, value in session.metric.by_environment.items():
            table.add_row(f"in {name}", f"{value:.4f}")
        for held in held_out:
            table.add_row(f"on {held.name}", f"{held.last:.4f}")
        how = session.learner.how
        if how is not None:
            table.add_row("consolidations", str(getattr(how, "consolidations", "")))
        self._rich.print(table)
        self.say(f"saved in {session.folder}; the same command continues from here")


def _memory() -> str:
    return f"{psutil.Process().memory_info().rss / 2**20:.0f} MiB"


def _buffer(session: Session) -> str:
    """What the buffer holds, by class."""
    which, targets = session.learner.which, session.targets
    if which is None or not len(which):
        return ""
    if not isinstance(targets, LabelEncoder):
        return str(len(which))
    found = label_counts(which.targets)
    named = [f"{targets.names[int(label)]}: {count}" for label, count in found.items()]
    return ", ".join(named[:5]) + (f" and {len(named) - 5} more" if len(named) > 5 else "")
