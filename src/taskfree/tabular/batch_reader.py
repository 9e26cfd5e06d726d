"""Batches of rows, from a file or from a live feed."""

from __future__ import annotations

import queue
import threading
from itertools import islice
from time import monotonic

from taskfree.tabular.sources import Position, Row, Source

__all__ = ["BatchReader"]


class BatchReader:
    """Rows in batches: full ones from a file, and from a live feed what arrives in time.

    Args:
        source: where the rows come from.
        start: where to start.
        patience: seconds to wait for a live feed to fill a batch.
    """

    def __init__(self, source: Source, start: Position, patience: float) -> None:
        self._rows, self._live, self._patience = source.rows(start), source.live, patience
        self._returned: list[Row] = []
        self._queue: queue.Queue[Row | None] = queue.Queue(maxsize=4096)
        self.stopped = False
        self._error: Exception | None = None
        if source.live:
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for row in self._rows:
                self._queue.put(row)
        except Exception as error:  # it is raised where the rows are wanted
            self._error = error
        finally:
            self._queue.put(None)

    def give_back(self, rows: list[Row]) -> None:
        """Return rows; they come first next time."""
        self._returned = rows + self._returned

    def take(self, size: int) -> list[Row]:
        """The next rows; none at the end, or when stopped."""
        taken, self._returned = self._returned[:size], self._returned[size:]
        if not self._live:
            return taken + list(islice(self._rows, size - len(taken)))
        until = monotonic() + self._patience
        while len(taken) < size and not self.stopped:
            try:
                row = self._queue.get(timeout=max(0.0, until - monotonic()) if taken else 0.2)
            except queue.Empty:
                if taken:
                    break
                continue
            if row is None:
                self._queue.put(None)  # ended, for the next call too
                if self._error is not None and not taken:
                    raise self._error
                break
            until = until if taken else monotonic() + self._patience
            taken.append(row)
        return taken
