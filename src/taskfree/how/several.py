"""Several regularizers as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from taskfree._core.batch import Batch, Recalled
from taskfree._core.serialization import add_prefix, take_prefix
from taskfree.how.regularizer import Regularizer


class Several:
    """Regularizers that act one after the other; `Learner(how=[...])` makes one of a list.

    Args:
        parts: the regularizers. At most one of them may remember outputs.

    >>> import torch
    >>> from taskfree.how import MAS, Teacher
    >>> how = Several([Teacher(), MAS(0.01, penalty="relative")])
    >>> model = nn.Linear(2, 1)
    >>> how.consolidate(model, torch.ones(3, 2))
    >>> list(how.importance)
    ['weight', 'bias']
    """

    def __init__(self, parts: Sequence[Regularizer]) -> None:
        self.parts = tuple(parts)

    @property
    def importance(self) -> dict[str, Tensor]:
        """The importance of every parameter, of the part that has one."""
        return next((part.importance for part in self.parts if part.importance), {})

    @property
    def anchor(self) -> dict[str, Tensor]:
        """The value of every parameter at the last consolidation."""
        return next((part.anchor for part in self.parts if part.anchor), {})

    def before_backward(
        self, outputs: Any, losses: Tensor, recalled: Recalled
    ) -> list[Tensor] | None:
        """Called between forward and backward pass."""
        found = [part.before_backward(outputs, losses, recalled) for part in self.parts]
        return next((outputs for outputs in found if outputs is not None), None)

    def after_backward(self, model: nn.Module) -> None:
        """Called after the backward pass, before the optimizer's step."""
        for part in self.parts:
            part.after_backward(model)

    def after_step(self, model: nn.Module, optimizer: Optimizer) -> None:
        """Called after the optimizer's step."""
        for part in self.parts:
            part.after_step(model, optimizer)

    def after_time_step(self, model: nn.Module, loss: float, buffer_loss: float) -> None:
        """Called at the end of a time step."""
        for part in self.parts:
            part.after_time_step(model, loss, buffer_loss)

    def consolidate(self, model: nn.Module, inputs: Batch) -> None:
        """Update the importance on these inputs and anchor the parameters at their values."""
        for part in self.parts:
            part.consolidate(model, inputs)

    def state_dict(self) -> dict[str, Tensor]:
        """The states of all parts."""
        states = [add_prefix(str(n), part.state_dict()) for n, part in enumerate(self.parts)]
        return {name: value for state in states for name, value in state.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        for number, part in enumerate(self.parts):
            part.load_state_dict(take_prefix(str(number), state))
