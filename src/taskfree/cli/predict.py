"""`taskfree predict`: the predictions of a learned network."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any

import torch
import tyro

from taskfree.tabular.session import Session
from taskfree.tabular.sources import open_source
from taskfree.tabular.sources.opening import Format
from taskfree.tabular.targets import LabelEncoder
from taskfree.tabular.values import RowError


@dataclass(frozen=True)
class Predict:
    """Predict every row of a source with the learned network. Nothing is learned.

    The answers are JSON lines, or CSV if the name of `--out` ends in .csv. A row that cannot be
    read gets an answer that says why.

        taskfree predict today.csv --state prices
    """

    source: Annotated[str, tyro.conf.Positional]
    """as for taskfree learn; the target column may be missing"""
    state: Path
    """the folder in which taskfree learn kept everything"""
    out: Path | None = None
    """the file for the answers, .jsonl or .csv; standard output if not given"""
    format: Format = "auto"
    """of the source; auto goes by its name"""
    delimiter: str | None = None
    """of a CSV file; detected in its first line if not given"""


def run(command: Predict) -> None:
    """Write an answer for every row."""
    torch.set_num_threads(1)
    session = Session(command.state, reading=True)
    with (
        nullcontext(sys.stdout) if command.out is None else command.out.open("w", newline="")
    ) as file:
        write = _csv(file) if command.out and command.out.suffix == ".csv" else _json_lines(file)
        for answer in answers(command, session):
            write(answer)


def answers(command: Predict, session: Session) -> Iterator[dict[str, Any]]:
    """One answer per row."""
    source = open_source(command.source, command.format, command.delimiter)
    pick, rows = session.picker(source, learn=False), source.rows()
    size = 1 if source.live else 256
    while block := list(islice(rows, size)):
        read, problems = [], {}
        for row in block:
            try:
                if row.problem:
                    raise RowError(row.problem)
                session.check_columns(row.values)
                read.append(session.inputs.read(pick(row.values), session.late(row.values)))
            except RowError as error:
                problems[row.number] = str(error)
        predicted = iter(_predict(session, read) if read else [])
        for row in block:
            where = {source.unit: source.identity(row)}
            if row.number in problems:
                yield {**where, "prediction": None, "problem": problems[row.number]}
            else:
                yield where | next(predicted)


def _predict(session: Session, read: list[Any]) -> list[dict[str, Any]]:
    inputs = session.inputs.encode(read, learn=False)
    if not isinstance(session.targets, LabelEncoder):
        return [{"prediction": value} for value in session.predict(inputs).tolist()]
    probabilities, answers = session.model.probabilities(inputs), session.predict(inputs)
    if not probabilities.shape[1]:
        return [{"prediction": None, "probability": None}] * len(read)
    given = probabilities.gather(1, answers[:, None])[:, 0].tolist()
    return [
        {"prediction": session.describe(answer), "probability": round(probability, 6)}
        for answer, probability in zip(answers, given, strict=True)
    ]


def _json_lines(file: IO[str]) -> Any:
    def write(answer: dict[str, Any]) -> None:
        file.write(json.dumps(answer) + "\n")
        file.flush()

    return write


def _csv(file: IO[str]) -> Any:
    writer: csv.DictWriter[str] | None = None

    def write(answer: dict[str, Any]) -> None:
        nonlocal writer
        if writer is None:
            names = [next(iter(answer)), "prediction", "probability", "problem"]
            writer = csv.DictWriter(file, names)
            writer.writeheader()
        writer.writerow(answer)

    return write
