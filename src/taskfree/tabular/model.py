"""A network that learns rows: classes that may appear at any time, or numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from taskfree.grow import grow
from taskfree.how import MAS
from taskfree.learner import Learner
from taskfree.observe.events import Report
from taskfree.tabular.options import Options
from taskfree.tabular.scaler import RunningScaler, Standardize
from taskfree.tabular.targets import LabelEncoder, RegressionTarget
from taskfree.which import Reservoir

__all__ = ["StreamModel", "Task"]

Task: TypeAlias = Literal["classification", "regression"]


class StreamModel:
    """A network with its learner, and the meaning of its outputs.

    Args:
        task: `"classification"` or `"regression"`.
        make: creates the network from the number of inputs and outputs; weights are drawn from
            torch's generator.
        inputs: how many inputs, or channels of an image, there are.
        outputs: how many classes are known already.
        scaler: the statistics of the inputs, if they are standardized by the network.
        options: how it learns.

    >>> from taskfree.tabular.networks import mlp
    >>> model = StreamModel("classification", mlp, inputs=2)
    >>> x = torch.tensor([[-1.0, 0.0], [1.0, 0.0]])
    >>> for _ in range(50):
    ...     _ = model.learn(x, model.targets.encode(["left", "right"]))
    >>> [model.targets.names[at] for at in model.predict(x)]
    ['left', 'right']
    """

    def __init__(
        self,
        task: Task,
        make: Callable[[int, int], nn.Module],
        inputs: int,
        *,
        outputs: int = 0,
        scaler: RunningScaler | None = None,
        options: Options | None = None,
    ) -> None:
        options = options or Options()
        if isinstance(make, nn.Module):
            raise TypeError(
                f"model must be a function that creates a network from the number of inputs and "
                f"outputs, got the network {type(make).__name__} itself; pass lambda inputs, "
                "outputs: ..."
            )
        classification = task == "classification"
        self.targets = LabelEncoder() if classification else RegressionTarget()
        self._outputs = max(1, outputs)
        model = make(inputs, self._outputs)
        if classification and not any(isinstance(m, nn.Linear) for m in model.modules()):
            raise ValueError(
                "model has no linear layer: the last one is the output layer, which grows with the "
                "classes"
            )
        if scaler is not None:
            model = nn.Sequential(Standardize(scaler), model)
        loss = nn.CrossEntropyLoss(reduction="none")
        size = options.buffer_size
        self.learner = Learner(
            model,
            torch.optim.Adam(model.parameters(), lr=options.lr, fused=True),
            loss=_SmoothL1(self.targets) if isinstance(self.targets, RegressionTarget) else loss,
            which=Reservoir(size, replay=size, seed=options.seed) if size else None,
            how=MAS(options.strength, penalty="relative") if options.strength else None,
        )

    def learn(self, inputs: Tensor, targets: Tensor) -> Report:
        """Learn from samples whose targets `targets` has encoded."""
        if isinstance(self.targets, LabelEncoder) and len(self.targets.names) > self._outputs:
            grow(self.learner, len(self.targets.names))
            self._outputs = len(self.targets.names)
        return self.learner.learn(inputs, targets)

    def predict(self, inputs: Tensor) -> Tensor:
        """The class index of each sample, -1 if none is known yet; or its value."""
        outputs: Tensor = self.learner.predict(inputs)
        if isinstance(self.targets, RegressionTarget):
            return self.targets.restore(outputs[:, 0])
        if not self.targets.names:
            return torch.full((len(inputs),), -1)
        return outputs.argmax(1)

    def probabilities(self, inputs: Tensor) -> Tensor:
        """The probability of each class learned so far."""
        outputs: Tensor = self.learner.predict(inputs)
        return outputs.double().softmax(1)


class _SmoothL1:
    """The smooth L1 loss in the target's current scale."""

    def __init__(self, target: RegressionTarget) -> None:
        self.target = target

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """One loss per sample."""
        wanted = self.target.standardize(targets)
        return nn.functional.smooth_l1_loss(outputs[:, 0], wanted, reduction="none")
