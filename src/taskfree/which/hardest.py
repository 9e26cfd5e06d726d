"""The paper's buffer: the samples with the highest losses."""

from __future__ import annotations

from torch import Tensor

from taskfree._core.batch import Batch
from taskfree.which.balance import check_labels, share_equally
from taskfree.which.rows import NO_MOVES, Moves, PriorityRows


class Hardest(PriorityRows):
    """The paper's buffer: the samples with the highest losses among the new and the held ones.

    Each gradient step replays all of them. Of samples with equal losses, the newer one is kept.

    Args:
        capacity: how many samples it holds at most.
        balanced: class-balanced: share the capacity equally over the labels present, hardest first
            within each; what one label cannot fill goes to the others. Targets must be one label
            per sample.
        rescore: evaluate all losses again after the last gradient step of a time step, as
            Algorithm 1 writes it, instead of reusing those of the last training pass. It costs one
            more forward pass.

    >>> import torch
    >>> buffer = Hardest(2)
    >>> x, y = buffer.join(torch.arange(3.0), torch.zeros(3))
    >>> buffer.update(torch.tensor([0.1, 0.9, 0.5]))
    >>> buffer.inputs, buffer.losses
    (tensor([2., 1.]), tensor([0.5000, 0.9000]))
    """

    def __init__(self, capacity: int, balanced: bool = False, rescore: bool = False) -> None:
        super().__init__(capacity)
        self.balanced = balanced
        self.rescore = rescore

    def check(self, inputs: Batch, targets: Batch) -> None:
        """Raise, and change nothing, if such samples cannot be held beside the present ones."""
        if self.balanced:
            check_labels(targets, "Hardest(balanced=True)")
        super().check(inputs, targets)

    def _priorities(self, losses: Tensor, new: int) -> Tensor:
        del new
        return losses

    def _choose(self, priority: Tensor) -> Moves:
        held, full = priority[: self.capacity], len(self) == self.capacity
        if full and not self.balanced and priority[self.capacity :].max() < held.min():
            return NO_MOVES
        return super()._choose(priority)

    def _best_last(self, priority: Tensor) -> Tensor:
        hardest_last = super()._best_last(priority)
        if self.balanced and isinstance(self._targets, Tensor):
            return share_equally(hardest_last, self._targets[: len(priority)])
        return hardest_last
