"""A random sample of the stream, uniform or with equally many samples of every label."""

from __future__ import annotations

import torch
from torch import Tensor

from taskfree._core import validation
from taskfree._core.batch import Batch
from taskfree.which.balance import (
    Balanced,
    Shares,
    are_labels,
    check_labels,
    share_equally,
    shares,
)
from taskfree.which.drawn import DrawnRows


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
        self._shares: Shares | None = None
        """What each label has of the full buffer; None when that has changed."""

    def check(self, inputs: Batch, targets: Batch) -> None:
        """Raise, and change nothing, if such samples cannot be held beside the present ones."""
        if self.balanced is True:
            check_labels(targets, f"{type(self).__name__}(...)")
        super().check(inputs, targets)

    def _priorities(self, losses: Tensor, new: int) -> Tensor:
        del losses
        drawn = self._random(lambda g: torch.rand(new, dtype=torch.float64, generator=g))
        return torch.cat([self._priority, drawn]) if len(self) else drawn

    def _labels(self) -> Tensor | None:
        """The labels that share the capacity, if any do."""
        targets = self._targets
        by_label = self.balanced is True or (
            self.balanced == "auto" and targets is not None and are_labels(targets)
        )
        return targets if by_label and isinstance(targets, Tensor) else None

    def _any_enters(self, priority: Tensor) -> bool:
        labels, held = self._labels(), self.capacity
        if labels is None:
            return super()._any_enters(priority)
        if self._shares is None:
            self._shares = shares(labels[:held], priority[:held])
        return self._shares.may_let_in(labels[held : len(priority)], priority[held:])

    def _best_last(self, priority: Tensor) -> Tensor:
        self._shares = None
        best_last, labels = super()._best_last(priority), self._labels()
        return best_last if labels is None else share_equally(best_last, labels[: len(priority)])

    def _clear(self) -> None:
        super()._clear()
        self._shares = None
