"""The interface of a regularizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from taskfree._core.batch import Batch


class Regularizer(Protocol):
    """What the learner requires of a regularizer. `taskfree.checks.check_regularizer` tests yours.

    `consolidate` assigns new attributes and never changes tensors in place, so that a failed step
    can be undone.

    >>> from taskfree import checks, how
    >>> checks.check_regularizer(lambda: how.MAS(strength=1.0))
    """

    importance: dict[str, Tensor]
    """The importance of every parameter, by name; empty before the first consolidation."""
    anchor: dict[str, Tensor]
    """The value of every parameter at the last consolidation, by name."""

    def consolidate(self, model: nn.Module, inputs: Batch) -> None:
        """Update the importance on these inputs and anchor the parameters at their values."""

    def add_penalty_gradients(self, model: nn.Module) -> None:
        """Called after the backward pass, before the optimizer's step."""

    def proximal_step(self, model: nn.Module, optimizer: Optimizer) -> None:
        """Called after the optimizer's step."""

    def state_dict(self) -> dict[str, Tensor]:
        """Importance, anchor and everything that later updates depend on."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
