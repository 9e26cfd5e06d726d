"""A network made for targets that nobody has listed: classes that come at any time, or numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from taskfree.feed.encode import Classes, Numbers
from taskfree.grow import grow
from taskfree.how import MAS
from taskfree.learner import Learner, Report
from taskfree.which import Reservoir

__all__ = ["Online", "Task"]

Task: TypeAlias = Literal["classes", "numbers"]


class Online:
    """A network with a learner, and what its outputs mean.

    Args:
        task: whether targets are `"classes"` or `"numbers"`.
        make: makes the network, given how many inputs and outputs it has; weights are drawn from
            torch's generator.
        inputs: how many inputs, or channels of a picture, there are.
        outputs: how many classes are known already.
        lr: of Adam.
        buffer: how many samples are kept to be learned again; 0 for none.
        strength: how hard what is known is held; 0 for not at all.
        seed: of the choice of samples to keep.

    >>> from taskfree.feed.models import mlp
    >>> online = Online("classes", mlp, inputs=2)
    >>> x = torch.tensor([[-1.0, 0.0], [1.0, 0.0]])
    >>> for _ in range(50):
    ...     _ = online.learn(x, online.targets.encode(["left", "right"]))
    >>> [online.targets.names[at] for at in online.predict(x)]
    ['left', 'right']
    """

    def __init__(
        self,
        task: Task,
        make: Callable[[int, int], nn.Module],
        inputs: int,
        *,
        outputs: int = 0,
        lr: float = 0.01,
        buffer: int = 100,
        strength: float = 0.01,
        seed: int = 0,
    ) -> None:
        self.targets: Classes | Numbers = Classes() if task == "classes" else Numbers()
        self._outputs = max(1, outputs)
        model = make(inputs, self._outputs)
        self.learner = Learner(
            model,
            torch.optim.Adam(model.parameters(), lr=lr, fused=True),
            loss=nn.CrossEntropyLoss(reduction="none") if task == "classes" else _smooth,
            which=Reservoir(buffer, seed) if buffer else None,
            how=MAS(strength, penalty="relative") if strength else None,
        )

    def learn(self, inputs: Tensor, targets: Tensor) -> Report:
        """Learn from samples whose targets `targets` has encoded."""
        if isinstance(self.targets, Classes) and len(self.targets.names) > self._outputs:
            self._outputs = len(self.targets.names)
            grow(self.learner, self._outputs)
        return self.learner.learn(inputs, targets)

    def predict(self, inputs: Tensor) -> Tensor:
        """The number of each sample's class, -1 if none is known yet, or its value."""
        outputs: Tensor = self.learner.predict(inputs)
        if isinstance(self.targets, Numbers):
            return self.targets.unscaled(outputs[:, 0])
        if not self.targets.names:
            return torch.full((len(inputs),), -1)
        return outputs.argmax(1)

    def probabilities(self, inputs: Tensor) -> Tensor:
        """How probable each class is that was learned."""
        outputs: Tensor = self.learner.predict(inputs)
        return outputs.double().softmax(1)


def _smooth(outputs: Tensor, targets: Tensor) -> Tensor:
    """The squared error of small errors, and the absolute one of large ones."""
    return nn.functional.smooth_l1_loss(outputs[:, 0], targets, reduction="none")
