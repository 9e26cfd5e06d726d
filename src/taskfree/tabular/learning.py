"""The loop of `taskfree learn`: batches of rows, evaluation, and the state saved in between."""

from __future__ import annotations

import signal
from bisect import bisect_right
from dataclasses import dataclass
from itertools import groupby
from time import monotonic
from types import FrameType
from typing import Any

from torch import Tensor

from taskfree._core import files, validation
from taskfree._core.errors import TaskfreeError
from taskfree.metrics import StepTimer
from taskfree.observe.events import Report
from taskfree.tabular.batch_reader import BatchReader
from taskfree.tabular.console import Console
from taskfree.tabular.held_out import HeldOut
from taskfree.tabular.predictions import Predictions
from taskfree.tabular.session import Session
from taskfree.tabular.sources import Position, Row, Source
from taskfree.tabular.values import RowError

__all__ = ["LearningLoop", "LoopOptions", "UnreadableError"]

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
    predictions: str | None = None
    """file for what was predicted of each row before it was learned, as JSON lines, or - for
    standard output; rows without a target are predicted too"""

    def __post_init__(self) -> None:
        for name in ("save_rows", "evaluate_rows"):
            validation.integer(name, getattr(self, name), least=1)
        if self.rows is not None:
            validation.integer("rows", self.rows, least=1)


MOST_SKIPPED, FIRST = 0.1, 200
"""It stops if more than a tenth of the rows cannot be read, of 200 or at the end."""


class UnreadableError(TaskfreeError, ValueError):
    """Too many rows cannot be read, or one with `strict`. What was learned before is saved.

    >>> UnreadableError.status
    1
    """

    status = 1
    """Of the command: the arguments are right and the rows are not."""


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
        self._before = (session.progress.rows, session.progress.skipped)
        self._predictions = Predictions(options.predictions, session.progress)
        self._report: Report | None = None
        self._saved, self._shown = monotonic(), 0.0
        self._saved_rows = self._evaluated = session.progress.rows
        self._position: Position | None = None

    def run(self) -> None:
        """Learn until the rows end or a signal comes; then save the state."""
        signals = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(one, self._stop) for one in signals]
        try:
            if self._predictions.is_new:
                self._predictions.save()  # the file is ours from now on, whatever happens
                self.session.save()
            with self.console:
                while not self._enough() and (rows := self.reader.take(self._size())):
                    self._learn(rows)
                    self._evaluate_and_save_if_due(len(rows))
                    self.console.show(self.session)
                    self._show()
                    self._check_readable(FIRST)
            self._evaluate()
            self._save()
            self._show(last=True)
            self._check_readable(1)
        except UnreadableError:
            self._save()
            raise
        finally:
            self._predictions.close()
            for one, handler in zip(signals, before, strict=True):
                signal.signal(one, handler)
        self.console.summarize(self.session, self.timer, self.held_out)
        if self.reader.stopped:
            raise KeyboardInterrupt

    def _show(self, *, last: bool = False) -> None:
        """Write what the live page shows, every second."""
        if last or monotonic() - self._shown >= 1:
            self._shown = monotonic()
            status = self.session.status() | {"per second": self.console.rate(self.session)}
            files.write_json(self.session.folder / "status.json", status, durable=False)

    def _size(self) -> int:
        """How many rows the next time step has: by their number, whatever the interruptions."""
        return self.session.schema.choices.rows_per_step(self.session.progress.rows)

    def _stop(self, _: int, __: FrameType | None) -> None:
        self.reader.stopped = True

    def _enough(self) -> bool:
        limit = self.options.rows
        return self.reader.stopped or (limit is not None and self.session.progress.rows >= limit)

    def _learn(self, rows: list[Row]) -> None:
        """Learn rows with a target, as many together as follow each other; predict the others."""
        read = [(row, found) for row in rows if (found := self._read(row)) is not None]
        for labelled, group in groupby(read, lambda pair: pair[1][1] is not None):
            some = list(group)
            if labelled:
                self._learn_labelled(some)
            else:
                self._predict([(row, found[0]) for row, found in some])
        self.session.progress.rows += len(rows)
        self._position = rows[-1].end

    def _read(self, row: Row) -> tuple[Any, Any, str | None] | None:
        """A row as it was read; None if it is skipped. The target is None if it is missing."""
        problem = row.problem
        if not problem:
            try:
                return self.session.read(self._pick(row.values), self.session.late(row.values))
            except RowError as error:
                problem = f": {error}"
        self._skip(row, problem)
        return None

    def _learn_labelled(self, rows: list[tuple[Row, tuple[Any, Any, str | None]]]) -> None:
        with self.timer:
            self._report = self.session.learn([found for _, found in rows])
        if self._report.event is not None:
            self.console.events[self._report.event.kind] = self._report.event.step
        if self._predictions.name is not None:
            actual = self.session.targets.encode([found[1] for _, found in rows])
            self._write([row for row, _ in rows], self.session.answers, actual)

    def _predict(self, rows: list[tuple[Row, Any]]) -> None:
        """Rows without a target: they are predicted if somebody wants to know."""
        self.session.progress.unlabelled += len(rows)
        if self._predictions.name is not None:
            answers = self.session.predict_next([inputs for _, inputs in rows])
            self._write([row for row, _ in rows], answers, None)

    def _write(self, rows: list[Row], answers: Tensor, actual: Tensor | None) -> None:
        def named(target: Any) -> Any:
            value = target.item()
            if answers.is_floating_point():
                return value
            return self.session.describe(value) if value >= 0 else None

        lines = [
            {self.source.unit: self.source.identity(row), "prediction": named(answer)}
            for row, answer in zip(rows, answers, strict=True)
        ]
        for line, target in zip(lines, () if actual is None else actual, strict=False):
            line["target"] = named(target)
        self._predictions.write(lines)

    def _check_readable(self, least: int) -> None:
        progress = self.session.progress
        rows, skipped = (now - then for now, then in zip(
            (progress.rows, progress.skipped), self._before, strict=True
        ))  # fmt: skip
        if rows >= least and skipped > MOST_SKIPPED * rows:
            raise UnreadableError(
                f"{skipped:,} of {rows:,} rows of {self.source.name} cannot be read, more than a "
                "tenth; see the reasons above. Other choices, as of --ignore, --task, --format or "
                f"--delimiter, need another folder than {self.session.folder}"
            )

    def _skip(self, row: Row, problem: str) -> None:
        spaced = problem if problem.startswith(":") else f" {problem}"
        message = f"{self.source.name}, {self.source.unit} {row.number}{spaced}"
        if self.options.strict:
            raise UnreadableError(f"{message}; with --strict, nothing of its batch was learned")
        progress = self.session.progress
        progress.skipped += 1
        if progress.skipped <= REPORTED:
            last = " (further ones are only counted)" if progress.skipped == REPORTED else ""
            self.console.say(f"skipped: {message}{last}")

    def _evaluate_and_save_if_due(self, new: int) -> None:
        options, rows = self.options, self.session.progress.rows
        # By the number of rows, not by when it was last done: the same after any interruption.
        if _due(rows, options.evaluate_rows) > _due(rows - new, options.evaluate_rows):
            self._evaluate()
        late = monotonic() - self._saved >= options.save_seconds
        if late or rows - self._saved_rows >= options.save_rows:
            self._save()

    def _save(self) -> None:
        if self._position is None:
            return  # nothing was learned
        self._predictions.save()
        self.session.progress.reached(self.source, self._position)
        self.session.save()
        self._saved, self._saved_rows = monotonic(), self.session.progress.rows

    def _evaluate(self) -> None:
        if self._report is not None and self._evaluated != self.session.progress.rows:
            self._evaluated = self.session.progress.rows
            found = {one.name: one.evaluate() for one in self.held_out}
            self.session.write_history(self._report, found)


EARLY = tuple(lead * 10**power for power in range(2, 12) for lead in (1, 2, 5))
"""The history begins early: after 100, 200, 500, 1,000, ... rows."""


def _due(rows: int, every: int) -> int:
    """How often the history is written up to so many rows.

    >>> [_due(rows, 10_000) for rows in (99, 100, 5_000, 10_000, 20_000)]
    [0, 1, 6, 7, 8]
    """
    early = bisect_right(EARLY, min(rows, every - 1))
    return early + rows // every
