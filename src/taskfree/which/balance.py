"""Sharing a capacity equally over labels."""

from __future__ import annotations

from typing import Literal, TypeAlias

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
