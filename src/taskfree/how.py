"""HOW to keep knowledge: Memory Aware Synapses, accumulated over an endless stream.

Every parameter has an importance, estimated at each consolidation and accumulated over them, and
an anchor, its value at the last consolidation. The penalty holds important parameters near it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from taskfree import arguments
from taskfree.batch import Batch
from taskfree.importance import Output, estimate, trainable
from taskfree.state import nest, part

__all__ = ["MAS", "Importance"]

Accumulate: TypeAlias = Literal["mean", "decay", "sum"]
Penalty: TypeAlias = Literal["proximal", "gradient"]


class Importance(Protocol):
    """What the learner asks of a way to keep knowledge. `checks.check_importance` tries yours."""

    importance: dict[str, Tensor]
    """The importance of every parameter by its name; empty before the first consolidation."""
    anchor: dict[str, Tensor]
    """Every parameter's value at the last consolidation, by its name."""

    def consolidate(self, model: nn.Module, inputs: Batch) -> None:
        """Update the importance on these inputs and anchor the parameters where they are."""

    def add_gradients(self, model: nn.Module) -> None:
        """Called when the gradients are there, before the optimizer's step."""

    def pull_back(self, model: nn.Module, optimizer: Optimizer) -> None:
        """Called after the optimizer's step."""

    def state_dict(self) -> dict[str, Tensor]:
        """The importance, the anchor and all that later updates depend on."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""


class MAS:
    """The paper's way: exact importance, a cumulative mean of it, a quadratic penalty.

    One object belongs to one model. It also works alone, in a loop of your own: call
    `add_gradients` after the backward pass, `pull_back` after the optimizer's step, and
    `consolidate` when you think it is time.

    Args:
        strength: the paper's lambda, the weight of the penalty
            lambda/2 sum_i Omega_i (theta_i - theta*_i)^2.
        accumulate: how a new estimate joins the importance: `"mean"`, the cumulative mean of all
            estimates (the paper's choice); `"decay"`, (old + new) / 2; `"sum"`, task-based MAS.
        penalty: `"proximal"`, after the optimizer's step the parameters go to the exact minimum of
            the penalty seen from there, which is stable at any strength; `"gradient"`, the
            paper's: its gradient is added to the loss's, which diverges where
            lr * strength * importance passes 2.
        output: importance is the sensitivity of the `"squared"` norm of the output, or of its
            `"norm"`.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> how = MAS(strength=1.0)
    >>> how.consolidate(model, torch.eye(2))
    >>> list(how.importance), torch.equal(how.anchor["weight"], model.weight)
    (['weight'], True)
    >>> how.pull_back(model, optimizer)
    """

    def __init__(
        self,
        strength: float,
        accumulate: Accumulate = "mean",
        penalty: Penalty = "proximal",
        output: Output = "squared",
    ) -> None:
        self.strength = arguments.number(
            "strength", strength, least=0, hint="0 switches the penalty off"
        )
        self.accumulate = arguments.one_of("accumulate", accumulate, ("mean", "decay", "sum"))
        self.penalty = arguments.one_of("penalty", penalty, ("proximal", "gradient"))
        self.output: Output = output
        arguments.one_of("output", output, ("squared", "norm"))
        self.importance: dict[str, Tensor] = {}
        self.anchor: dict[str, Tensor] = {}
        self.consolidations = 0
        self._forget_caches()

    def _forget_caches(self) -> None:
        self._held: list[tuple[nn.Parameter, str]] | None = None
        self._weights: dict[str, Tensor] = {}
        self._weights_for: tuple[float, ...] | None = None

    @torch.no_grad()
    def consolidate(self, model: nn.Module, inputs: Batch) -> None:
        """Update the importance on these inputs and anchor the parameters where they are."""
        new = estimate(model, inputs, self.output)
        for name, value in new.items():
            if not value.isfinite().all():
                raise ValueError(
                    f"the importance of {name} is not finite on these inputs; the model's outputs "
                    "are too large there: check the inputs, or lower the learning rate"
                )
        parameters = trainable(model)
        for name, value in new.items():
            if name not in self.importance:
                self.importance[name] = torch.zeros_like(value)
                self.anchor[name] = torch.empty_like(value)
        old = [self.importance[name] for name in new]
        self.consolidations += 1
        if self.accumulate == "sum":
            torch._foreach_add_(old, list(new.values()))
        else:
            share = 0.5 if self.accumulate == "decay" else 1 / self.consolidations
            torch._foreach_lerp_(old, list(new.values()), share)
        torch._foreach_copy_(
            [self.anchor[name] for name in new], [parameters[name] for name in new]
        )
        self._forget_caches()

    @torch.no_grad()
    def add_gradients(self, model: nn.Module) -> None:
        """With `penalty="gradient"`: add strength * importance * (theta - anchor) to the gradients.

        The penalty's gradients are local to each parameter: there is no backward pass for them.
        """
        if self.penalty != "gradient" or not self.importance:
            return
        held = self._still_learning(model)
        parameters: list[Tensor] = [parameter for parameter, _ in held]
        anchors: list[Any] = [self.anchor[name] for _, name in held]
        pull = torch._foreach_sub(parameters, anchors)
        torch._foreach_mul_(pull, [self.importance[name] for _, name in held])
        torch._foreach_mul_(pull, self.strength)
        for (parameter, name), gradient in zip(held, pull, strict=True):
            if parameter.grad is None:
                parameter.grad = gradient
            elif parameter.grad.is_sparse:
                raise ValueError(
                    f"penalty='gradient' needs dense gradients and {name}'s are sparse; "
                    "use penalty='proximal'"
                )
            else:
                parameter.grad += gradient

    @torch.no_grad()
    def pull_back(self, model: nn.Module, optimizer: Optimizer) -> None:
        """With `penalty="proximal"`: move each parameter towards its anchor by a / (1 + a).

        With a = lr * strength * importance this is the exact minimum of
        strength/2 * importance * (theta - anchor)^2 + (theta - theta_after_step)^2 / (2 lr).
        """
        if self.penalty != "proximal" or not self.importance:
            return
        held = self._still_learning(model)
        rates = _learning_rates(optimizer)
        held = [(parameter, name) for parameter, name in held if parameter in rates]
        rates_now = tuple(rates[parameter] for parameter, _ in held)
        if rates_now != self._weights_for:
            for (_, name), rate in zip(held, rates_now, strict=True):
                a = self.importance[name] * (rate * self.strength)
                a.clamp_(max=torch.finfo(a.dtype).max)
                self._weights[name] = a.div_(a + 1)
            self._weights_for = rates_now
        torch._foreach_lerp_(
            [parameter for parameter, _ in held],
            [self.anchor[name] for _, name in held],
            [self._weights[name] for _, name in held],
        )

    def _still_learning(self, model: nn.Module) -> list[tuple[nn.Parameter, str]]:
        """The parameters that have an importance and are not frozen, with their names."""
        if self._held is None:
            known = trainable(model).items()
            self._held = [(value, name) for name, value in known if name in self.importance]
        return [(value, name) for value, name in self._held if value.requires_grad]

    def state_dict(self) -> dict[str, Tensor]:
        """The importance, the anchor and the number of consolidations."""
        own = {"consolidations": torch.tensor(self.consolidations)}
        return own | nest("importance", self.importance) | nest("anchor", self.anchor)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        consolidations = int(state["consolidations"])
        self.importance = {name: t.clone() for name, t in part("importance", state).items()}
        self.anchor = {name: t.clone() for name, t in part("anchor", state).items()}
        self.consolidations = consolidations
        self._forget_caches()


def _learning_rates(optimizer: Optimizer) -> dict[nn.Parameter, float]:
    """Each parameter's learning rate as it is now."""
    return {
        parameter: float(group["lr"])
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
