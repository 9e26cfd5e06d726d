"""Copies of what a learner answers with, which answer while it learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from taskfree._core import batch
from taskfree._core.batch import Batch


class Snapshot:
    """An immutable copy of what a learner answers with, for other threads and processes.

    `Learner.snapshot` makes it. It shares nothing with the learner, so it can be used while that
    learns, by any number of threads.

    >>> from taskfree import Learner
    >>> model = nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> learner = Learner(model, optimizer, loss=lambda o, t: (o[:, 0] - t) ** 2)
    >>> snapshot = learner.snapshot()
    >>> before = snapshot.predict(torch.ones(1, 2))
    >>> report = learner.learn(torch.ones(4, 2), torch.ones(4))
    >>> torch.equal(snapshot.predict(torch.ones(1, 2)), before), snapshot.step
    (True, 0)
    """

    def __init__(self, networks: Sequence[nn.Module], step: int) -> None:
        self.networks = tuple(networks)
        """One network, or two whose outputs are averaged."""
        self.step = step
        """The number of time steps that the learner had taken."""

    def predict(self, inputs: Batch) -> Any:
        """The outputs in eval mode, without gradients."""
        batch.check("inputs", inputs)
        return answer(self.networks, inputs)


@torch.no_grad()
def answer(networks: Sequence[nn.Module], inputs: Batch) -> Any:
    """The mean of the networks' outputs.

    >>> answer([nn.Identity(), nn.ReLU()], torch.tensor([[-2.0]]))
    tensor([[-1.]])
    """
    outputs = [batch.call(network, inputs) for network in networks]
    return outputs[0] if len(outputs) == 1 else mean_of(*outputs)


def mean_of(first: Any, second: Any) -> Any:
    """The mean of two outputs of the same structure; of what is not floating point, the first.

    >>> mean_of((torch.zeros(1), torch.tensor([3])), (torch.ones(1), torch.tensor([5])))
    (tensor([0.5000]), tensor([3]))
    """

    def mean(one: Tensor, other: Tensor) -> Tensor:
        return torch.lerp(one, other, 0.5) if one.is_floating_point() else one

    return batch.apply(mean, first, second)
