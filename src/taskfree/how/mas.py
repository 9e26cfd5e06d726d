"""Memory Aware Synapses, accumulated over an endless stream."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from taskfree._core import batch, validation
from taskfree._core.batch import Batch, Recalled
from taskfree._core.distributed import process_group
from taskfree._core.model import trainable, unwrap
from taskfree._core.serialization import add_prefix, take_prefix
from taskfree.how import by_heart
from taskfree.how.by_heart import moved
from taskfree.how.importance import Output, estimate

Accumulate: TypeAlias = Literal["mean", "decay", "sum"]
Penalty: TypeAlias = Literal["relative", "proximal", "gradient"]

MEMORY = 20
"""About how many time steps the losses of new and of replayed samples are averaged over."""


class MAS:
    """Memory Aware Synapses: exact importance, its cumulative mean, and a quadratic penalty.

    One object belongs to one model. It also works alone in your own training loop: call
    `after_backward` after the backward pass, `after_step` after the optimizer's step, and
    `consolidate` when learning has settled.

    Aljundi, Babiloni, Elhoseiny, Rohrbach and Tuytelaars, *Memory Aware Synapses: Learning what
    (not) to forget*, ECCV 2018.

    Args:
        strength: the paper's lambda, the weight of the penalty
            lambda/2 sum_i Omega_i (theta_i - theta*_i)^2.
        accumulate: how a new estimate updates the importance: `"mean"`, the cumulative mean of all
            estimates (the paper's choice); `"decay"`, (old + new) / 2; `"sum"`, task-based MAS.
        penalty: `"proximal"`: after the optimizer's step, each parameter moves to the exact
            minimum of the penalty seen from there, which is stable at any strength. `"gradient"`,
            the paper's: the gradient of the penalty is added to that of the loss; it diverges where
            lr * strength * importance exceeds 2. `"relative"`: proximal, with a strength that has
            no units. Each step moves a parameter of mean importance by strength / (1 + strength) of
            the way back to its anchor, and one of k times the mean with k^2 times the strength,
            whatever the scale of loss and outputs.
        output: importance is the sensitivity of the `"squared"` norm of the output, or of its
            `"norm"`.
        cover: hold only what replay does not cover. With at least this many samples in the buffer
            nothing is estimated or held, and earlier estimates are forgotten. With fewer, the
            strength is multiplied, at each consolidation, by ((L_new / L_replayed - 1) / 32)^2, at
            most 1: samples that are learned by heart have a far lower loss than new ones and do not
            stand for the stream any more; samples that are not, do. None: always the full strength.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> how = MAS(strength=1.0)
    >>> how.consolidate(model, torch.eye(2))
    >>> list(how.importance), torch.equal(how.anchor["weight"], model.weight)
    (['weight'], True)
    >>> how.after_step(model, optimizer)
    """

    def __init__(
        self,
        strength: float,
        accumulate: Accumulate = "mean",
        penalty: Penalty = "proximal",
        output: Output = "squared",
        cover: int | None = None,
    ) -> None:
        self.strength = validation.number(
            "strength", strength, least=0, hint="0 switches the penalty off"
        )
        self.accumulate = validation.choice("accumulate", accumulate, ("mean", "decay", "sum"))
        self.penalty = validation.choice("penalty", penalty, ("relative", "proximal", "gradient"))
        self.output: Output = output
        validation.choice("output", output, ("squared", "norm"))
        self.cover = None if cover is None else validation.integer("cover", cover, least=1)
        self.factor = 1.0
        """What the strength is multiplied by since the last consolidation."""
        self.losses = (math.nan, math.nan)
        """With `cover`: mean losses of new and of replayed samples; nan before there are any."""
        self.importance: dict[str, Tensor] = {}
        self.anchor: dict[str, Tensor] = {}
        self.consolidations = 0
        self._known: list[tuple[nn.Parameter, str]] | None = None
        self._step: tuple[Any, list[Tensor], list[Tensor], list[Tensor]] | None = None

    def before_backward(self, outputs: Any, losses: Tensor, recalled: Recalled) -> None:
        """Nothing: the penalty is on parameters, not on outputs."""

    def after_time_step(self, model: nn.Module, loss: float, buffer_loss: float) -> None:
        """With `cover`, average the losses of new and of replayed samples."""
        del model
        if self.cover is not None:
            new, replayed = self.losses
            self.losses = moved(new, loss, MEMORY), moved(replayed, buffer_loss, MEMORY)

    @torch.no_grad()
    def consolidate(self, model: nn.Module, inputs: Batch) -> None:
        """Update the importance on these inputs and anchor the parameters at their values."""
        self._clear_caches()
        if self._covered(model, inputs):
            self.importance, self.anchor, self.consolidations, self.factor = {}, {}, 0, 0.0
            return
        factor = 1.0 if self.cover is None else by_heart.share(*self.losses)
        if not factor:
            self.factor = factor
            return
        parameters = trainable(model)
        self._check_shapes(parameters)
        new = estimate(model, inputs, self.output)
        for name, value in new.items():
            if not value.sum().isfinite():  # nan and inf survive a sum, and it needs no mask
                raise ValueError(
                    f"the importance of {name} is not finite on these inputs; the model's outputs "
                    "are too large there: check the inputs, or lower the learning rate"
                )
        for name, value in new.items():
            old = self.importance.get(name)
            if self.accumulate == "sum":
                if old is not None:
                    value.add_(old)
                continue
            share = 0.5 if self.accumulate == "decay" else 1 / (self.consolidations + 1)
            if old is None:
                value.mul_(share)
            else:
                value.lerp_(old, 1 - share)
        anchor = {name: parameters[name].detach().clone() for name in new}
        self.importance, self.anchor, self.consolidations, self.factor = (
            self.importance | new,
            self.anchor | anchor,
            self.consolidations + 1,
            factor,
        )

    def _covered(self, model: nn.Module, inputs: Batch) -> bool:
        """Whether replay of these samples covers what there is to protect."""
        if self.cover is None:
            return False
        return sum(process_group(model).gather(lambda: batch.rows(inputs))) >= self.cover

    def _check_shapes(self, parameters: Mapping[str, Tensor]) -> None:
        for name, old in self.importance.items():
            if name in parameters and parameters[name].shape != old.shape:
                raise ValueError(
                    f"{name} has shape {list(parameters[name].shape)} and its importance "
                    f"{list(old.shape)}; a parameter must keep its shape"
                )

    def after_backward(self, model: nn.Module) -> None:
        """With `penalty="gradient"`: add strength * importance * (theta - anchor) to the gradients.

        The gradient of the penalty is local to each parameter and needs no backward pass.
        """
        if self.penalty == "gradient" and self.importance and self.factor:
            self._add_gradients(model)

    @torch.no_grad()
    def _add_gradients(self, model: nn.Module) -> None:
        held = [(value, name) for value, name in self._held(model) if value.requires_grad]
        for parameter, name in held:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            elif parameter.grad.is_sparse:
                raise ValueError(
                    f"penalty='gradient' needs dense gradients and {name}'s are sparse; "
                    "use penalty='proximal'"
                )
        parameters: list[Tensor] = [value for value, _ in held]
        anchors: list[Any] = [self.anchor[name] for _, name in held]
        away = torch._foreach_sub(parameters, anchors)
        importance = [self.importance[name] for _, name in held]
        gradients: list[Any] = [value.grad for value in parameters]
        torch._foreach_addcmul_(gradients, away, importance, self._strength)

    def after_step(self, model: nn.Module, optimizer: Optimizer) -> None:
        """With `penalty="proximal"`: move each parameter towards its anchor by a / (1 + a).

        With a = lr * strength * importance this is the exact minimum of
        strength/2 * importance * (theta - anchor)^2 + (theta - theta_after_step)^2 / (2 lr).
        With `penalty="relative"`, a = strength * (importance / mean importance)^2: important
        parameters are held firmly, and the many below the mean stay free to learn.
        """
        if self.penalty == "gradient" or not self.importance or not self.factor:
            return
        rates = [float(group["lr"]) for group in optimizer.param_groups]
        now = [(value.requires_grad, value.data_ptr()) for value, _ in self._held(model)]
        made_for = (self._strength, rates, now, optimizer)
        if self._step is None or self._step[0] != made_for:
            self._step = (made_for, *self._step_weights(model, optimizer))
        torch._foreach_lerp_(*self._step[1:])

    @torch.no_grad()
    def _step_weights(
        self, model: nn.Module, optimizer: Optimizer
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Trainable parameters, their anchors and their weights a / (1 + a).

        The parameters are detached tensors that share their memory.
        """
        rates = {
            id(value): float(group["lr"])
            for group in optimizer.param_groups
            for value in group["params"]
        }
        held = [(p, name) for p, name in self._held(model) if p.requires_grad and id(p) in rates]
        mean = self._mean() if self.penalty == "relative" else None
        weights = []
        for parameter, name in held:
            largest = torch.finfo(parameter.dtype).max
            if mean is None:
                a = self.importance[name] * min(rates[id(parameter)] * self._strength, largest)
            else:
                a = (self.importance[name] * min(self._strength**0.5 / mean, largest)).square_()
            a.clamp_(max=largest)
            weights.append(a.div_(a + 1))
        return [p.detach() for p, _ in held], [self.anchor[name] for _, name in held], weights

    @property
    def _strength(self) -> float:
        return self.strength * self.factor

    def _mean(self) -> float:
        """The mean importance over all parameters; tiny if all are 0, so that nothing is held."""
        total = sum(value.sum(dtype=torch.float64).item() for value in self.importance.values())
        count = sum(value.numel() for value in self.importance.values())
        return max(total / count, torch.finfo(torch.float64).tiny)

    def _held(self, model: nn.Module) -> list[tuple[nn.Parameter, str]]:
        """The parameters with an importance, frozen or not, and their names."""
        if self._known is None:
            named = unwrap(model).named_parameters()
            self._known = [(value, name) for name, value in named if name in self.importance]
        return self._known

    def _clear_caches(self) -> None:
        self._known = self._step = None

    def state_dict(self) -> dict[str, Tensor]:
        """Importance, anchor and number of consolidations; what `cover` depends on."""
        own = {"consolidations": torch.tensor(self.consolidations)}
        if self.cover is not None:
            own["cover"] = torch.tensor([self.factor, *self.losses], dtype=torch.float64)
        return own | add_prefix("importance", self.importance) | add_prefix("anchor", self.anchor)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        consolidations = int(state["consolidations"])
        factor, new, replayed = 1.0, math.nan, math.nan
        if self.cover is not None:
            factor, new, replayed = state["cover"].tolist()
        self.importance = {name: t.clone() for name, t in take_prefix("importance", state).items()}
        self.anchor = {name: t.clone() for name, t in take_prefix("anchor", state).items()}
        self.consolidations, self.factor, self.losses = consolidations, factor, (new, replayed)
        self._clear_caches()
