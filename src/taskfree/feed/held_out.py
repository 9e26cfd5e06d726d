"""Rows that are never learned: how well a stream is known is asked on them."""

from __future__ import annotations

from contextlib import suppress

import torch

from taskfree import metrics
from taskfree.feed.encode import Classes, Unreadable
from taskfree.feed.rows import open_source
from taskfree.feed.stream import Stream

__all__ = ["HeldOut"]


class HeldOut:
    """Rows of a file that are never learned."""

    def __init__(self, name: str, delimiter: str | None, stream: Stream) -> None:
        self.name, self.stream, self.last = name, stream, 0.0
        source = open_source(name, None, delimiter)
        pick = stream.reading(source)
        self._rows = []
        for row in source.rows():
            with suppress(Unreadable):
                if not row.problem:
                    self._rows.append(stream.understand(pick(row.values)))
        if not self._rows:
            raise ValueError(f"held_out: {name} has no row that can be read")

    def evaluate(self) -> float:
        """The accuracy on all of them, or the mean absolute error."""
        metric, targets = metrics.Prequential(), self.stream.targets
        for start in range(0, len(self._rows), 256):
            xs, ys, _ = zip(*self._rows[start : start + 256], strict=True)
            predicted = self.stream.predict(self.stream.inputs.encode(xs, learn=False))
            if isinstance(targets, Classes):
                actual = targets.encode(ys, learn=False)
                metric.update(predicted.where(actual >= 0, -1), actual.clamp_min(0))
            else:
                metric.update(predicted, torch.tensor(ys, dtype=torch.float64))
        self.last = metric.mean
        return self.last
