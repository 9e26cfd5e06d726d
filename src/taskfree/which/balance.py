"""Sharing a capacity equally over labels."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from taskfree._core import batch
from taskfree._core.batch import Batch

Balanced: TypeAlias = bool | Literal["auto"]
"""Whether labels share the capacity equally; `"auto"`: if the targets are labels."""


def are_labels(targets: Batch) -> bool:
    """Whether targets are labels: one integer, or True or False, per sample.

    >>> are_labels(torch.tensor([3, 1])), are_labels(torch.tensor([0.5, 1.0]))
    (True, False)
    """
    return (
        isinstance(targets, Tensor)
        and targets.dim() == 1
        and not (targets.is_floating_point() or targets.is_complex())
    )


def check_labels(targets: Batch, kind: str) -> None:
    """Raise if targets are not one label per sample.

    >>> check_labels(torch.zeros(4, 2), "ClassBalanced(...)")
    Traceback (most recent call last):
    ...
    ValueError: ClassBalanced(...) needs targets of one label per sample, got float32[2]; pass class
    indices, or use a buffer that does not balance
    """
    if not (isinstance(targets, Tensor) and targets.dim() == 1):
        raise ValueError(
            f"{kind} needs targets of one label per sample, got {batch.describe(targets)}; "
            "pass class indices, or use a buffer that does not balance"
        )


def share_equally(best_last: Tensor, labels: Tensor) -> Tensor:
    """Reorder indices, best last, so that each label in turn has its best sample at the end.

    The last n then have equally many of each label, as far as there are so many; what one label
    cannot fill goes to the others.

    >>> share_equally(torch.tensor([0, 1, 2, 3]), torch.tensor([5, 7, 7, 7]))
    tensor([1, 2, 0, 3])
    """
    best_first = best_last.flip(0)
    rank = _rank_within_label(_sortable(labels)[best_first])
    return best_first[rank.argsort(stable=True)].flip(0)


class Shares(NamedTuple):
    """What each label has of a full buffer, so that most new samples can be let go at a glance."""

    labels: Tensor
    """Each label once, in order."""
    counts: Tensor
    """How many samples of it are held."""
    lowest: Tensor
    """The lowest priority among them."""
    most: int
    """The largest of the counts."""
    last: float
    """The lowest priority among the samples of labels with that many."""

    def may_let_in(self, labels: Tensor, priority: Tensor) -> bool:
        """Whether any of these new samples might be kept, and not only let go again."""
        labels = _sortable(labels)
        at = torch.searchsorted(self.labels, labels).clamp_(max=len(self.labels) - 1)
        counts = torch.where(self.labels[at] == labels, self.counts[at], 0)
        enters = (priority >= self.lowest[at]) | (priority >= self.last) | (counts < self.most - 1)
        return bool(enters.any())


def shares(labels: Tensor, priority: Tensor) -> Shares:
    """What each label has of a buffer that holds samples of these labels and priorities.

    >>> found = shares(torch.tensor([5, 7, 7]), torch.tensor([0.3, 0.4, 0.9]))
    >>> found.counts, found.may_let_in(torch.tensor([7]), torch.tensor([0.2]))
    (tensor([1, 2]), False)
    """
    own = _sortable(labels)
    known, numbers, counts = torch.unique(own, return_inverse=True, return_counts=True)
    lowest = priority.new_full((len(known),), torch.inf)
    lowest = lowest.scatter_reduce(0, numbers, priority, "amin")
    most = int(counts.max())
    return Shares(known, counts, lowest, most, float(lowest[counts == most].min()))


def _sortable(labels: Tensor) -> Tensor:
    """On the CPU, and not bool."""
    labels = labels.cpu()
    return labels.int() if labels.dtype == torch.bool else labels


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
