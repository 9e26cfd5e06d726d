"""`taskfree predict`: what a learned network says of rows; nothing is learned."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import torch
import tyro

from taskfree.feed.encode import Classes, Unreadable
from taskfree.feed.rows import open_source
from taskfree.feed.stream import Stream


@dataclass(frozen=True)
class Config:
    """Say what the learned network predicts for every row of a source; nothing is learned.

    The answers are JSON lines, or a CSV if the name of `--out` says so. A row that cannot be read
    has an answer too, which says why.

        taskfree predict today.csv --state prices
    """

    source: Annotated[str, tyro.conf.Positional]
    """as for taskfree learn; the column to predict need not be there"""
    state: Path
    """the folder in which taskfree learn kept everything"""
    out: Path | None = None
    """the file for the answers, .jsonl or .csv; standard output if not given"""
    format: Literal["auto", "csv", "jsonl", "parquet", "arrow"] = "auto"
    """of the source; auto: by its name"""
    delimiter: str | None = None
    """between the values of a CSV; found in its first line if not given"""


def run(config: Config) -> None:
    """Write an answer for every row."""
    torch.set_num_threads(1)
    stream = Stream(config.state)
    with (
        nullcontext(sys.stdout) if config.out is None else open(config.out, "w", newline="")
    ) as file:
        write = _csv(file) if config.out and config.out.suffix == ".csv" else _json_lines(file)
        for answer in answers(config, stream):
            write(answer)


def answers(config: Config, stream: Stream) -> Iterator[dict[str, Any]]:
    """The answers, a row at a time."""
    form = None if config.format == "auto" else config.format
    source = open_source(config.source, form, config.delimiter)
    pick, rows = stream.reading(source, learn=False), source.rows()
    size = 1 if source.live else 256
    while block := list(islice(rows, size)):
        read, problems = [], {}
        for row in block:
            try:
                if row.problem:
                    raise Unreadable(row.problem)
                read.append(stream.inputs.read(pick(row.values)))
            except Unreadable as error:
                problems[row.number] = str(error)
        said = iter(_say(stream, read) if read else [])
        for row in block:
            where = {source.unit: row.number}
            if row.number in problems:
                yield {**where, "prediction": None, "problem": problems[row.number]}
            else:
                yield where | next(said)


def _say(stream: Stream, read: list[Any]) -> list[dict[str, Any]]:
    inputs = stream.inputs.encode(read, learn=False)
    if not isinstance(stream.targets, Classes):
        return [{"prediction": value} for value in stream.predict(inputs).tolist()]
    chances = stream.learner.predict(inputs).softmax(1)
    names = stream.targets.names
    return [
        {"prediction": names[at], "probability": round(chance, 6)}
        for chance, at in zip(*(part.tolist() for part in chances.max(1)), strict=True)
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
