"""For Avalanche: a plugin that adds consolidation, without task labels, to supervised strategies.

    strategy = Naive(model=model, optimizer=optimizer, plugins=[Consolidation()], ...)

Where Avalanche's own plugins act at the end of an experience, this one looks at the loss: it does
not need to know where experiences begin and end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from avalanche.training.plugins import SupervisedPlugin
from torch import Tensor, nn

from taskfree.adapters.consolidator import Consolidator
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
        when: the trigger; one that needs no thresholds if not said.
        which: the buffer; the 30 hardest samples if not said, or without `loss` the 100 newest.
        how: the way to keep knowledge; MAS with a strength that has no units if not said.
    """

    supports_distributed = False

    def __init__(
        self,
        loss: Callable[[Any, Any], Tensor] | None = cross_entropy,
        *,
        when: Trigger | None = None,
        which: Buffer | None = None,
        how: Importance | None = None,
    ) -> None:
        super().__init__()
        self.consolidator = Consolidator(loss, when=when, which=which, how=how)

    def after_backward(self, strategy: Any, **_: Any) -> None:
        """The gradients of the new samples are there."""
        self.consolidator.after_backward(strategy.model)

    def after_update(self, strategy: Any, **_: Any) -> None:
        """The optimizer has stepped."""
        self.consolidator.after_step(
            strategy.model, [strategy.optimizer], strategy.mb_x, strategy.mb_y, float(strategy.loss)
        )
