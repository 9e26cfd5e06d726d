"""A network made for targets that nobody has listed: classes that come at any time, or numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from taskfree.feed.encode import Classes, Numbers, Running
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
        scale: what is known of the inputs' scale, if they come as they are.
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
        scale: Running | None = None,
        lr: float = 0.01,
        buffer: int = 100,
        strength: float = 0.01,
        seed: int = 0,
    ) -> None:
        if isinstance(make, nn.Module):
            raise TypeError(
                f"model must be a function that makes a network, given how many inputs and outputs "
                f"it has, got the network {type(make).__name__} itself; pass lambda inputs, "
                "outputs: ..."
            )
        self.targets: Classes | Numbers = Classes() if task == "classes" else Numbers()
        self._outputs = max(1, outputs)
        model = make(inputs, self._outputs)
        if task == "classes" and not any(isinstance(m, nn.Linear) for m in model.modules()):
            raise ValueError(
                "model has no linear layer: the last one gives the outputs, and grows with the "
                "classes"
            )
        if scale is not None:
            model = nn.Sequential(Scale(scale), model)
        loss = nn.CrossEntropyLoss(reduction="none")
        self.learner = Learner(
            model,
            torch.optim.Adam(model.parameters(), lr=lr, fused=True),
            loss=Smooth(self.targets) if isinstance(self.targets, Numbers) else loss,
            which=Reservoir(buffer, seed) if buffer else None,
            how=MAS(strength, penalty="relative") if strength else None,
        )

    def learn(self, inputs: Tensor, targets: Tensor) -> Report:
        """Learn from samples whose targets `targets` has encoded."""
        if isinstance(self.targets, Classes) and len(self.targets.names) > self._outputs:
            grow(self.learner, len(self.targets.names))
            self._outputs = len(self.targets.names)
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


class Smooth:
    """The squared error of small errors, and the absolute one of large ones, in today's scale."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Of every sample."""
        wanted = self.numbers.scaled(targets)
        return nn.functional.smooth_l1_loss(outputs[:, 0], wanted, reduction="none")


class Scale(nn.Module):
    """Brings inputs to a mean of 0 and a deviation of 1, as known when they are looked at.

    A sample that is kept and learned again is seen in the scale of that day. Inputs are rows of
    numbers; or pairs of rows, the second of which says where the first has a number to be scaled.

    >>> running = Running(2)
    >>> running.add(torch.tensor([[0.0, 0.0], [4.0, 2.0]]).double(), None)
    >>> Scale(running)(torch.tensor([[4.0, 1.0]]).double())
    tensor([[1., 0.]])
    >>> Scale(running)(torch.tensor([[[4.0, 1.0], [1.0, 0.0]]]).double())
    tensor([[1., 1.]])
    """

    def __init__(self, running: Running) -> None:
        super().__init__()
        self.running = running

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs for a network."""
        if inputs.dim() == 2:
            return self.running.scaled(inputs).float()
        values, numbers = inputs.unbind(1)
        return torch.where(numbers.bool(), self.running.scaled(values), values).float()
