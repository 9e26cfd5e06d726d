"""The interface of a regularizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from taskfree._core.batch import Batch, Recalled


class Regularizer(Protocol):
    """What the learner requires of a regularizer. `taskfree.checks.check_regularizer` tests yours.

    It may act at four moments of a time step and at a consolidation. Each method assigns new
    attributes and never changes tensors in place, so that a failed step can be undone; only
    `after_time_step`, after which nothing can fail, may.

    >>> from taskfree import checks, how
    >>> checks.check_regularizer(lambda: how.MAS(strength=1.0))
    """

    @property
    def importance(self) -> dict[str, Tensor]:
        """The importance of every parameter, by name; empty before the first consolidation."""

    @property
    def anchor(self) -> dict[str, Tensor]:
        """The value of every parameter at the last consolidation, by name."""

    def before_backward(
        self, outputs: Any, losses: Tensor, recalled: Recalled
    ) -> list[Tensor] | None:
        """Called between forward and backward pass, if samples are replayed.

        Args:
            outputs: of the model, those of the replayed samples first.
            losses: of all samples, in the same order.
            recalled: what the buffer remembers of the replayed samples.

        Returns:
            What the buffer shall remember of them, or None.
        """

    def after_backward(self, model: nn.Module) -> None:
        """Called after the backward pass, before the optimizer's step."""

    def after_step(self, model: nn.Module, optimizer: Optimizer) -> None:
        """Called after the optimizer's step."""

    def after_time_step(self, model: nn.Module, loss: float, buffer_loss: float) -> None:
        """Called at the end of a time step.

        Args:
            model: the model that learns.
            loss: the mean over the new samples, before they were learned.
            buffer_loss: the same over the samples replayed with them; nan if there were none.
        """

    def consolidate(self, model: nn.Module, inputs: Batch) -> None:
        """Update the importance on these inputs and anchor the parameters at their values."""

    def state_dict(self) -> dict[str, Tensor]:
        """Importance, anchor and everything that later updates depend on."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
