"""Steps of the optimizer: gradients are checked and clipped before, parameters after."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import LBFGS, Optimizer

from taskfree._core import finite, validation
from taskfree._core.rollback import Rollback


class Descent:
    """Takes the steps of an optimizer.

    Args:
        model: the model that learns.
        optimizer: over its parameters.
        rollback: to which parameters are saved before a step that could overflow.
        hows: the regularizers.
        clip: the largest norm of all gradients together, or None.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        rollback: Rollback,
        hows: Sequence[object],
        clip: float | None,
    ) -> None:
        self._model, self._rollback = model, rollback
        self._clip = None if clip is None else validation.number("clip", clip, above=0)
        self.searches = isinstance(optimizer, LBFGS)
        """Whether the optimizer evaluates the objective itself, several times per step."""
        if self.searches and any(getattr(how, "penalty", "") == "gradient" for how in hows):
            raise ValueError(
                "how=MAS(penalty='gradient') adds to the gradients what LBFGS does not find in the "
                "objective; use penalty='proximal'"
            )
        if self.searches and clip is not None:
            raise ValueError(
                "clip changes gradients, which LBFGS needs as they are; use another optimizer"
            )

    def step(self, optimizer: Optimizer, loss: float, evaluate: Callable[[], float]) -> None:
        """Take a step along the gradients; `evaluate` computes the objective and them again."""
        if self.searches:
            optimizer.step(evaluate)
            return
        safe = finite.step_is_safe(optimizer, loss)
        if self._clip is not None:
            groups = optimizer.param_groups
            clip_grad_norm_([value for group in groups for value in group["params"]], self._clip)
        if safe:
            optimizer.step()
            return
        self._rollback.save_parameters()
        optimizer.step()
        finite.check_parameters(self._model)
