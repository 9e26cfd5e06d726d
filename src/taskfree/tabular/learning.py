"""The loop of `taskfree learn`: batches of rows, evaluation, and the state saved in between."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from time import monotonic
from types import FrameType

from taskfree._core import validation
from taskfree.metrics import StepTimer
from taskfree.observe.events import Report
from taskfree.tabular.batch_reader import BatchReader
from taskfree.tabular.console import Console
from taskfree.tabular.held_out import HeldOut
from taskfree.tabular.session import Session
from taskfree.tabular.sources import Position, Row, Source
from taskfree.tabular.values import RowError

__all__ = ["LearningLoop", "LoopOptions"]

REPORTED = 10
"""This many unreadable rows are reported one by one; after that they are only counted."""


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """When to stop, save and evaluate; these may change from run to run."""

    held_out: tuple[str, ...] = ()
    """files that are never learned and on which it is evaluated, to measure forgetting"""
    rows: int | None = None
    """stop after the time step in which this many rows have come in all"""
    save_rows: int = 100_000
    """save the state every this many rows ..."""
    save_seconds: float = 30.0
    """... or seconds, whichever comes first"""
    evaluate_rows: int = 10_000
    """write to the history, and evaluate on held-out files, every this many rows"""
    patience: float = 1.0
    """seconds to wait for a live feed to fill a batch"""
    strict: bool = False
    """stop at a row that cannot be read instead of counting and skipping it"""

    def __post_init__(self) -> None:
        for name in ("save_rows", "evaluate_rows"):
            validation.integer(name, getattr(self, name), least=1)
        if self.rows is not None:
            validation.integer("rows", self.rows, least=1)


class _StrictError(ValueError):
    """A row that cannot be read, with `strict`."""


class LearningLoop:
    """Learns batches of rows until they end or somebody stops it.

    Args:
        options: when to stop, save and evaluate.
        session: what learns.
        source: where the rows come from.
        reader: its batches.
        held_out: rows to evaluate on.
        console: where progress is shown.
    """

    def __init__(
        self,
        options: LoopOptions,
        session: Session,
        source: Source,
        reader: BatchReader,
        held_out: list[HeldOut],
        console: Console,
    ) -> None:
        self.options, self.session, self.source, self.reader = options, session, source, reader
        self.held_out, self.console = held_out, console
        self.timer = StepTimer()
        self._pick = session.picker(source)
        self._report: Report | None = None
        self._saved = monotonic()
        self._saved_rows = self._evaluated = session.progress.rows
        self._position: Position | None = None

    def run(self) -> None:
        """Learn until the rows end or a signal comes; then save the state."""
        signals = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(one, self._stop) for one in signals]
        try:
            with self.console:
                while not self._enough() and (rows := self.reader.take(self._size())):
                    self._learn(rows)
                    self._evaluate_and_save_if_due(len(rows))
                    self.console.show(self.session)
            self._evaluate()
            self._save()
        except _StrictError:
            self._save()
            raise
        finally:
            for one, handler in zip(signals, before, strict=True):
                signal.signal(one, handler)
        self.console.summarize(self.session, self.timer, self.held_out)
        if self.reader.stopped:
            raise KeyboardInterrupt

    def _size(self) -> int:
        """How many rows the next time step has: by their number, whatever the interruptions."""
        return self.session.schema.choices.rows_per_step(self.session.progress.rows)

    def _stop(self, _: int, __: FrameType | None) -> None:
        self.reader.stopped = True

    def _enough(self) -> bool:
        limit = self.options.rows
        return self.reader.stopped or (limit is not None and self.session.progress.rows >= limit)

    def _learn(self, rows: list[Row]) -> None:
        readable = []
        for row in rows:
            problem = row.problem
            if not problem:
                try:
                    picked, late = self._pick(row.values), self.session.late(row.values)
                    readable.append(self.session.read(picked, late))
                    continue
                except RowError as error:
                    problem = f": {error}"
            self._skip(row, problem)
        if readable:
            with self.timer:
                self._report = self.session.learn(readable)
            if self._report.event is not None:
                self.console.events[self._report.event.kind] = self._report.event.step
        self.session.progress.rows += len(rows)
        self._position = rows[-1].end

    def _skip(self, row: Row, problem: str) -> None:
        spaced = problem if problem.startswith(":") else f" {problem}"
        message = f"{self.source.name}, {self.source.unit} {row.number}{spaced}"
        if self.options.strict:
            raise _StrictError(f"{message}; with --strict, nothing of its batch was learned")
        progress = self.session.progress
        progress.skipped += 1
        if progress.skipped <= REPORTED:
            last = " (further ones are only counted)" if progress.skipped == REPORTED else ""
            self.console.say(f"skipped: {message}{last}")

    def _evaluate_and_save_if_due(self, new: int) -> None:
        options, rows = self.options, self.session.progress.rows
        # By the number of rows, not by when it was last done: the same after any interruption.
        if rows // options.evaluate_rows > (rows - new) // options.evaluate_rows:
            self._evaluate()
        late = monotonic() - self._saved >= options.save_seconds
        if late or rows - self._saved_rows >= options.save_rows:
            self._save()

    def _save(self) -> None:
        if self._position is None:
            return  # nothing was learned
        self.session.progress.reached(self.source, self._position)
        self.session.save()
        self._saved, self._saved_rows = monotonic(), self.session.progress.rows

    def _evaluate(self) -> None:
        if self._report is not None and self._evaluated != self.session.progress.rows:
            self._evaluated = self.session.progress.rows
            found = {one.name: one.evaluate() for one in self.held_out}
            self.session.write_history(self._report, found)
