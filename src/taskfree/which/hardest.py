"""The paper's buffer: the samples with the highest losses."""

from __future__ import annotations

import torch
from torch import Tensor

from taskfree._core import batch
from taskfree._core.batch import Batch
from taskfree.which.rows import PriorityRows


class Hardest(PriorityRows):
    """The paper's buffer: the samples with the highest losses among the new and the held ones.

    Of samples with equal losses, the newer one is kept.

    Args:
        capacity: how many samples it holds at most.
        balanced: class-balanced: share the capacity equally over the labels present, hardest first
            within each; what one label cannot fill goes to the others. Targets must be one label
            per sample.
        rescore: evaluate all losses again after the last gradient step of a time step, as
            Algorithm 1 writes it, instead of reusing those of the last training pass. It costs one
            more forward pass.

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
        if self.balanced and not (isinstance(targets, Tensor) and targets.dim() == 1):
            raise ValueError(
                f"Hardest(balanced=True) needs targets of one label per sample, got "
                f"{batch.describe(targets)}; pass class indices, or balanced=False"
            )
        super().check(inputs, targets)

    def _priorities(self, losses: Tensor, new: int) -> Tensor:
        return losses

    def _any_enters(self, priority: list[float]) -> bool:
        return self.balanced or super()._any_enters(priority)

    def _best_last(self, priority: Tensor) -> Tensor:
        hardest_last = super()._best_last(priority)
        if self.balanced and isinstance(self._targets, Tensor):
            hardest_first = hardest_last.flip(0)
            labels = self._targets[: len(priority)].cpu()[hardest_first]
            rank = _rank_within_label(labels.int() if labels.dtype == torch.bool else labels)
            return hardest_first[rank.argsort(stable=True)].flip(0)
        return hardest_last


def _rank_within_label(labels: Tensor) -> Tensor:
    """How many earlier samples have the same label: 0 for the first of each, then 1, 2, ...

    >>> _rank_within_label(torch.tensor([7, 7, 3, 7, 3]))
    tensor([0, 1, 0, 2, 1])
    """
    by_label = labels.argsort(stable=True)
    grouped = labels[by_label]
    first_of_group = torch.searchsorted(grouped, grouped)
    rank = torch.empty_like(by_label)
    rank[by_label] = torch.arange(len(labels), device=labels.device) - first_of_group
    return rank
