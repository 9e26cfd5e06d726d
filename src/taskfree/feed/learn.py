"""`taskfree learn`: learn from a stream of rows, in the order they come, and never lose it."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Annotated, Any, Literal

import torch
import tyro
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from taskfree import arguments, checkpoint, metrics
from taskfree.events import labels
from taskfree.feed.encode import Classes, Unreadable
from taskfree.feed.held_out import HeldOut
from taskfree.feed.rows import START, Row, Source, open_source
from taskfree.feed.steps import Steps
from taskfree.feed.stream import LOOK, Setup, Stream, look
from taskfree.learner import Report

TOLD = 10
"""So many rows that cannot be read are told of one by one; after that they are only counted."""
CONSOLE = Console(stderr=True)


@dataclass(frozen=True)
class Config:
    """Learn from a stream of rows in the order they come, without forgetting.

    Every row is predicted before it is learned, so that the running accuracy is honest. All is kept
    in a folder: the same command goes on where it stopped, whatever stopped it.

        taskfree learn prices.csv --target class --state prices
        tail -f events.jsonl | taskfree learn - --target kind --state events
        taskfree learn pictures/ --state pictures
    """

    source: Annotated[str, tyro.conf.Positional]
    """CSV, JSON lines, Parquet, Arrow, a folder of pictures in the order of their names (each in a
    folder named by its label), or - for standard input"""
    state: Path
    """the folder in which everything is kept"""
    target: str | None = None
    """the column to predict; not needed for a folder of pictures, or to go on"""
    task: Literal["auto", "classes", "numbers"] = "auto"
    """what the target is; auto: names and up to 20 whole numbers are classes"""
    ignore: tuple[str, ...] = ()
    """columns that are not looked at"""
    environment: str = ""
    """a column that says where a row comes from: not looked at, accuracy is told for each"""
    image: str = ""
    """a column with the names of pictures, which are then what is learned from"""
    size: int = 32
    """pictures are made so many pixels high and wide"""
    format: Literal["auto", "csv", "jsonl", "parquet", "arrow"] = "auto"
    """of the source; auto: by its name"""
    delimiter: str | None = None
    """between the values of a CSV; found in its first line if not given"""
    held_out: tuple[str, ...] = ()
    """files that are never learned, on which it is evaluated again and again: what is forgotten"""
    model: str = ""
    """module:function of your own that makes the network, given the numbers of inputs (channels of
    a picture) and outputs; an MLP, or convolutions for pictures, if not given"""
    lr: float = 0.01
    """learning rate of Adam"""
    batch: int = 64
    """rows a step"""
    buffer: int = 100
    """how many rows are kept and learned again, a uniform choice of all so far; 0: none"""
    strength: float = 0.01
    """how hard to hold on to what was learned, without units; 0: not at all"""
    seed: int = 0
    """of the network's first weights"""
    rows: int | None = None
    """stop at the end of the step in which so many rows have come in all"""
    save_rows: int = 100_000
    """keep the state every so many rows ..."""
    save_seconds: float = 30.0
    """... or seconds, whichever comes first"""
    evaluate_rows: int = 10_000
    """write to the history, and evaluate on held-out files, every so many rows"""
    patience: float = 1.0
    """seconds after which rows of a live feed are learned although they do not fill a step"""
    threads: int = 1
    """of torch; more than one pays for large networks only"""
    strict: bool = False
    """stop at a row that cannot be read, instead of counting and skipping it"""

    def __post_init__(self) -> None:
        for name in ("size", "batch", "save_rows", "evaluate_rows", "threads"):
            arguments.whole(name, getattr(self, name), least=1)
        for name in ("buffer", "seed"):
            arguments.whole(name, getattr(self, name), least=0)
        arguments.number("lr", self.lr, above=0)
        arguments.number("strength", self.strength, least=0)
        if self.rows is not None:
            arguments.whole("rows", self.rows, least=1)


CHOICES = (
    "target", "environment", "image", "size", "model", "lr", "batch", "buffer", "strength", "seed",
)  # fmt: skip
"""What makes a stream's learner, and cannot be changed later."""


def run(config: Config) -> Stream:
    """Learn all that comes, or until told to stop."""
    torch.set_num_threads(config.threads)
    form = None if config.format == "auto" else config.format
    source = open_source(config.source, form, config.delimiter)
    stream, feed = _begin(config, source)
    if stream.read.rows:
        _say(f"going on after {stream.read.rows:,} rows")
    _Learning(config, stream, source, feed).all()
    return stream


def _begin(config: Config, source: Source) -> tuple[Stream, Steps]:
    """The stream as it was left, or a new one, and the rows that are still to come."""
    if checkpoint.peek(config.state, "setup"):
        stream = Stream(config.state)
        _check_choices(config, stream.setup)
        return stream, Steps(source, stream.read.place(source), config.patience)
    feed = Steps(source, START, config.patience)
    first = feed.take(LOOK)
    feed.back(first)
    setup = look(first, source, task=config.task, ignore=config.ignore, **_chosen(config, source))
    return Stream(config.state, setup), feed


def _chosen(config: Config, source: Source) -> dict[str, Any]:
    chosen = {name: getattr(config, name) for name in CHOICES}
    if source.columns == ("image", "label"):
        chosen |= {"image": "image", "target": config.target or "label"}
    if not chosen["target"]:
        known = ", ".join(source.columns) or "see its first line"
        raise ValueError(f"--target must name the column to predict; there is {known}")
    return chosen


def _check_choices(config: Config, kept: Setup) -> None:
    for name in CHOICES:
        given, default = getattr(config, name), Config.__dataclass_fields__[name].default
        if given not in (getattr(kept, name), default):
            raise ValueError(
                f"{config.state} was begun with {name} {getattr(kept, name)!r}, and {given!r} was "
                "given; leave it out, or begin anew in another folder"
            )


class _NotStrict(ValueError):  # noqa: N818
    """A row that cannot be read, where none may be."""


class _Learning:
    """The loop: steps of rows, the state kept in between, and a line that says how it goes."""

    def __init__(self, config: Config, stream: Stream, source: Source, feed: Steps) -> None:
        self.config, self.stream, self.source, self.feed = config, stream, source, feed
        self.held_out = [HeldOut(name, config.delimiter, stream) for name in config.held_out]
        self.pick = stream.reading(source)
        self.report: Report | None = None
        self.cost = metrics.Cost()
        self.plateau = self.peak = 0
        self.began = self.saved = monotonic()
        self.shown = 0.0 if CONSOLE.is_terminal else monotonic()
        self.first = self.saved_rows = self.evaluated = stream.read.rows
        self._place: tuple[int, int] | None = None

    def all(self) -> None:
        """Learn until the rows end, or somebody says stop; then keep the state."""
        signals = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(one, self._stop) for one in signals]
        try:
            with Live(console=CONSOLE, transient=True, auto_refresh=False) as live:
                while not self._enough() and (step := self.feed.take(self.stream.setup.batch)):
                    self._learn(step)
                    self._keep_if_it_is_time(len(step))
                    self._show(live)
            self._evaluate()
            self._save()
        except _NotStrict:
            self._save()
            raise
        finally:
            for one, handler in zip(signals, before, strict=True):
                signal.signal(one, handler)
        self._summary()
        if self.feed.stopped:
            raise KeyboardInterrupt

    def _stop(self, _: int, __: FrameType | None) -> None:
        self.feed.stopped = True

    def _enough(self) -> bool:
        limit = self.config.rows
        return self.feed.stopped or (limit is not None and self.stream.read.rows >= limit)

    def _learn(self, step: list[Row]) -> None:
        understood = []
        for row in step:
            problem = row.problem
            if not problem:
                try:
                    understood.append(self.stream.understand(self.pick(row.values)))
                    continue
                except Unreadable as error:
                    problem = f": {error}"
            self._unreadable(row, problem)
        read = self.stream.read
        if understood:
            with self.cost:
                self.report = self.stream.learn(understood)
            if (event := self.report.event) is not None:
                setattr(self, event.kind, event.step)
        read.rows += len(step)
        self._place = step[-1].end

    def _unreadable(self, row: Row, problem: str) -> None:
        told = f"{self.source.name}, {self.source.unit} {row.number}{_spaced(problem)}"
        if self.config.strict:
            raise _NotStrict(f"{told}; with --strict, nothing of its step was learned")
        self.stream.read.skipped += 1
        if self.stream.read.skipped <= TOLD:
            last = " (further ones are only counted)" if self.stream.read.skipped == TOLD else ""
            _say(f"skipped: {told}{last}")

    def _keep_if_it_is_time(self, new: int) -> None:
        config, read = self.config, self.stream.read
        # By the number of rows, not by when it was last done: the same after any interruption.
        if read.rows // config.evaluate_rows > (read.rows - new) // config.evaluate_rows:
            self._evaluate()
        late = monotonic() - self.saved >= config.save_seconds
        if late or read.rows - self.saved_rows >= config.save_rows:
            self._save()

    def _save(self) -> None:
        if self._place is None:
            return  # nothing was learned
        self.stream.read.reached(self.source, self._place)
        self.stream.save()
        self.saved, self.saved_rows = monotonic(), self.stream.read.rows

    def _evaluate(self) -> None:
        if self.report is not None and self.evaluated != self.stream.read.rows:
            self.evaluated = self.stream.read.rows
            found = {one.name: one.evaluate() for one in self.held_out}
            self.stream.tell(self.report, found)

    def _rate(self) -> float:
        return (self.stream.read.rows - self.first) / max(1e-9, monotonic() - self.began)

    def _show(self, live: Live) -> None:
        """On a terminal one line that changes, otherwise a new one now and then."""
        if monotonic() - self.shown < (0.25 if CONSOLE.is_terminal else 10.0):
            return
        self.shown = monotonic()
        if CONSOLE.is_terminal:
            live.update(self._line(), refresh=True)
        else:
            _say(str(self._line()))

    def _line(self) -> Text:
        """How it goes, in one line."""
        read, metric = self.stream.read, self.stream.metric
        said = [f"{read.rows:,} rows", f"{self._rate():,.0f}/s"]
        if metric.count:
            name = "accuracy" if isinstance(self.stream.targets, Classes) else "error"
            said.append(f"{name} {metric.running:.3f} (all {metric.mean:.3f})")
        said += [f"{kind} {at:,}" for kind in ("plateau", "peak") if (at := getattr(self, kind))]
        if buffer := _buffer(self.stream):
            said.append(f"buffer {buffer}")
        if read.skipped:
            said.append(f"{read.skipped:,} skipped")
        said.append(f"{metrics.memory():.0f} MiB")
        return Text("  ".join(said), overflow="ellipsis", no_wrap=True)

    def _summary(self) -> None:
        read = self.stream.read
        table = Table(box=None, show_header=False)
        table.add_row("rows", f"{read.rows:,}, of which {read.skipped:,} could not be read")
        table.add_row("this time", f"{read.rows - self.first:,}, {self._rate():,.0f} a second")
        cost = self.cost
        if cost.steps:
            took = f"{1000 * cost.seconds:.2f} ms, at most {1000 * cost.worst:.0f} ms"
            table.add_row("a step", f"{took}; {metrics.memory():.0f} MiB in all")
        for name, value in self.stream.metric.summary().items():
            if name != "count":
                table.add_row(name.replace("_", " "), f"{value:.4f}")
        for name, value in self.stream.metric.by_environment.items():
            table.add_row(f"in {name}", f"{value:.4f}")
        for held in self.held_out:
            table.add_row(f"on {held.name}", f"{held.last:.4f}")
        how = self.stream.learner.how
        if how is not None:
            table.add_row("consolidations", str(getattr(how, "consolidations", "")))
        CONSOLE.print(table)
        CONSOLE.print(f"kept in {self.stream.folder}; the same command goes on from here")


def _buffer(stream: Stream) -> str:
    """What the buffer holds, by class."""
    which, targets = stream.learner.which, stream.targets
    if which is None or not len(which):
        return ""
    if not isinstance(targets, Classes):
        return str(len(which))
    found = labels(which.targets)
    named = [f"{targets.names[int(label)]}: {count}" for label, count in found.items()]
    return ", ".join(named[:5]) + (f" and {len(named) - 5} more" if len(named) > 5 else "")


def _spaced(problem: str) -> str:
    return problem if problem.startswith(":") else f" {problem}"


def _say(message: str) -> None:
    CONSOLE.print(f"taskfree: {message}", markup=False, highlight=False, soft_wrap=True)
