"""Rows by the step, from a file or from a feed that is still going on."""

from __future__ import annotations

import queue
import threading
from itertools import islice
from time import monotonic

from taskfree.feed.rows import Row, Source

__all__ = ["Steps"]


class Steps:
    """Rows by the step: as many as fit, or of a live feed as many as have come.

    Args:
        source: where they come from.
        place: where to begin.
        patience: seconds after which rows of a live feed are not waited for.
    """

    def __init__(self, source: Source, place: tuple[int, int], patience: float) -> None:
        self._rows, self._live, self._patience = source.rows(place), source.live, patience
        self._back: list[Row] = []
        self._came: queue.Queue[Row | None] = queue.Queue(maxsize=4096)
        self.stopped = False
        if source.live:
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for row in self._rows:
            self._came.put(row)
        self._came.put(None)

    def back(self, rows: list[Row]) -> None:
        """Give rows back: they come first."""
        self._back = rows + self._back

    def take(self, size: int) -> list[Row]:
        """The next rows; none at the end, or when stopped."""
        taken, self._back = self._back[:size], self._back[size:]
        if not self._live:
            return taken + list(islice(self._rows, size - len(taken)))
        until = monotonic() + self._patience
        while len(taken) < size and not self.stopped:
            try:
                row = self._came.get(timeout=max(0.0, until - monotonic()) if taken else 0.2)
            except queue.Empty:
                if taken:
                    break
                continue
            if row is None:
                self._came.put(None)  # it has ended, for whoever asks next
                break
            until = until if taken else monotonic() + self._patience
            taken.append(row)
        return taken
