"""Closed forms: the exact importance of common layers for the price of one backward pass.

A layer's weight gradient is made of what the layer was given (a) and the gradient that came back to
its output (delta). One backward pass to the layers' outputs gives every sample's delta at once,
for samples do not mix in eval mode; sum_k |gradient_k| then follows layer by layer, without ever
holding a gradient for each sample. A linear layer of one vector a sample needs one matrix product:

    sum_k |delta_k outer a_k| = |delta|^T |a|

A layer is only trusted after its form agreed with autograd on a sample of the same kind: layers
that are given something else than one row a sample, whose weight is used elsewhere too, or that
mix samples, are left to the general way.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from weakref import ReferenceType, WeakKeyDictionary, ref

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import vmap
from torch.utils.hooks import RemovableHandle

from taskfree import batch
from taskfree.batch import Batch
from taskfree.undo import unchanged

Sums: TypeAlias = dict[str, Tensor]
Call: TypeAlias = tuple[Tensor, Tensor]
"""What a layer was given in one call, and the gradient that came back to its output."""

CHUNK = 2**24
"""How many numbers may be held at a time beside the sums, where a layer allows it."""
VECTORS = 2**22
"""How many numbers of a linear layer's inputs and deltas are collected for one matrix product."""


# The forms: each adds sign * sum_k |gradient_k| of one layer to `sums`, by parameter name.


def _add(total: Tensor, gradients: Tensor, sign: float) -> None:
    """Add the absolute values of per-sample gradients, samples first."""
    total.add_(gradients.abs().sum(0, dtype=total.dtype), alpha=sign)


def _sum(gradients: list[Tensor]) -> Tensor:
    """A layer that is called several times adds its gradients up before the absolute value."""
    return gradients[0] if len(gradients) == 1 else torch.stack(gradients).sum(0)


def _linear(layer: nn.Linear, calls: list[Call], sums: Sums, sign: float) -> None:
    if len(calls) == 1 and calls[0][0].dim() == 2:  # one vector a sample: one matrix product
        a, delta = (part.abs() for part in calls[0])
        if "weight" in sums:
            total = sums["weight"]
            total.addmm_(delta.T.to(total.dtype), a.to(total.dtype), alpha=sign)
        if "bias" in sums:
            sums["bias"].add_(delta.sum(0, dtype=sums["bias"].dtype), alpha=sign)
        return
    a = torch.cat([_positions(a) for a, _ in calls], dim=1)
    delta = torch.cat([_positions(delta) for _, delta in calls], dim=1)
    if "bias" in sums:
        _add(sums["bias"], delta.sum(1), sign)
    if "weight" in sums:
        for rows in _chunks(len(a), layer.weight.numel()):
            _add(sums["weight"], torch.bmm(delta[rows].transpose(1, 2), a[rows]), sign)


def _conv(layer: Any, calls: list[Call], sums: Sums, sign: float) -> None:
    if "bias" in sums:
        _add(sums["bias"], _sum([delta.flatten(2).sum(2) for _, delta in calls]), sign)
    if "weight" not in sums:
        return
    padding = layer.padding
    if isinstance(padding, str) or layer.padding_mode != "zeros":
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        sides = layer._reversed_padding_repeated_twice
        calls = [(F.pad(a, sides, mode=mode), delta) for a, delta in calls]
        padding = [0] * len(layer.stride)
    still = [0] * len(layer.stride)
    for index in range(len(calls[0][0])):  # one sample at a time: memory stays flat
        gradient: Tensor | None = None
        for a, delta in calls:
            one = torch.ops.aten.convolution_backward(
                delta[index : index + 1], a[index : index + 1], layer.weight.detach(), None,
                layer.stride, padding, layer.dilation, False, still, layer.groups,
                (False, True, False),
            )[1]  # fmt: skip
            gradient = one if gradient is None else gradient + one
        if gradient is not None:
            sums["weight"].add_(gradient.abs_(), alpha=sign)


def _channels(normal: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
    """Per-sample gradients of a scale and a shift of each channel, the second dimension."""
    return (delta * normal).flatten(2).sum(2), delta.flatten(2).sum(2)


def _batch_norm(layer: Any, calls: list[Call], sums: Sums, sign: float) -> None:
    def normal(a: Tensor) -> Tensor:
        return F.batch_norm(a, layer.running_mean, layer.running_var, eps=layer.eps)

    _scale_and_shift([_channels(*_wide(normal(a), delta)) for a, delta in calls], sums, sign)


def _group_norm(layer: nn.GroupNorm, calls: list[Call], sums: Sums, sign: float) -> None:
    def normal(a: Tensor) -> Tensor:
        return F.group_norm(a, layer.num_groups, eps=layer.eps)

    _scale_and_shift([_channels(*_wide(normal(a), delta)) for a, delta in calls], sums, sign)


def _layer_norm(layer: Any, calls: list[Call], sums: Sums, sign: float) -> None:
    shape = tuple(layer.normalized_shape)
    norm = F.rms_norm if isinstance(layer, nn.RMSNorm) else F.layer_norm
    grads = []
    for a, delta in calls:
        positions = tuple(range(1, a.dim() - len(shape)))
        moved, shift = delta * norm(a, shape, eps=layer.eps), delta
        grads.append((moved.sum(positions), shift.sum(positions)) if positions else (moved, shift))
    _scale_and_shift(grads, sums, sign)


def _scale_and_shift(grads: list[tuple[Tensor, Tensor]], sums: Sums, sign: float) -> None:
    for name, found in zip(("weight", "bias"), zip(*grads, strict=True), strict=True):
        if name in sums:
            _add(sums[name], _sum(list(found)), sign)


def _embedding(layer: nn.Embedding, calls: list[Call], sums: Sums, sign: float) -> None:
    words = torch.cat([a.reshape(len(a), -1) for a, _ in calls], dim=1)
    delta = torch.cat([_positions(delta) for _, delta in calls], dim=1)
    if layer.padding_idx is not None:
        delta = delta * (words != layer.padding_idx).unsqueeze(-1)
    sample = torch.arange(len(words), device=words.device).unsqueeze(1)
    found, place = torch.unique(sample * layer.num_embeddings + words, return_inverse=True)
    each = delta.new_zeros(len(found), delta.shape[-1])
    each.index_add_(0, place.flatten(), delta.flatten(0, 1))
    each = each.abs_().to(sums["weight"].dtype)
    sums["weight"].index_add_(0, found % layer.num_embeddings, each, alpha=sign)


def _positions(x: Tensor) -> Tensor:
    """Samples, positions, features: a vector a sample is one position."""
    return x.reshape(len(x), -1, x.shape[-1])


def _wide(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Give vectors a third dimension, so that there are always positions to add up."""
    if first.dim() > 2:
        return first, second
    return first.unsqueeze(-1), second.unsqueeze(-1)


def _chunks(samples: int, numbers: int) -> Iterator[slice]:
    """Parts of the samples whose gradients of `numbers` each stay below CHUNK numbers."""
    size = max(1, CHUNK // max(1, numbers))
    for start in range(0, samples, size):
        yield slice(start, start + size)


Form: TypeAlias = Callable[[Any, list[Call], Sums, float], None]
FORMS: dict[type[nn.Module], Form] = {
    nn.Linear: _linear,
    nn.Conv1d: _conv,
    nn.Conv2d: _conv,
    nn.Conv3d: _conv,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.BatchNorm3d: _batch_norm,
    nn.GroupNorm: _group_norm,
    nn.LayerNorm: _layer_norm,
    nn.RMSNorm: _layer_norm,
    nn.Embedding: _embedding,
}


# The pass

Slopes: TypeAlias = Callable[[list[Tensor]], list[Tensor]]
"""The derivative of f with respect to each of the model's outputs."""


@dataclass
class Layer:
    """A layer with a closed form, and what a pass has seen of it."""

    module: ReferenceType[nn.Module]
    form: Form
    parameters: dict[str, str]
    """From a parameter's name in the layer to its name in the model."""
    seen: list[tuple[Tensor, int, GradientEdge]] = field(default_factory=list)
    """Each call's input, the version it had, and the place of its output in the graph."""
    vectors: list[Call] = field(default_factory=list)
    """Calls with one vector a sample, collected over several passes for one matrix product."""

    def watch(self) -> RemovableHandle:
        """Keep what the layer is given from now on, until the handle is removed."""
        self.seen = []
        return self._module().register_forward_hook(self._keep)

    def _keep(self, _: nn.Module, given: tuple[Any, ...], out: Any) -> None:
        a = given[0] if given else None
        if isinstance(a, Tensor) and isinstance(out, Tensor) and out.requires_grad:
            self.seen.append((a.detach(), a._version, get_gradient_edge(out)))

    def _module(self) -> nn.Module:
        module = self.module()
        if module is None:
            raise RuntimeError("a layer of the model is gone")
        return module

    def add(self, calls: list[Call], sums: Sums, sign: float = 1.0) -> None:
        """Add the sum of the samples' absolute gradients in one pass."""
        own = {short: sums[name] for short, name in self.parameters.items() if name in sums}
        if calls and own:
            self.form(self._module(), calls, own, sign)

    def collect(self, calls: list[Call], sums: Sums) -> None:
        """The same, but put off the matrix product of a linear layer: it costs a pass over it."""
        if self.form is _linear and len(calls) == 1 and calls[0][0].dim() == 2:
            self.vectors.append(calls[0])
            if sum(a.numel() + delta.numel() for a, delta in self.vectors) > VECTORS:
                self.flush(sums)
        else:
            self.add(calls, sums)

    def flush(self, sums: Sums) -> None:
        """Add what was put off."""
        if len(self.vectors) > 1:
            a, delta = (torch.cat(columns) for columns in zip(*self.vectors, strict=True))
            self.vectors = [(a, delta)]
        self.add(self.vectors, sums)
        self.vectors = []


def _layers(model: nn.Module, names: Collection[str]) -> Iterator[Layer]:
    """Every layer of a type with a closed form that has one of these parameters."""
    for prefix, module in model.named_modules():
        form = next((form for kind, form in FORMS.items() if isinstance(module, kind)), None)
        own = {short: f"{prefix}.{short}".lstrip(".") for short in module._parameters}
        own = {short: name for short, name in own.items() if name in names}
        if form is not None and own:
            yield Layer(ref(module), form, own)


def _run(model: nn.Module, rows: Batch, slopes: Slopes, layers: list[Layer]) -> list[list[Call]]:
    """A forward pass, and a backward pass to the layers' outputs: what each layer's calls saw."""
    handles = [layer.watch() for layer in layers]
    try:
        with torch.enable_grad():
            outputs = [part for part in batch.parts(batch.call(model, rows)) if part.requires_grad]
    finally:
        for handle in handles:
            handle.remove()
    edges = [edge for layer in layers for _, _, edge in layer.seen]
    with torch.no_grad():
        ahead = slopes([part.detach() for part in outputs])
    deltas = iter(torch.autograd.grad(outputs, edges, ahead, allow_unused=True) if edges else ())
    calls: list[list[Call]] = []
    for layer in layers:
        found = [
            (given, given._version == version, next(deltas)) for given, version, _ in layer.seen
        ]
        layer.seen = []
        if not all(unchanged for _, unchanged, _ in found):
            raise RuntimeError("a layer's input was changed in place after it was used")
        calls.append([(given, delta) for given, _, delta in found if delta is not None])
    return calls


def sums(model: nn.Module, parameters: Mapping[str, Tensor], inputs: Batch, slopes: Slopes) -> Sums:
    """sum_k |d f(x_k) / d theta| of those parameters that have a trusted closed form.

    The model must be in eval mode. Parameters that are left out go the general way.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.PReLU()).eval()
    >>> double = lambda outputs: [2 * part for part in outputs]
    >>> list(sums(model, dict(model.named_parameters()), torch.ones(3, 2), double))
    ['0.weight', '0.bias']
    """
    plan = _plan(model, parameters, inputs, slopes)
    total = {name: _zeros(parameters[name]) for name in plan.parameters}
    for layer in plan.layers:
        layer.vectors = []
    try:
        for start in range(0, batch.rows(inputs) if total else 0, plan.rows):
            rows = batch.take(inputs, slice(start, start + plan.rows))
            seen = _run(model, rows, slopes, plan.layers)
            count = batch.rows(rows)
            for layer, calls in zip(plan.layers, seen, strict=True):
                if any(len(given) != count for given, _ in calls):
                    raise RuntimeError("a layer was not given one row a sample")
                layer.collect(calls, total)
        for layer in plan.layers:
            layer.flush(total)
    except RuntimeError:  # the model does not do what it did when it was tried
        return {}
    return total


def _zeros(value: Tensor) -> Tensor:
    """Something to add up in, in single precision at least."""
    return torch.zeros_like(value, dtype=torch.promote_types(value.dtype, torch.float32))


# Trust


@dataclass(frozen=True)
class Plan:
    """The layers whose forms agreed with autograd, their parameters, and the rows for one pass."""

    layers: list[Layer]
    parameters: tuple[str, ...]
    rows: int


_plans: WeakKeyDictionary[nn.Module, tuple[Any, Plan]] = WeakKeyDictionary()


def _plan(
    model: nn.Module, parameters: Mapping[str, Tensor], inputs: Batch, slopes: Slopes
) -> Plan:
    """The plan for a model and inputs of this kind, tried out once."""
    key = ([*map(id, parameters.values())], [*parameters], batch.kind(inputs), slopes)
    known, plan = _plans.get(model, (None, None))
    if plan is None or known != key:
        plan, sure = _try(model, parameters, inputs, slopes)
        if sure:
            _plans[model] = key, plan
    return plan


def _try(
    model: nn.Module, parameters: Mapping[str, Tensor], inputs: Batch, slopes: Slopes
) -> tuple[Plan, bool]:
    """Compare the forms with autograd on one sample that runs beside another.

    The second answer is whether there was something to compare: at a gradient of zero there is not.
    """
    pair, one = (batch.take(inputs, slice(0, count)) for count in (2, 1))
    layers = list(_layers(model, parameters))
    nothing = Plan([], (), 1)
    try:
        seen = _run(model, pair, slopes, layers)
        if batch.rows(pair) == 2 and not _same_alone(model, pair):
            return nothing, True
    except RuntimeError:
        return nothing, True
    with torch.enable_grad():
        alone = [part for part in batch.parts(batch.call(model, one)) if part.requires_grad]
    ahead = slopes([part.detach() for part in alone])
    trusted: list[Layer] = []
    agreed: list[str] = []
    sure, numbers = True, 0
    for layer, calls in zip(layers, seen, strict=True):
        if not calls or any(len(given) != batch.rows(pair) for given, _ in calls):
            continue
        values = [parameters[name] for name in layer.parameters.values()]
        found = torch.autograd.grad(alone, values, ahead, retain_graph=True, allow_unused=True)
        rest = {
            name: torch.zeros_like(value) if gradient is None else gradient.to_dense().abs_()
            for name, value, gradient in zip(layer.parameters.values(), values, found, strict=True)
        }
        largest = {name: float(value.max()) for name, value in rest.items()}
        try:
            layer.add([(given[:1], delta[:1]) for given, delta in calls], rest, sign=-1.0)
        except (RuntimeError, IndexError):  # not given what the form is for
            continue
        sure = sure and all(value > 0 for value in largest.values())
        right = [
            name
            for name, value in rest.items()
            if 0 < largest[name] >= float(value.abs().max()) / torch.finfo(value.dtype).eps ** 0.5
        ]
        agreed += right
        trusted += [layer] if right else []
        numbers += sum(given[0].numel() + 2 * delta[0].numel() for given, delta in calls)
    rows = max(8, CHUNK // max(1, numbers))
    return Plan(trusted, tuple(agreed), rows), sure


def _same_alone(model: nn.Module, pair: Batch) -> bool:
    """Whether two samples give together what each gives alone, and the same code runs for both.

    Code that depends on the data does not go through vmap, which raises a RuntimeError.
    """

    def alone(row: Batch) -> list[Tensor]:
        one = batch.apply(lambda column: column.unsqueeze(0), row)
        return [part[0] for part in batch.parts(batch.call(model, one))]

    with torch.no_grad(), vectorising(model):
        together, each = batch.parts(batch.call(model, pair)), vmap(alone)(pair)
    return all(map(_close, together, each))


def _close(first: Tensor, second: Tensor) -> bool:
    tolerance = torch.finfo(first.dtype).eps ** 0.5
    return first.shape == second.shape and torch.allclose(
        first, second, rtol=tolerance, atol=tolerance * float(first.abs().max())
    )


@contextmanager
def vectorising(model: nn.Module) -> Iterator[None]:
    """Run a model in vmap: what it keeps for itself stays out of it, and so do vmap's warnings."""
    with warnings.catch_warnings(), unchanged(model):
        warnings.filterwarnings("ignore", message="There is a performance drop")
        yield
