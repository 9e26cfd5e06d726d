"""The exact importance of common layers, for the price of one backward pass.

Samples do not mix in eval mode, so one backward pass to the layers' outputs gives the gradient of
every sample there. The rest follows layer by layer, in closed form.

A layer's closed form is used only after it agreed with autograd on a sample of the same signature.
Layers that get something other than one row per sample, whose weight is also used elsewhere, or
that mix samples, are left to the general way.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from weakref import ReferenceType, WeakKeyDictionary, ref

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import vmap
from torch.utils.hooks import RemovableHandle

from taskfree._core import batch
from taskfree._core.batch import Batch
from taskfree._core.rollback import preserved
from taskfree.how.importance.layers import FORMS, Call, Form, Sums, linear

PASS = 2**24
"""How many elements of activations and their gradients one pass holds; at least 8 samples'."""
VECTORS = 2**22
"""How many elements of inputs and deltas are collected for one matrix product."""

Slopes: TypeAlias = Callable[[list[Tensor]], list[Tensor]]
"""The derivative of f with respect to each of the model's outputs."""


@dataclass
class Layer:
    """A layer with a closed form, and its calls in a pass."""

    module: ReferenceType[nn.Module]
    form: Form
    parameters: dict[str, str]
    """From a parameter's name in the layer to its name in the model."""
    seen: list[tuple[Tensor, int, GradientEdge]] = field(default_factory=list)
    """Each call's input, its version, and its output's edge in the autograd graph."""
    vectors: list[Call] = field(default_factory=list)
    """Calls with one vector per sample, collected over several passes for one matrix product."""

    def watch(self) -> RemovableHandle:
        """Record the layer's inputs until the handle is removed."""
        self.seen = []
        return self._module().register_forward_hook(self._record)

    def _record(self, _: nn.Module, given: tuple[Any, ...], out: Any) -> None:
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
        """The same, with the matrix products of a linear layer postponed and merged."""
        if self.form is linear and len(calls) == 1 and calls[0][0].dim() == 2:
            self.vectors.append(calls[0])
            if sum(a.numel() + delta.numel() for a, delta in self.vectors) > VECTORS:
                self.flush(sums)
        else:
            self.add(calls, sums)

    def flush(self, sums: Sums) -> None:
        """Add the postponed calls."""
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
    """A forward pass, and a backward pass to the layers' outputs: the calls of each layer."""
    handles = [layer.watch() for layer in layers]
    try:
        with torch.enable_grad():
            outputs = [
                part for part in batch.output_tensors(batch.call(model, rows)) if part.requires_grad
            ]
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
    """sum_k |d f(x_k) / d theta| of the parameters with a trusted closed form.

    The model must be in eval mode. The other parameters are left to the general way.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.PReLU()).eval()
    >>> double = lambda outputs: [2 * part for part in outputs]
    >>> list(sums(model, dict(model.named_parameters()), torch.ones(3, 2), double))
    ['0.weight', '0.bias']
    """
    plan = _plan(model, parameters, inputs, slopes)
    total = {name: zeros(parameters[name]) for name in plan.parameters}
    for layer in plan.layers:
        layer.vectors = []
    try:
        for start in range(0, batch.rows(inputs) if total else 0, plan.rows):
            rows = batch.take(inputs, slice(start, start + plan.rows))
            seen = _run(model, rows, slopes, plan.layers)
            count = batch.rows(rows)
            for layer, calls in zip(plan.layers, seen, strict=True):
                if any(len(given) != count for given, _ in calls):
                    raise RuntimeError("a layer was not given one row per sample")
                layer.collect(calls, total)
        for layer in plan.layers:
            layer.flush(total)
    except RuntimeError:  # the model behaves differently than when it was tried
        return {}
    return total


def zeros(value: Tensor) -> Tensor:
    """An accumulator, in single precision at least.

    >>> zeros(torch.ones(2, dtype=torch.float16)).dtype
    torch.float32
    """
    return torch.zeros_like(value, dtype=torch.promote_types(value.dtype, torch.float32))


# Which closed forms to trust


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
    key = ([*map(id, parameters.values())], [*parameters], batch.signature(inputs), slopes)
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
        alone = [
            part for part in batch.output_tensors(batch.call(model, one)) if part.requires_grad
        ]
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
        except (RuntimeError, IndexError):  # the form does not fit the inputs
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
    rows = max(8, PASS // max(1, numbers))
    return Plan(trusted, tuple(agreed), rows), sure


def _same_alone(model: nn.Module, pair: Batch) -> bool:
    """Whether two samples give the same outputs together as alone, by the same code.

    Code that depends on the data raises a RuntimeError in vmap.
    """

    def alone(row: Batch) -> list[Tensor]:
        one = batch.apply(lambda column: column.unsqueeze(0), row)
        return [part[0] for part in batch.output_tensors(batch.call(model, one))]

    with torch.no_grad(), vectorising(model):
        together, each = batch.output_tensors(batch.call(model, pair)), vmap(alone)(pair)
    return all(map(_close, together, each))


def _close(first: Tensor, second: Tensor) -> bool:
    tolerance = torch.finfo(first.dtype).eps ** 0.5
    return first.shape == second.shape and torch.allclose(
        first, second, rtol=tolerance, atol=tolerance * float(first.abs().max())
    )


@contextmanager
def vectorising(model: nn.Module) -> Iterator[None]:
    """Run a model in vmap: its own state is preserved, and vmap's warnings are silenced."""
    with warnings.catch_warnings(), preserved(model):
        warnings.filterwarnings("ignore", message="There is a performance drop")
        yield
