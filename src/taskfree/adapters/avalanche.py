"""For Avalanche: a plugin that adds consolidation, without task labels, to supervised strategies.

    strategy = Naive(model=model, optimizer=optimizer, plugins=[Consolidation()], ...)

Where Avalanche's own plugins act at the end of an experience, this one looks at the loss: it does
not need to know where experiences begin and end.
"""

from __future__ import annotations

from collections.abc import Callable
from types import EllipsisType
from typing import Any

from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor, nn

from taskfree.adapters.consolidator import Consolidator
from taskfree.grow import fit
from taskfree.how import Importance
from taskfree.when import Trigger
from taskfree.which import Buffer

__all__ = ["Consolidation"]


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """The cross-entropy of every sample."""
    return nn.functional.cross_entropy(outputs, targets, reduction="none")


class Consolidation(SupervisedPlugin):  # type: ignore[misc]
    """Adds when, which and how to a strategy whose model takes inputs and no task labels.

    Args:
        loss: a function of outputs and targets that returns one value a sample, as the strategy's
            criterion does on average; None learns no sample again.
        when: the trigger; None never consolidates. One that needs no thresholds if not said.
        which: the buffer; None keeps no samples. The 30 hardest samples if not said, or without
            `loss` the 100 newest.
        how: the way to keep knowledge; None keeps none. MAS with a strength that has no units if
            not said.

    Layers that get more outputs, as an IncrementalClassifier's do, keep what is known: what is new
    has no importance yet.
    """

    supports_distributed = False

    def __init__(
        self,
        loss: Callable[[Any, Any], Tensor] | None = cross_entropy,
        *,
        when: Trigger | EllipsisType | None = ...,
        which: Buffer | EllipsisType | None = ...,
        how: Importance | EllipsisType | None = ...,
    ) -> None:
        super().__init__()
        self.consolidator = Consolidator(loss, when=when, which=which, how=how)

    def before_training_exp(self, strategy: Any, **_: Any) -> None:
        """Avalanche has adapted the model to what comes: layers may be others, and larger."""
        if self.consolidator.how is not None:
            fit(self.consolidator.how, strategy.model)

    def before_update(self, strategy: Any, **_: Any) -> None:
        """The optimizer is about to step."""
        self.consolidator.before_step(strategy.model)

    def after_backward(self, strategy: Any, **_: Any) -> None:
        """The gradients of the new samples are there."""
        self.consolidator.after_backward(strategy.model)

    def after_update(self, strategy: Any, **_: Any) -> None:
        """The optimizer has stepped."""
        self.consolidator.after_step(
            strategy.model, [strategy.optimizer], strategy.mb_x, strategy.mb_y, float(strategy.loss)
        )
