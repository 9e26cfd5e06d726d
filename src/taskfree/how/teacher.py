"""A teacher: what the model knew on average, in its weights and in its outputs."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from taskfree._core import batch, validation
from taskfree._core.batch import Batch, Recalled
from taskfree._core.distributed import process_group
from taskfree._core.model import named_tensors, unwrap
from taskfree._core.serialization import add_prefix, take_prefix

MEMORY = 20
"""About how many gradient steps the scales of losses and gradients are averaged over."""


class Teacher:
    """Keeps knowledge in function space: replayed samples are held to what the model said of them.

    Two moving averages over the gradient steps, of the same `decay`. The *outputs* for each sample
    in the buffer are averaged whenever it is replayed, and the model is held to that average: c
    times the squared distance is added to the sample's loss. This needs no further forward pass.
    The *weights* are averaged too: `network` is the model with averaged weights, which predicts
    better than the last weights wherever the stream does not change.

    The weight c = strength * E|dL/do|^2 / (2 E L), with the gradients dL/do of the loss at the
    outputs, has the units of the loss over those of the outputs squared. So neither the scale of
    the loss nor that of the outputs matters, and any loss and any outputs will do: logits, numbers,
    embeddings, a tuple of heads.

    One object belongs to one model. Frozen parameters are shared with it, not copied.

    Laine and Aila, *Temporal ensembling for semi-supervised learning*, ICLR 2017. Tarvainen and
    Valpola, *Mean teachers are better role models*, NeurIPS 2017. Buzzega et al., *Dark experience
    for general continual learning*, NeurIPS 2020.

    Args:
        strength: how hard outputs are held; it has no units.
        decay: the weight of the past in both averages, per gradient step. At the start it is
            lower, so that the network is the mean of all weights so far.

    >>> model = nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> teacher = Teacher()
    >>> network = teacher.attach(model)
    >>> with torch.no_grad():
    ...     before = model.weight.clone()
    ...     _ = model.weight.add_(1)
    >>> teacher.after_step(model, optimizer)
    >>> teacher.after_time_step(model)
    >>> torch.allclose(network.weight, before + 0.5)
    True
    """

    def __init__(self, strength: float = 1.0, decay: float = 0.99) -> None:
        self.strength = validation.number(
            "strength", strength, least=0, hint="0 only averages the weights"
        )
        self.decay = validation.number("decay", decay, least=0)
        if self.decay >= 1:
            raise ValueError(f"decay must be below 1, got {decay!r}; 0.99 is the default")
        self.importance: dict[str, Tensor] = {}
        self.anchor: dict[str, Tensor] = {}
        self.network: nn.Module | None = None
        """The model with averaged weights, in eval mode, once it has been attached."""
        self._names: list[str] = []
        """The tensors that are averaged."""
        self._loaded: dict[str, Tensor] = {}
        self._time_steps = self._steps = self._averaged = 0
        """Time steps, gradient steps, and gradient steps up to the last average."""
        self._scales = torch.zeros(0, dtype=torch.float64)
        """The discounted mean loss and, for each output, the squared norm of its gradient."""
        self._new_scales: tuple[Tensor, ...] = ()

    @torch.no_grad()
    def attach(self, model: nn.Module) -> nn.Module:
        """The network with averaged weights, made from the model when it is first asked for."""
        if self.network is None:
            network = _copy(unwrap(model))
            found = named_tensors(network)
            for name, average in self._loaded.items():
                found[name].copy_(average)
            frozen = {id(value) for value in model.parameters()}
            self._names = [name for name, value in found.items() if id(value) not in frozen]
            self.network, self._loaded = network, {}
        return self.network

    def before_backward(
        self, outputs: Any, losses: Tensor, recalled: Recalled
    ) -> list[Tensor] | None:
        """Hold the outputs of the replayed samples to their averages, by their gradients.

        Returns the averages with these outputs in them.
        """
        if not self.strength:
            return None
        parts = batch.output_tensors(outputs)
        said = [part[: recalled.here].detach() for part in parts]
        scales = torch.zeros(1 + len(parts), dtype=torch.float64)
        scales[0] = losses[: recalled.here].detach().abs().sum() / recalled.total
        self._new_scales = (*self._new_scales, scales)
        known, average = self._average(said, recalled)
        for number, (part, now, before) in enumerate(zip(parts, said, known, strict=True), 1):
            if part.requires_grad:
                pull = self._pull(number) / recalled.total
                part.register_hook(  # type: ignore[no-untyped-call]  # torch
                    partial(_hold, recalled, number, scales, pull * (now - before))
                )
        return average

    def _average(self, said: list[Tensor], recalled: Recalled) -> tuple[list[Tensor], list[Tensor]]:
        """The averages of the outputs before and after these; of samples without one, these."""
        old, ages = recalled.outputs, recalled.ages
        if old is None or ages is None or list(map(_shape, old)) != list(map(_shape, said)):
            return said, said
        new = ages.isinf().to(said[0].device)
        share = (1 - self.decay**ages).to(said[0].device)
        known = [
            torch.where(_beside(new, now), now, before.to(now))
            for before, now in zip(old, said, strict=True)
        ]
        return known, [
            torch.lerp(before, now, _beside(share, now).to(now))
            for before, now in zip(known, said, strict=True)
        ]

    def _pull(self, number: int) -> float:
        """Twice the weight c of an output."""
        if len(self._scales) <= number or not self._scales[0]:
            return 0.0
        return self.strength * float(self._scales[number] / self._scales[0])

    def after_backward(self, model: nn.Module) -> None:
        """Update the scales of losses and gradients."""
        if not self._new_scales:
            return
        new = sum(self._new_scales[1:], start=self._new_scales[0])
        process_group(model).sum_([new])
        fits = len(new) == len(self._scales)
        self._scales = torch.lerp(self._scales, new, 1 / MEMORY) if fits else new
        self._new_scales = ()

    def after_step(self, model: nn.Module, optimizer: Optimizer) -> None:
        """Count the gradient steps, over which both averages are."""
        del model, optimizer
        self._steps += 1

    @torch.no_grad()
    def after_time_step(self, model: nn.Module) -> None:
        """Update the averaged weights, and buffers such as the statistics of batch norm."""
        averages, learned = named_tensors(self.attach(model)), named_tensors(unwrap(model))
        self._time_steps += 1
        share = 1 - self.decay ** (self._steps - self._averaged)
        share = max(share, 1 / (self._time_steps + 1))
        self._averaged = self._steps
        pairs = [(averages[name], learned[name]) for name in self._names]
        floating = [pair for pair in pairs if pair[0].is_floating_point()]
        torch._foreach_lerp_([a for a, _ in floating], [b for _, b in floating], share)
        for average, value in pairs:
            if not average.is_floating_point():
                average.copy_(value)

    def consolidate(self, model: nn.Module, inputs: Batch) -> None:
        """Nothing: the averages are always up to date."""

    def state_dict(self) -> dict[str, Tensor]:
        """The averaged weights, the scales of losses and gradients, and the number of steps."""
        own = {
            "steps": torch.tensor(self._steps),
            "time_steps": torch.tensor(self._time_steps),
            "scales": self._scales,
        }
        averages = self._loaded
        if self.network is not None:
            found = named_tensors(self.network)
            averages = {name: found[name].detach() for name in self._names}
        return own | add_prefix("average", averages)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        steps, time_steps = int(state["steps"]), int(state["time_steps"])
        scales = state["scales"].cpu().clone()
        averages = {name: t.clone() for name, t in take_prefix("average", state).items()}
        self._steps = self._averaged = steps
        self._time_steps, self._scales = time_steps, scales
        self.network, self._loaded = None, averages


def _copy(model: nn.Module) -> nn.Module:
    """A copy in eval mode that needs no gradients and shares the frozen parameters."""
    shared = {id(value): value for value in model.parameters() if not value.requires_grad}
    try:
        network = copy.deepcopy(model, shared)
    except Exception as error:
        error.add_note("how=Teacher(...) averages the weights in a copy of the model")
        raise
    for value in network.parameters():
        value.requires_grad_(False)
        value.grad = None
    return network.eval()


def _shape(tensor: Tensor) -> torch.Size:
    return tensor.shape


def _beside(numbers: Tensor, outputs: Tensor) -> Tensor:
    """One number per sample, in a shape that broadcasts over that sample's outputs."""
    return numbers.view(-1, *[1] * (outputs.dim() - 1))


def _hold(
    recalled: Recalled, number: int, scales: Tensor, pull: Tensor, gradient: Tensor
) -> Tensor:
    """The gradient of an output with the pull in it; its own scale is measured on the way."""
    scales[number] += gradient[: recalled.here].square().sum() * recalled.total
    held = gradient.clone()
    held[: recalled.here] += pull
    return held
