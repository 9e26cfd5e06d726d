"""A stream that changes: batches from several environments, with a model, a loss and a score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

Samples = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class ChangingStream:
    """A stream of batches from several environments, with a model, a loss and a score.

    The learner does not get `environments` or `changes`.
    """

    batches: list[Samples]
    tests: list[Samples]
    """Test samples of every environment."""
    environments: list[int]
    """For each batch, the environment of most of its samples."""
    model: nn.Module
    loss: Callable[[Any, Any], Tensor]
    score: Callable[[Tensor, Tensor], float]
    """The quality of outputs: 1 is perfect, 0 is useless."""
    lr: float
    repeats: int

    @property
    def changes(self) -> list[int]:
        """The steps at which another environment starts, counted from 0."""
        steps = range(1, len(self.environments))
        return [step for step in steps if self.environments[step] != self.environments[step - 1]]


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    """The fraction of samples whose largest output is at the target.

    >>> accuracy(torch.eye(2), torch.tensor([0, 0]))
    0.5
    """
    return float((outputs.argmax(1) == targets).float().mean())


def balanced_accuracy(outputs: Tensor, targets: Tensor) -> float:
    """The mean over the classes of the fraction of their samples whose largest output is right.

    >>> balanced_accuracy(torch.eye(2)[[0, 0, 0]], torch.tensor([0, 0, 1]))
    0.5
    """
    right = (outputs.argmax(1) == targets).float()
    labels = sorted(set(targets.tolist()))
    return float(torch.stack([right[targets == label].mean() for label in labels]).mean())


def explained(outputs: Tensor, targets: Tensor) -> float:
    """The fraction of the targets' variance that outputs explain, at least 0.

    >>> explained(torch.tensor([[0.0], [2.0]]), torch.tensor([[0.0], [2.0]]))
    1.0
    """
    error = (outputs - targets).square().mean() / (targets - targets.mean(0)).square().mean()
    return max(0.0, 1 - float(error))


def generator_of(seed: int, part: int) -> torch.Generator:
    """The random generator of a stream."""
    return torch.Generator().manual_seed(1_000_003 * (part + 1) + seed)


def mlp(sizes: Sequence[int], generator: torch.Generator) -> nn.Module:
    """A fully connected network with torch's default initialization."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers[:-1])


CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")
