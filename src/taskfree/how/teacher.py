"""A teacher: what the model knew on average, in its weights and in its outputs."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.linalg import vector_norm
from torch.optim import Optimizer

from taskfree._core import batch, validation
from taskfree._core.batch import Batch, Recalled
from taskfree._core.distributed import process_group
from taskfree._core.model import named_tensors, unwrap
from taskfree._core.serialization import add_prefix, take_prefix
from taskfree.how.by_heart import firmness, moved

EVERY = 4
"""Gradient steps between measurements of the scales of losses and gradients."""
SHARE = 0.2
"""The weight of a measurement in their discounted means."""
RECENT, USUAL = 10, 100
"""About how many time steps losses are averaged over."""


class Teacher:
    """Keeps knowledge in function space: replayed samples are held to what the model said of them.

    Two moving averages over the gradient steps. The *outputs* for each sample in the buffer are
    averaged whenever it is replayed, and the model is held to that average: c times the squared
    distance is added to the sample's loss. This needs no further forward pass. The *weights* are
    averaged too: `network` is the model with averaged weights, which predicts better than the last
    weights wherever the stream does not change.

    The weight c = strength * E|dL/do|^2 / (2 E L), with the gradients dL/do of the loss at the
    outputs, has the units of the loss over those of the outputs squared. So neither the scale of
    the loss nor that of the outputs matters, and any loss and any outputs will do: logits, numbers,
    embeddings, a tuple of heads. It is multiplied by the loss of new samples over that of replayed
    ones, at most 10: as the buffer is learned by heart, its labels teach less and these outputs
    matter more. While the loss of new samples is above its mean, it is smaller by the square of
    that ratio: something changes.

    One object belongs to one model. Frozen parameters are shared with it, not copied.

    Laine and Aila, *Temporal ensembling for semi-supervised learning*, ICLR 2017. Tarvainen and
    Valpola, *Mean teachers are better role models*, NeurIPS 2017. Buzzega et al., *Dark experience
    for general continual learning*, NeurIPS 2020.

    Args:
        strength: how hard outputs are held while replayed samples are as hard as new ones; it has
            no units.
        outputs: the weight of the past in the averaged outputs, per gradient step.
        weights: the weight of the past in the averaged weights, per gradient step. At the start it
            is lower, so that they are the mean of all weights so far.

    >>> model = nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> teacher = Teacher()
    >>> network = teacher.attach(model)
    >>> with torch.no_grad():
    ...     before = model.weight.clone()
    ...     _ = model.weight.add_(1)
    >>> teacher.after_step(model, optimizer)
    >>> teacher.after_time_step(model, loss=0.7, buffer_loss=0.5)
    >>> torch.allclose(network.weight, before + 0.5)
    True
    """

    def __init__(
        self, strength: float = 0.1, outputs: float = 0.999, weights: float = 0.995
    ) -> None:
        self.strength = validation.number(
            "strength", strength, least=0, hint="0 only averages the weights"
        )
        self.outputs = _memory("outputs", outputs)
        self.weights = _memory("weights", weights)
        self.importance: dict[str, Tensor] = {}
        self.anchor: dict[str, Tensor] = {}
        self.network: nn.Module | None = None
        """The model with averaged weights, in eval mode, once it has been attached."""
        self._names: list[str] = []
        """The tensors that are averaged."""
        self._pairs: tuple[list[Tensor], list[Tensor]] = ([], [])
        """Averaged parameters and the model's own."""
        self._loaded: dict[str, Tensor] = {}
        self._time_steps = self._steps = self._averaged = 0
        """Time steps, gradient steps, and gradient steps up to the last average."""
        self._scales: tuple[float, ...] = ()
        """The discounted mean loss and, for each output, the squared norm of its gradient."""
        self._measured: tuple[list[Tensor], ...] = ()
        """The same of the last backward passes, on this rank."""
        self._losses = (math.nan, math.nan, math.nan)
        """The recent and the usual loss of new samples, and the usual one of replayed samples."""

    @torch.no_grad()
    def attach(self, model: nn.Module) -> nn.Module:
        """The network with averaged weights, made from the model when it is first asked for."""
        if self.network is None:
            network = _copy(unwrap(model))
            found = named_tensors(network)
            for name, average in self._loaded.items():
                found[name].copy_(average)
            own = named_tensors(unwrap(model))
            self._names = [name for name, value in found.items() if value is not own[name]]
            learned = [name for name, _ in network.named_parameters() if name in self._names]
            self._pairs = [found[name] for name in learned], [own[name] for name in learned]
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
        here, total, parts = recalled.here, recalled.total, batch.output_tensors(outputs)
        said = [part.detach()[:here].to(_at_least_single(part.dtype)) for part in parts]
        pulls, average = self._towards_average(said, recalled)
        measured: list[Tensor] | None = None
        if self._steps % EVERY == 0 or not self._scales:
            measured = [vector_norm(losses.detach()[:here], 1) / total]
            measured += [losses.new_zeros(())] * len(parts)
            self._measured = (*self._measured, measured)
        for number, (part, pull) in enumerate(zip(parts, pulls, strict=True), 1):
            if part.requires_grad:
                hold = partial(_hold, measured, number, total, pull)
                part.register_hook(hold)  # type: ignore[no-untyped-call]  # torch
        return average

    def _towards_average(
        self, said: list[Tensor], recalled: Recalled
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The pull on these outputs, and the averages with them; they are those of new samples."""
        old, ages, total = recalled.outputs, recalled.ages, recalled.total
        if old is None or ages is None or list(map(_shape, old)) != list(map(_shape, said)):
            return [torch.zeros_like(now) for now in said], said
        share = torch.expm1(ages * math.log(self.outputs)).neg_().to(said[0])
        known, pulls, average = (share < 1).to(said[0]), [], []  # not those of new samples
        for number, (before, now) in enumerate(zip(old, said, strict=True), 1):
            column = [-1, *[1] * (now.dim() - 1)]
            away = now - before
            average.append(torch.addcmul(before, share.view(column), away))
            pulls.append(away.mul_((known * (self._pull(number) / total)).view(column)))
        return pulls, average

    def _pull(self, number: int) -> float:
        """Twice the weight c of an output."""
        if len(self._scales) <= number or not self._scales[0]:
            return 0.0
        return self.strength * self.firmness * self._scales[number] / self._scales[0]

    @property
    def firmness(self) -> float:
        """How hard outputs are held now, as a multiple of `strength`."""
        return firmness(*self._losses)

    def after_backward(self, model: nn.Module) -> None:
        """Update the scales of losses and gradients."""
        if not self._measured:
            return
        found = torch.stack([torch.stack(measured) for measured in self._measured]).double().sum(0)
        process_group(model).sum_([found])
        new = tuple(found.tolist())
        old = self._scales if len(self._scales) == len(new) else new
        self._scales = tuple(a + SHARE * (b - a) for a, b in zip(old, new, strict=True))
        self._measured = ()

    def after_step(self, model: nn.Module, optimizer: Optimizer) -> None:
        """Count the gradient steps, over which both averages are."""
        del model, optimizer
        self._steps += 1

    @torch.no_grad()
    def after_time_step(self, model: nn.Module, loss: float, buffer_loss: float) -> None:
        """Update the averaged weights, and buffers such as the statistics of batch norm."""
        network = self.attach(model)
        recent, usual, replayed = self._losses
        self._losses = (
            moved(recent, loss, RECENT), moved(usual, loss, USUAL),
            moved(replayed, buffer_loss, USUAL),
        )  # fmt: skip
        self._time_steps += 1
        share = 1 - self.weights ** (self._steps - self._averaged)
        share = max(share, 1 / (self._time_steps + 1))
        self._averaged = self._steps
        torch._foreach_lerp_(*self._pairs, share)
        if len(self._names) > len(self._pairs[0]):
            now = dict(unwrap(model).named_buffers())
            for name, average in network.named_buffers():
                whole = not average.is_floating_point()
                average.copy_(now[name]) if whole else average.lerp_(now[name], share)

    def consolidate(self, model: nn.Module, inputs: Batch) -> None:
        """Nothing: the averages are always up to date."""

    def state_dict(self) -> dict[str, Tensor]:
        """The averaged weights, the scales of losses and gradients, and the number of steps."""
        own = {
            "steps": torch.tensor(self._steps),
            "time_steps": torch.tensor(self._time_steps),
            "scales": torch.tensor(self._scales, dtype=torch.float64),
            "losses": torch.tensor(self._losses, dtype=torch.float64),
        }
        averages = self._loaded
        if self.network is not None:
            found = named_tensors(self.network)
            averages = {name: found[name].detach() for name in self._names}
        return own | add_prefix("average", averages)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        steps, time_steps = int(state["steps"]), int(state["time_steps"])
        scales, (recent, usual, replayed) = (
            tuple(state["scales"].tolist()),
            state["losses"].tolist(),
        )
        averages = {name: t.clone() for name, t in take_prefix("average", state).items()}
        self._steps = self._averaged = steps
        self._time_steps, self._scales = time_steps, scales
        self._losses = (recent, usual, replayed)
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


def _at_least_single(dtype: torch.dtype) -> torch.dtype:
    """The dtype of an average: half precision would lose what a step adds to it."""
    return torch.promote_types(dtype, torch.float32)


def _memory(name: str, value: float) -> float:
    """The weight of the past: above 0 and below 1.

    >>> _memory("weights", 0.5)
    0.5
    """
    number = validation.number(name, value, above=0)
    if number >= 1:
        raise ValueError(
            f"{name} must be below 1, got {value!r}; 0.99 averages over about 100 gradient steps"
        )
    return number


def _hold(
    measured: list[Tensor] | None, number: int, total: int, pull: Tensor, gradient: Tensor
) -> Tensor:
    """The gradient of an output with the pull in it; its own scale is measured on the way."""
    held = gradient.clone()
    own = held[: len(pull)]
    if measured is not None:
        measured[number] = total * vector_norm(own) ** 2
    own += pull
    return held
