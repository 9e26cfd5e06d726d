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
        self._rich = rich.console.Console(stderr=True, markup=False, emoji=False)
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

    def rate(self, session: Session) -> float:
        """Rows per second in this run."""
        seconds = monotonic() - self._started
        return (session.progress.rows - self._first_row) / max(1e-9, seconds)

    def _status(self, session: Session) -> Text:
        progress, metric = session.progress, session.metric
        parts = [f"{progress.rows:,} rows", f"{self.rate(session):,.0f}/s"]
        if metric.count:
            name = "accuracy" if isinstance(session.targets, LabelEncoder) else "error"
            parts.append(f"{name} {metric.windowed:.3f} (all {metric.mean:.3f})")
            parts.append(f"last row: {session.last[1]}, predicted {session.last[0]}")
            parts += [f"{name} {value:.3f}" for name, value in simple(session).items()]
        parts += [f"{kind} {step:,}" for kind, step in sorted(self.events.items(), reverse=True)]
        if progress.skipped:
            parts.append(f"{progress.skipped:,} skipped")
        parts.append(_memory())
        return Text("  ".join(parts), overflow="ellipsis", no_wrap=True)

    def summarize(self, session: Session, timer: StepTimer, held_out: list[HeldOut]) -> None:
        """Print how it went."""
        rows, skipped = session.progress.rows, session.progress.skipped
        table = Table(box=None, show_header=False)
        unlabelled = session.progress.unlabelled
        without = f", and {unlabelled:,} had no target" if unlabelled else ""
        table.add_row("rows", f"{rows:,}, of which {skipped:,} could not be read{without}")
        new, rate = rows - self._first_row, self.rate(session)
        table.add_row("this run", f"{new:,}, {rate:,.0f} per second")
        if timer.steps:
            times = f"{1000 * timer.mean:.2f} ms, at most {1000 * timer.worst:.0f} ms"
            table.add_row("time per step", f"{times}; memory {_memory()}")
        for name, text in scores(session).items():
            table.add_row(name, Text(text))
        for name, value in session.metric.by_environment.items():
            table.add_row(f"in {name}", f"{value:.4f}")
        for held in held_out:
            table.add_row(f"on {held.name}", f"{held.last:.4f}")
        self._rich.print(table)
        self.say(f"saved in {session.folder}; the same command continues from here")


def _memory() -> str:
    return f"{psutil.Process().memory_info().rss / 2**20:.0f} MiB"


SIMPLE = ("most frequent class", "mean so far", "same as the last row", "linear model")
"""The experts that a reader would compare with."""
RARE = 0.9
"""Where one class has at least this share of the rows, accuracy says little."""
NAMED = 0.005
"""Experts that are trusted less than this are not named."""


def simple(session: Session) -> dict[str, float]:
    """The scores of the simplest experts."""
    return {k: v for k, v in session.model.score_by_expert.items() if k in SIMPLE}


def trusted(session: Session) -> str:
    """How far each expert is trusted now."""
    trust = session.model.trust.items()
    return ", ".join(f"{name} {weight:.0%}" for name, weight in trust if weight >= NAMED)


def scores(session: Session) -> dict[str, str]:
    """By name, how good it was, beside what is simpler."""
    metric, targets = session.metric, session.targets
    if not metric.count:
        return {}
    found: dict[str, str] = {}
    beside = ", ".join(f"{name}: {_short(value)}" for name, value in simple(session).items())
    if isinstance(targets, LabelEncoder):
        counts = metric.class_counts
        most = max(counts, key=counts.__getitem__)
        rare = min(counts, key=counts.__getitem__)
        if counts[most] >= RARE * metric.count:
            found["balanced accuracy"] = f"{metric.balanced_accuracy:.3f}"
            share = counts[rare] / metric.count
            found[f"recall of {targets.names[rare]!r}"] = (
                f"{metric.by_class[rare]:.3f}; {share:.2%} of the rows"
            )
        found["accuracy"] = f"{metric.mean:.3f}; {beside}"
        found.setdefault("balanced accuracy", f"{metric.balanced_accuracy:.3f}")
    else:
        found["mean absolute error"] = f"{_short(metric.mean)}; {beside}"
        found["root mean square error"] = _short(metric.rmse)
    if metric.count > metric.window:
        found["now"] = f"{_short(metric.windowed)} over the last {metric.window:,} rows"
        found["worst"] = f"{_short(metric.worst)} over any {metric.window:,} rows"
    return found | {"trusted now": trusted(session)}


def _short(value: float) -> str:
    """A score in three digits or more."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"
