"""Rows that are never learned, to measure what is forgotten."""

from __future__ import annotations

from contextlib import suppress

import torch

from taskfree import metrics
from taskfree.tabular.session import Session
from taskfree.tabular.sources import open_source
from taskfree.tabular.targets import LabelEncoder
from taskfree.tabular.values import RowError

__all__ = ["HeldOut"]


class HeldOut:
    """The rows of a file that is never learned.

    Args:
        name: of the file.
        delimiter: of a CSV file; detected if None.
        session: what learns the stream.
    """

    def __init__(self, name: str, delimiter: str | None, session: Session) -> None:
        self.name, self.session, self.last = name, session, 0.0
        source = open_source(name, None, delimiter)
        pick = session.picker(source)
        self._rows = []
        for row in source.rows():
            with suppress(RowError):
                if not row.problem:
                    read = session.read(pick(row.values), session.late(row.values))
                    self._rows += [read] if read[1] is not None else []
        if not self._rows:
            raise ValueError(f"held_out: {name} has no row that can be read")

    def evaluate(self) -> float:
        """The accuracy on all rows, or the mean absolute error."""
        metric, targets = metrics.Prequential(), self.session.targets
        for start in range(0, len(self._rows), 256):
            xs, ys, _ = zip(*self._rows[start : start + 256], strict=True)
            predicted = self.session.predict(self.session.inputs.encode(xs, learn=False))
            if isinstance(targets, LabelEncoder):
                actual = targets.encode(ys, learn=False)
                metric.update(predicted.where(actual >= 0, -1), actual.clamp_min(0))
            else:
                metric.update(predicted, torch.tensor(ys, dtype=torch.float64))
        self.last = metric.mean
        return self.last
