"""A random sample of the stream, uniform or with equally many samples of every label."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from taskfree._core import validation
from taskfree._core.batch import Batch
from taskfree.which.balance import Balanced, are_labels, check_labels
from taskfree.which.drawn import DrawnRows
from taskfree.which.ranking import Ranking
from taskfree.which.rows import NO_MOVES, Moves


class Reservoir(DrawnRows):
    """Reservoir sampling: a uniform random sample of the whole stream so far.

    Every sample draws a random number once, and the largest numbers stay. Each gradient step
    replays a few of the held samples, drawn anew: with a plain replay loss this is *experience
    replay* (ER). The buffer has its own random generator, so its draws neither disturb nor follow
    the model's.

    Vitter, *Random Sampling with a Reservoir*, ACM TOMS 1985. Chaudhry et al., *On Tiny Episodic
    Memories in Continual Learning*, 2019.

    Args:
        capacity: how many samples it holds at most.
        replay: how many of them each gradient step replays; None for twice the number of new
            samples. All are replayed while it holds no more than that.
        seed: of the buffer's random generator.
        balanced: class-balanced: share the capacity equally over the labels present, a uniform
            sample within each, as `ClassBalanced` does. `"auto"`: if the targets are one integer
            per sample.

    >>> buffer = Reservoir(50, replay=4, seed=1)
    >>> for step in range(3):
    ...     x, y = buffer.join(torch.arange(100.0), torch.zeros(100))
    ...     buffer.update(torch.zeros(len(x)))
    >>> len(buffer), len(x)
    (50, 104)
    """

    def __init__(
        self,
        capacity: int,
        replay: int | None = None,
        seed: int = 0,
        balanced: Balanced = False,
    ) -> None:
        super().__init__(capacity, replay, seed)
        choices: tuple[Balanced, ...] = (True, False, "auto")
        self.balanced = validation.choice("balanced", balanced, choices)
        self._ranking: Ranking | None = None
        """Of the held samples, if it is up to date."""

    def check(self, inputs: Batch, targets: Batch) -> None:
        """Raise, and change nothing, if such samples cannot be held beside the present ones."""
        if self.balanced is True:
            check_labels(targets, f"{type(self).__name__}(...)")
        super().check(inputs, targets)

    def _priorities(self, losses: Tensor, new: int) -> Tensor:
        del losses
        drawn = self._random(lambda g: torch.rand(new, dtype=torch.float64, generator=g))
        return torch.cat([self._priority, drawn]) if len(self) else drawn

    def _labels(self, rows: slice) -> Sequence[Hashable]:
        """The labels of some samples; one for all where labels do not share the capacity."""
        targets = self._targets
        by_label = self.balanced is True or (
            self.balanced == "auto" and targets is not None and are_labels(targets)
        )
        if by_label and isinstance(targets, Tensor):
            found: list[Hashable] = targets[rows].tolist()
            return found
        return [None] * len(range(rows.start, rows.stop))

    def _choose(self, priority: Tensor) -> Moves:
        """The moves that sorting all samples by label and priority would lead to."""
        held, joined = len(self), len(priority)
        labels = self._labels(slice(held, joined))
        new = list(zip(labels, priority[held:].tolist(), range(held, joined), strict=True))
        if self._ranking is None or self._ranking.of is not self._all_priorities:
            self._ranking = Ranking(self._labels(slice(0, held)), self._priority.tolist())
        ranking, ranking.of = self._ranking, None
        goes = list[int]()
        for number, (label, value, row) in enumerate(new):
            full = held + number - len(goes) >= self.capacity
            if not full or ranking.takes(label, value):
                ranking.add(label, value, row)
                if full:
                    goes.append(ranking.remove_last())
            else:
                goes.append(row)
        gone = set(goes)
        moves = self._fill(ranking, [sample for sample in new if sample[2] not in gone], goes)
        ranking.of = priority
        return moves

    def _fill(
        self, ranking: Ranking, new: list[tuple[Hashable, float, int]], goes: list[int]
    ) -> Moves:
        """Move new samples that stay into the places of held ones that go."""
        comes = [sample for sample in new if sample[2] >= self.capacity]
        if not comes:
            return NO_MOVES
        comes.sort(key=lambda sample: (-ranking.rank(*sample), sample[1]))
        places = sorted(row for row in goes if row < self.capacity)
        for sample, place in zip(comes, places, strict=True):
            ranking.move(*sample, to=place)
        return torch.tensor([row for *_, row in comes]), torch.tensor(places)

    def _clear(self) -> None:
        super()._clear()
        self._ranking = None
