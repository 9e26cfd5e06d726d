"""Contracts: what every trigger, buffer and importance must hold to. Run them on your own.

>>> from taskfree import checks, when
>>> checks.check_trigger(lambda: when.Plateau(window=5, mean=0.2, variance=0.1))

A check answers nothing if all is well and raises an AssertionError that says what is not.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import ModuleType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn

from taskfree import batch, how, when, which
from taskfree.batch import Batch
from taskfree.how import Importance
from taskfree.when import Trigger
from taskfree.which import Buffer

__all__ = ["check_buffer", "check_importance", "check_trigger", "components"]


def _require(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _snapshot(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A copy of a state, which must be flat names to tensors."""
    for name, value in state.items():
        _require(
            isinstance(name, str) and isinstance(value, Tensor),
            f"state_dict must map names to tensors, got {name!r}: {type(value).__name__}",
        )
    return {name: value.clone() for name, value in state.items()}


def _same(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    """Whether two states are equal bit for bit, nan included."""
    return first.keys() == second.keys() and all(
        first[name].dtype == second[name].dtype
        and first[name].shape == second[name].shape
        and first[name].cpu().contiguous().view(-1).view(torch.uint8).equal(
            second[name].cpu().contiguous().view(-1).view(torch.uint8)
        )
        for name in first
    )  # fmt: skip


# Triggers


def _losses(count: int) -> list[float]:
    """Three descents with noise, each from a higher peak, with awkward values in between."""
    noise = torch.Generator().manual_seed(0)
    falls = [
        10 ** (index // (count // 3)) * math.exp(-(index % (count // 3)) / 8)
        for index in range(count)
    ]
    drawn = torch.rand(count, generator=noise, dtype=torch.float64).tolist()
    losses = [fall * (0.9 + 0.2 * wobble) for fall, wobble in zip(falls, drawn, strict=True)]
    losses[count // 2 : count // 2] = [0.0, 1e30, -1.0, 1e-30]
    return losses


def check_trigger(make: Callable[[], Trigger]) -> None:
    """Check a trigger; `make` gives a new one.

    >>> check_trigger(lambda: when.Every(3))
    """
    losses = _losses(300)
    trigger, twin = make(), make()
    sizes = []
    for index, loss in enumerate(losses):
        armed = trigger.armed
        attributes, before = vars(trigger).copy(), _snapshot(trigger.state_dict())
        decision = trigger.update(loss)
        if index % 37 == 0:
            _check_undo(trigger, attributes, before)
        _require(
            decision in (None, "plateau", "peak"),
            f"update must answer 'plateau', 'peak' or None, got {decision!r}",
        )
        _require(armed or decision != "plateau", "only an armed trigger may find a plateau")
        _require(trigger.armed or decision != "peak", "a peak must leave the trigger armed")
        _require(isinstance(trigger.window_mean, float), "window_mean must be a float")
        before = _snapshot(trigger.state_dict())
        text = trigger.explain(decision).text
        _require(bool(text) and "\n" not in text, "explain must give one sentence of text")
        _require(_same(before, trigger.state_dict()), "explain must not change the trigger")
        _require(decision == twin.update(loss), "two new triggers must decide alike")
        state = _snapshot(trigger.state_dict())
        sizes.append(sum(value.numel() for value in state.values()))
        if index % 37 == 0:
            _check_continuation(make, state, losses[index + 1 :], trigger)
    _require(
        max(sizes) == max(sizes[: len(sizes) // 2]),
        "a trigger's state must not grow with the stream",
    )


def _check_undo(part: object, attributes: dict[str, Any], before: dict[str, Tensor]) -> None:
    """What the learner does when a step fails: put a part's attributes back as they were."""
    now = vars(part).copy()
    vars(part).clear()
    vars(part).update(attributes)
    _require(
        _same(before, part.state_dict()),  # type: ignore[attr-defined]
        "attributes must be replaced, not changed in place, so that a failed step can be undone",
    )
    vars(part).update(now)


def _check_continuation(
    make: Callable[[], Trigger], state: dict[str, Tensor], rest: list[float], original: Trigger
) -> None:
    """Two triggers loaded from one state must go on alike, and the state must stay as it is."""
    before = _snapshot(state)
    loaded, again = make(), make()
    loaded.load_state_dict(state)
    _require(_same(loaded.state_dict(), state), "a loaded state must be what was saved")
    _require(loaded.armed == original.armed, "armed must be part of the state")
    again.load_state_dict(state)
    for loss in rest[:50]:
        _require(loaded.update(loss) == again.update(loss), "a loaded trigger must continue alike")
    _require(_same(before, state), "a trigger must not write to the state it was loaded from")


# Buffers


def _offer(step: int, samples: int, shape: str) -> tuple[Batch, Tensor]:
    """New samples whose inputs are their numbers, with targets that follow from them."""
    number = torch.arange(step * samples, (step + 1) * samples)
    return _inputs(number, shape), _target(number)


def _inputs(number: Tensor, shape: str) -> Batch:
    column = number.double().unsqueeze(1).expand(-1, 2).contiguous()
    whole: dict[str, Batch] = {
        "tensor": column,
        "tuple": (column, column[:, 0].float()),
        "dict": {"picture": column, "number": number},
    }
    return whole[shape]


def _target(number: Tensor) -> Tensor:
    return (number * 7919 % 13).div(5, rounding_mode="floor")


def _loss(number: Tensor, step: int) -> Tensor:
    """Fresh losses: they change with the step, and some are equal."""
    return ((number * 31 + step * 17) % 23).double()


def check_buffer(make: Callable[[], Buffer]) -> None:
    """Check a buffer; `make` gives a new, empty one.

    >>> check_buffer(lambda: which.Hardest(5))
    """
    for shape, samples in itertools.product(("tensor", "tuple", "dict"), (1, 4, 50)):
        buffer, twin = make(), make()
        _require(len(buffer) == 0, "a new buffer must be empty")
        for name in ("rescore", "balanced"):
            _require(isinstance(getattr(buffer, name, None), bool), f"{name} must be a bool")
        for step in range(12):
            for one in (buffer, twin):
                _update(one, step, samples, shape)
            _check_rows(buffer, (step + 1) * samples, step, shape)
            saved = _snapshot(buffer.state_dict())
            _require(_same(saved, twin.state_dict()), "two new buffers must choose alike")
            twin = make()
            twin.load_state_dict(saved)
            _require(_same(saved, twin.state_dict()), "a loaded state must be what was saved")
        _check_refusals(buffer, shape)


def _update(buffer: Buffer, step: int, samples: int, shape: str) -> None:
    inputs, targets = _offer(step, samples, shape)
    buffer.check(inputs, targets)
    before = _snapshot(buffer.state_dict())
    given = batch.tensors(batch.apply(Tensor.clone, inputs))
    joint_inputs, joint_targets = buffer.join(inputs, targets)
    _require(_same(before, buffer.state_dict()), "join must not change what is held")
    held = len(buffer)
    number = batch.tensors(joint_inputs)[0][:, 0].long()
    _require(
        number.shape[0] == held + samples == batch.rows(joint_targets)
        and all(map(torch.equal, given, (c[held:] for c in batch.tensors(joint_inputs))))
        and (not held or torch.equal(number[:held], _numbers(buffer))),
        "join must give the samples held, followed by the new ones",
    )
    for tensor in (*batch.tensors(inputs), targets):
        tensor.zero_()  # what was offered is the caller's: the buffer must have copied it
    losses = _loss(number, step)
    buffer.update(losses)
    losses.zero_()


def _numbers(buffer: Buffer) -> Tensor:
    return batch.tensors(buffer.inputs)[0][:, 0].long()


def _check_rows(buffer: Buffer, seen: int, step: int, shape: str) -> None:
    _require(0 < len(buffer) <= buffer.capacity, "a buffer must hold 1 to `capacity` samples")
    number = _numbers(buffer)
    _require(len(number) == len(buffer), "a buffer must hold as many inputs as it says")
    _require(len(set(number.tolist())) == len(number), "a buffer must not hold a sample twice")
    _require(int(number.max()) < seen, "a buffer must hold only what it was offered")
    expected = batch.tensors(_inputs(number, shape))
    _require(
        all(map(torch.equal, batch.tensors(buffer.inputs), expected)),
        "a buffer must keep the parts of an input together",
    )
    targets = buffer.targets
    _require(
        isinstance(targets, Tensor) and torch.equal(targets, _target(number)),
        "a buffer must keep inputs and targets together",
    )
    _require(
        torch.equal(buffer.losses, _loss(number, step)), "a buffer must take over the fresh losses"
    )


def _check_refusals(buffer: Buffer, shape: str) -> None:
    before = _snapshot(buffer.state_dict())
    inputs, targets = _offer(0, 3, shape)
    wider = batch.apply(lambda column: torch.stack([column, column], dim=1), inputs)
    other = batch.apply(lambda column: column.to(torch.int16), inputs)
    for wrong in (wider, other):
        try:
            buffer.check(wrong, targets)
        except ValueError:
            continue
        raise AssertionError("check must refuse samples of another shape or dtype by ValueError")
    _require(_same(before, buffer.state_dict()), "check must change nothing")


# Importance


def _network() -> nn.Module:
    """A small network with all that importance must leave alone: dropout, statistics, ice."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 2)
    ).double()
    model[0].bias.requires_grad_(False)
    return model


def check_importance(make: Callable[[], Importance]) -> None:
    """Check a way to keep knowledge; `make` gives a new one.

    >>> check_importance(lambda: how.MAS(strength=1.0))
    """
    random = torch.get_rng_state()
    try:
        _check_importance(make)
    finally:
        torch.set_rng_state(random)


def _check_importance(make: Callable[[], Importance]) -> None:
    model, importance = _network(), make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(8, 3, dtype=torch.float64)
    _require(not importance.importance, "importance must be empty before the first consolidation")
    model(x).square().sum().backward()
    before = _everything(model)
    importance.add_gradients(model)
    importance.pull_back(model, optimizer)
    _require(_same(before, _everything(model)), "before the first consolidation nothing is held")

    attributes, empty = vars(importance).copy(), _snapshot(importance.state_dict())
    importance.consolidate(model, x)
    _check_undo(importance, attributes, empty)
    _require(_same(before, _everything(model)), "consolidate must leave the model as it is")
    _require(all(module.training for module in model.modules()), "consolidate must keep the mode")
    _check_names(model, importance)
    saved = _snapshot(importance.state_dict())
    importance.add_gradients(model)
    importance.pull_back(model, optimizer)
    _require(_same(before, _everything(model)), "at the anchor there must be no pull")

    moved, distance = _pull(model, importance, optimizer)
    _require(0 <= moved < distance, "away from the anchor the pull must go back towards it")
    _require(_same(saved, importance.state_dict()), "only consolidate may change the state")

    twin_model, twin = _network(), make()
    twin.load_state_dict(saved)
    _require(_same(saved, twin.state_dict()), "a loaded state must be what was saved")
    twin_model.load_state_dict(model.state_dict())
    for one, network in ((importance, model), (twin, twin_model)):
        one.consolidate(network, x)
        _pull(network, one, torch.optim.SGD(network.parameters(), lr=0.01))
    _require(
        _same(importance.state_dict(), twin.state_dict())
        and _same(dict(model.named_parameters()), dict(twin_model.named_parameters())),
        "a loaded importance must continue alike",
    )
    saved = _snapshot(importance.state_dict())
    try:
        importance.consolidate(model, torch.full_like(x, math.nan))
    except ValueError:
        _require(_same(saved, importance.state_dict()), "what raises must change nothing")


def _check_names(model: nn.Module, importance: Importance) -> None:
    learning = {name: value for name, value in model.named_parameters() if value.requires_grad}
    for held in (importance.importance, importance.anchor):
        _require(
            held.keys() == learning.keys(), "every parameter that learns is held, frozen ones not"
        )
    for name, value in learning.items():
        omega, anchor = importance.importance[name], importance.anchor[name]
        _require(
            omega.shape == value.shape and omega.dtype == value.dtype,
            "importance must have the shape and dtype of its parameter",
        )
        _require(bool((omega >= 0).all() & omega.isfinite().all()), "importance must be 0 or more")
        _require(torch.equal(anchor, value), "the anchor must be the parameters' value")
        _require(anchor.data_ptr() != value.data_ptr(), "the anchor must be a copy")


def _pull(
    model: nn.Module, importance: Importance, optimizer: torch.optim.Optimizer
) -> tuple[float, float]:
    """How far the parameters are from the anchor after and before one step of the penalty alone."""
    held = [(value, name) for name, value in model.named_parameters() if value.requires_grad]

    @torch.no_grad()
    def distance() -> float:
        return sum(float((value - importance.anchor[name]).square().sum()) for value, name in held)

    with torch.no_grad():
        for value, _ in held:
            value.add_(0.1)
            value.grad = torch.zeros_like(value)
    before = distance()
    importance.add_gradients(model)
    optimizer.step()
    importance.pull_back(model, optimizer)
    return distance(), before


def _everything(model: nn.Module) -> dict[str, Tensor]:
    """A copy of a model's parameters, buffers and gradients, and of the random generator."""
    found = {"random": torch.get_rng_state(), **model.state_dict()}
    for name, value in model.named_parameters():
        if value.grad is not None:
            found[f"{name}.grad"] = value.grad
    return _snapshot(found)


# Every component of the package

_EXAMPLES: dict[str, Any] = {
    "capacity": 7, "mean": 0.5, "n": 4, "steps": (3, 250), "strength": 1.0, "variance": 0.1,
    "window": 5,
}  # fmt: skip


class Component(NamedTuple):
    """One component of the package with one choice of its options."""

    name: str
    check: Callable[[Callable[[], Any]], None]
    make: Callable[[], Any]


def components() -> list[Component]:
    """Every trigger, buffer and importance of the package, with every choice of its options.

    >>> sum(component.name.startswith("Hardest") for component in components())
    4
    """
    modules = ((when, check_trigger), (which, check_buffer), (how, check_importance))
    return [
        Component(f"{kind.__name__}({options})", check, partial(kind, **options))
        for module, check in modules
        for kind in _classes(module)
        for options in _choices(kind)
    ]


def _classes(module: ModuleType) -> Iterator[type]:
    for name in module.__all__:
        found = getattr(module, name)
        kept = inspect.isclass(found) and hasattr(found, "load_state_dict")
        if kept and not getattr(found, "_is_protocol", False):
            yield found


def _choices(kind: type) -> Iterator[dict[str, Any]]:
    """Arguments for a class: an example for what it needs, all values of what can be chosen."""
    hints = get_type_hints(kind.__init__)  # type: ignore[misc]
    options: dict[str, tuple[Any, ...]] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if get_origin(hints.get(name)) is Literal:
            options[name] = get_args(hints[name])
        elif hints.get(name) is bool:
            options[name] = (False, True)
        elif parameter.default is inspect.Parameter.empty:
            options[name] = (_EXAMPLES[name],)
    for values in itertools.product(*options.values()):
        yield dict(zip(options, values, strict=True))
