"""For Avalanche: a plugin that adds consolidation, without task labels, to supervised strategies.

    strategy = Naive(model=model, optimizer=optimizer, plugins=[Consolidation()], ...)

Avalanche's own plugins act at the end of an experience. This one watches the loss and does not need
to know where experiences begin and end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor, nn

from taskfree.adapters.hooks import Consolidator
from taskfree.defaults import Auto
from taskfree.grow import fit
from taskfree.how import Regularizer
from taskfree.when import Trigger
from taskfree.which import Buffer

__all__ = ["Consolidation"]


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """The cross-entropy of every sample."""
    return nn.functional.cross_entropy(outputs, targets, reduction="none")


class Consolidation(SupervisedPlugin):  # type: ignore[misc]  # no types
    """Adds when, which and how to a strategy whose model takes inputs and no task labels.

    Args:
        loss: a function of outputs and targets that returns one value per sample, as the
            strategy's criterion does on average; None replays no sample.
        when: the trigger; None never consolidates. Default: `Settled()`.
        which: the buffer; None keeps no samples. Default: `Reservoir(60,
            balanced="auto")`, or `Recent(100)` without `loss`.
        how: the regularizer; None protects nothing. Default: `MAS(0.01, penalty="relative")`.

    Layers that grow, as those of an IncrementalClassifier do, keep their importance; new parameters
    have none yet.
    """

    supports_distributed = False

    def __init__(
        self,
        loss: Callable[[Any, Any], Tensor] | None = cross_entropy,
        *,
        when: Trigger | Auto | None = "auto",
        which: Buffer | Auto | None = "auto",
        how: Regularizer | Auto | None = "auto",
    ) -> None:
        super().__init__()
        self.consolidator = Consolidator(loss, when=when, which=which, how=how)

    def before_training_exp(self, strategy: Any, **_: Any) -> None:
        """Avalanche has adapted the model: layers may be new and larger."""
        if self.consolidator.how is not None:
            fit(self.consolidator.how, strategy.model)

    def before_update(self, strategy: Any, **_: Any) -> None:
        """The optimizer is about to step."""
        self.consolidator.before_step(strategy.model)

    def after_backward(self, strategy: Any, **_: Any) -> None:
        """The gradients of the new samples are set."""
        self.consolidator.after_backward(strategy.model)

    def after_update(self, strategy: Any, **_: Any) -> None:
        """The optimizer has stepped."""
        self.consolidator.after_step(
            strategy.model, [strategy.optimizer], strategy.mb_x, strategy.mb_y, float(strategy.loss)
        )
