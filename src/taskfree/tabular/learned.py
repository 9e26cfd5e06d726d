"""What `taskfree learn` has learned, as an object: predict, explain and learn rows in Python."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from taskfree.tabular.encoders import TableEncoder
from taskfree.tabular.session import Session
from taskfree.tabular.targets import LabelEncoder
from taskfree.tabular.values import RowError

__all__ = ["LearnedTable", "load"]


def load(folder: str | os.PathLike[str]) -> LearnedTable:
    """Open the folder of `taskfree learn`: see `taskfree.load`."""
    return LearnedTable(Session(Path(folder), reading=True))


class LearnedTable:
    r"""A table that was learned: `taskfree.load` opens it.

    Rows are dicts from column to value, lists of values in the order of `columns`, or a data frame
    of pandas or polars.

    >>> import tempfile, taskfree
    >>> from taskfree.cli import main
    >>> lines = ["speed,road,action"] + ["3,wet,brake", "1,dry,go"] * 100
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "drive.csv").write_text("\n".join(lines))
    ...     options = ["--target", "action", "--state", f"{folder}/state"]
    ...     _ = main(["learn", f"{folder}/drive.csv", *options])
    ...     table = taskfree.load(f"{folder}/state")
    >>> table.columns, table.predict([{"speed": 2.8, "road": "wet"}, ["1", "dry"]])
    (['speed', 'road'], ['brake', 'go'])
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    @property
    def target(self) -> str:
        """The column that is predicted."""
        return self.session.schema.choices.target

    @property
    def columns(self) -> list[str]:
        """The columns that are inputs."""
        schema = self.session.schema
        return [name for name in schema.kinds if schema.kinds[name]] or [schema.choices.image]

    @property
    def classes(self) -> list[str]:
        """The classes, in the order in which they came; none for numbers."""
        targets = self.session.targets
        return list(targets.names) if isinstance(targets, LabelEncoder) else []

    def predict(self, rows: Any) -> list[Any]:
        """The class of each row, or its value, by the network, which remembers."""
        found = self.session.predict(self._encode(self._rows(rows)))
        if isinstance(self.session.targets, LabelEncoder):
            return [self.session.describe(one) for one in found]
        values: list[Any] = found.tolist()
        return values

    def probabilities(self, rows: Any) -> list[dict[str, float]]:
        """By class, the probability of each row."""
        found = self.session.model.probabilities(self._encode(self._rows(rows))).tolist()
        return [dict(zip(self.classes, row, strict=True)) for row in found]

    def explain(self, row: Any) -> dict[str, float]:
        """By column, what its value changes, the largest first.

        The difference that it makes to the probability of the predicted class, or to the value, if
        the value is there and not missing.
        """
        (values,) = self._rows([row])
        columns = self.columns
        without = [{k: v for k, v in values.items() if k != name} for name in columns]
        inputs = self._encode([values, *without])
        if isinstance(self.session.targets, LabelEncoder):
            answer = int(self.session.predict(inputs[:1])[0])
            found = self.session.model.probabilities(inputs)[:, answer]
        else:
            found = self.session.predict(inputs).double()
        made = (found[0] - found[1:]).tolist()
        pairs = zip(columns, made, strict=True)
        return dict(sorted(pairs, key=lambda pair: -abs(pair[1])))

    def learn(self, rows: Any, targets: Iterable[Any]) -> None:
        """Learn rows with their targets, in their order; `save` keeps it."""
        read = self._rows(rows)
        if isinstance(targets, str) or not isinstance(targets, Iterable):
            raise TypeError(f"targets must be a list with one value for each row, got {targets!r}")
        given = list(targets)
        if len(read) != len(given):
            raise ValueError(
                f"targets must have one value for each row, got {len(given)} for {len(read)} rows"
            )
        cells = [self._read(row) for row in read]
        wanted = [self.session.targets.read(target) for target in given]
        column = self.session.schema.choices.environment
        environments = [str(row.get(column)) if column else None for row in read]
        both = zip(cells, wanted, environments, strict=True)
        progress, choices = self.session.progress, self.session.schema.choices
        while step := list(islice(both, choices.rows_per_step(progress.rows))):
            self.session.learn(step)
            progress.rows += len(step)

    def save(self, folder: str | os.PathLike[str] | None = None) -> None:
        """Save what was learned, in the folder it came from or in another one."""
        if folder is not None:
            self.session.folder = Path(folder)
            self.session.folder.mkdir(parents=True, exist_ok=True)
        self.session.save()

    def _rows(self, rows: Any) -> list[dict[str, Any]]:
        if hasattr(rows, "to_dicts"):  # polars
            rows = rows.to_dicts()
        elif hasattr(rows, "to_dict"):  # pandas
            rows = rows.to_dict("records")
        if isinstance(rows, Mapping | str) or not isinstance(rows, Iterable):
            raise TypeError(
                f"rows must be a list of dicts, a list of lists or a data frame, got {rows!r}; "
                "put a single row in a list"
            )
        return [self._row(row) for row in rows]

    def _row(self, row: Any) -> dict[str, Any]:
        if isinstance(row, Mapping):
            return {str(name): value for name, value in row.items()}
        columns = self.columns
        if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != len(columns):
            raise ValueError(f"a row must be a dict or have the values of {columns}, got {row!r}")
        return dict(zip(columns, row, strict=True))

    def _read(self, row: Mapping[str, Any]) -> Any:
        try:
            self.session.check_columns(row)
            values = [row.get(name) for name in self.session.columns]
            return self.session.inputs.read(values, self.session.late(row))
        except RowError as error:
            raise ValueError(f"{error}; the row is {dict(row)!r}") from None

    def _encode(self, rows: Sequence[Mapping[str, Any]]) -> torch.Tensor:
        if not rows:
            raise ValueError("rows must hold at least one row")
        encoder: Any = self.session.inputs
        if not isinstance(encoder, TableEncoder):
            encoder.folder = Path()
        found: torch.Tensor = encoder.encode([self._read(row) for row in rows], learn=False)
        return found
