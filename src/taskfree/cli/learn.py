"""`taskfree learn`: learn from rows in the order they come."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from taskfree import checkpoint
from taskfree._core import validation
from taskfree.observe.advice import Advice
from taskfree.tabular.batch_reader import BatchReader
from taskfree.tabular.console import Console
from taskfree.tabular.held_out import HeldOut
from taskfree.tabular.learning import LearningLoop, LoopOptions
from taskfree.tabular.schema import FIRST_ROWS, Choices, infer
from taskfree.tabular.session import Session
from taskfree.tabular.sources import START, Source, open_source
from taskfree.tabular.sources.images import ImageFolderSource
from taskfree.tabular.sources.opening import Format


@dataclass(frozen=True, kw_only=True)
class Learn(LoopOptions, Choices):
    """Learn from rows in the order they come, without forgetting.

    Every row is predicted before it is learned (prequential evaluation). Everything is kept in a
    folder: the same command continues where it stopped, whatever stopped it.

        taskfree learn prices.csv --target class --state prices
        tail -f events.jsonl | taskfree learn - --target kind --state events
        taskfree learn images/ --state images
    """

    source: Annotated[str, tyro.conf.Positional]
    """CSV, JSON lines, Parquet, Arrow, a folder of images in the order of their names (each in a
    folder named by its label), or - for standard input"""
    state: Path
    """the folder in which everything is kept"""
    task: Literal["auto", "classification", "regression"] = "auto"
    """of the target; auto: names and up to 20 different integers are classes"""
    ignore: tuple[str, ...] = ()
    """columns that are not inputs"""
    format: Format = "auto"
    """of the source; auto goes by its name"""
    delimiter: str | None = None
    """of a CSV file; detected in its first line if not given"""
    threads: int = 1
    """of torch; more than one pays only for large networks"""

    def __post_init__(self) -> None:
        Choices.__post_init__(self)
        LoopOptions.__post_init__(self)
        validation.integer("threads", self.threads, least=1)

    @property
    def choices(self) -> Choices:
        """The options that are fixed at the first start."""
        return Choices(**{one.name: getattr(self, one.name) for one in fields(Choices)})


def run(command: Learn) -> Session:
    """Learn all rows, or until told to stop."""
    torch.set_num_threads(command.threads)
    warnings.filterwarnings("ignore", "the loss is flat", Advice)  # its experts may know enough
    source = open_source(command.source, command.format, command.delimiter)
    session, reader = _start(command, source)
    console = Console(session.progress.rows)
    if session.progress.rows:
        console.say(f"continuing after {session.progress.rows:,} rows")
    else:
        for name, note in session.schema.notes.items():
            console.say(f"column {name!r}: {note}")
    held_out = [HeldOut(name, command.delimiter, session) for name in command.held_out]
    LearningLoop(command, session, source, reader, held_out, console).run()
    return session


def _start(command: Learn, source: Source) -> tuple[Session, BatchReader]:
    """The session as it was left, or a new one, and the rows still to come."""
    if checkpoint.peek(command.state, "setup"):
        session = Session(command.state)
        _check_choices(command, session.schema.choices)
        return session, BatchReader(source, session.progress.position(source), command.patience)
    choices = _new_choices(command.choices, source)
    reader = BatchReader(source, START, command.patience)
    first = reader.take(FIRST_ROWS)
    reader.give_back(first)
    task = None if command.task == "auto" else command.task
    schema = infer(first, source, choices, task=task, ignore=command.ignore)
    return Session(command.state, schema), reader


def _new_choices(choices: Choices, source: Source) -> Choices:
    if isinstance(source, ImageFolderSource):
        if not source.labelled:
            raise ValueError(
                f"{source.name} holds images that are in no subfolder, whose name would be their "
                f"label: move them, as in {source.name}/cat/1.png, or list them in a table and run "
                "taskfree learn table.csv --image FILE_COLUMN --target LABEL_COLUMN"
            )
        target = choices.target or "label"
        return Choices(**{**vars(choices), "image": "image", "target": target})
    if not choices.target:
        columns = ", ".join(source.columns) or "see its first line"
        raise ValueError(f"--target must name the column to predict; there is {columns}")
    return choices


def _check_choices(command: Learn, kept: Choices) -> None:
    session = Session(command.state, reading=True)
    later = [name for name in command.ignore if session.schema.kinds.get(name)]
    if later or command.task not in ("auto", session.schema.task):
        option = f"--ignore {' '.join(later)}" if later else f"--task {command.task}"
        raise ValueError(f"{command.state} was started without {option}; start in another folder")
    for one in fields(Choices):
        given, saved = getattr(command, one.name), getattr(kept, one.name)
        if given not in (saved, one.default):
            raise ValueError(
                f"{command.state} was started with {one.name} {saved!r}, and {given!r} was given; "
                "leave it out, or start in another folder"
            )
