"""Which of the held samples goes next, known at any time without sorting."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Sequence

from torch import Tensor

Ranked = tuple[float, int]
"""The priority of a sample, and its row."""


class Ranking:
    """The held samples of each label by priority, so that labels share a capacity equally.

    What goes next is the sample of lowest priority among the last ones of the labels that hold
    most. A new sample that would go at once is recognised at a glance, and one that stays costs a
    few comparisons.

    Args:
        labels: of the held samples, by row; one label for all if labels do not matter.
        priorities: of the same samples.

    >>> ranking = Ranking(["cat", "dog", "dog"], [0.3, 0.4, 0.9])
    >>> ranking.takes("dog", 0.2), ranking.takes("cat", 0.5)
    (False, True)
    >>> ranking.add("cat", 0.2, row=3)
    >>> ranking.remove_last()
    3
    """

    def __init__(self, labels: Sequence[Hashable], priorities: Sequence[float]) -> None:
        self.of: Tensor | None = None
        """The tensor of priorities that this is the ranking of; None while it changes."""
        self._samples: dict[Hashable, list[Ranked]] = {}
        for row, (label, priority) in enumerate(zip(labels, priorities, strict=True)):
            self._samples.setdefault(label, []).append((priority, row))
        for ranked in self._samples.values():
            ranked.sort()
        self._look()

    def _look(self) -> None:
        """Find the labels that hold most, and the last sample among theirs."""
        self._most = max(map(len, self._samples.values()), default=0)
        firsts = ((r[0], name) for name, r in self._samples.items() if len(r) == self._most)
        self._last, self._largest = min(firsts, key=_first, default=((0.0, 0), None))

    def takes(self, label: Hashable, priority: float) -> bool:
        """Whether a new sample stays if another one has to go."""
        ranked = self._samples.get(label, ())
        if len(ranked) + 1 < self._most:
            return True
        if ranked and priority >= ranked[0][0]:
            return True
        return len(ranked) < self._most and priority >= self._last[0]

    def add(self, label: Hashable, priority: float, row: int) -> None:
        """Rank another sample."""
        insort(self._samples.setdefault(label, []), (priority, row))
        self._look()

    def remove_last(self) -> int:
        """Take the sample that goes out; return its row."""
        ranked = self._samples[self._largest]
        row = ranked.pop(0)[1]
        if not ranked:
            del self._samples[self._largest]
        self._look()
        return row

    def rank(self, label: Hashable, priority: float, row: int) -> int:
        """How many samples of the same label are before this one."""
        ranked = self._samples[label]
        return len(ranked) - 1 - bisect_left(ranked, (priority, row))

    def move(self, label: Hashable, priority: float, row: int, to: int) -> None:
        """Give a sample another row."""
        ranked = self._samples[label]
        ranked[bisect_left(ranked, (priority, row))] = (priority, to)


def _first(found: tuple[Ranked, Hashable]) -> Ranked:
    return found[0]
