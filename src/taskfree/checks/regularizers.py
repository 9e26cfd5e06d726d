"""The contract of a regularizer."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from taskfree._core.batch import Recalled
from taskfree.checks.comparison import check_undo, require, same, snapshot
from taskfree.how import Regularizer


def _network() -> nn.Module:
    """A small network with what must stay unchanged: dropout, statistics, frozen parameters."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 2)
    ).double()
    model[0].bias.requires_grad_(False)
    return model


def check_regularizer(make: Callable[[], Regularizer]) -> None:
    """Check a regularizer; `make` creates a new one.

    >>> from taskfree import how
    >>> check_regularizer(lambda: how.MAS(strength=1.0))
    """
    random = torch.get_rng_state()
    try:
        _check(make)
    finally:
        torch.set_rng_state(random)


def _check(make: Callable[[], Regularizer]) -> None:
    model, regularizer = _network(), make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(8, 3, dtype=torch.float64)
    require(not regularizer.importance, "importance must be empty before the first consolidation")
    model(x).square().sum().backward()
    before = _everything(model)
    attributes, empty = vars(regularizer).copy(), snapshot(regularizer.state_dict())
    regularizer.after_backward(model)
    regularizer.after_step(model, optimizer)
    require(same(before, _everything(model)), "before the first consolidation nothing is held")
    regularizer.consolidate(model, x)
    check_undo(regularizer, attributes, empty)
    regularizer.after_time_step(model, 0.7, 0.5)
    require(
        same(before, _everything(model)),
        "consolidate and after_time_step must leave the model as it is",
    )
    require(all(module.training for module in model.modules()), "consolidate must keep the mode")
    saved = snapshot(regularizer.state_dict())
    try:
        regularizer.consolidate(model, torch.full_like(x, math.nan))
    except ValueError:
        require(same(saved, regularizer.state_dict()), "what raises must change nothing")
    holds_parameters = bool(regularizer.importance)
    if holds_parameters:
        _check_parameters(make, model, regularizer, x)
    require(
        _check_outputs(make) or holds_parameters, "a regularizer must hold parameters or outputs"
    )


def _check_parameters(
    make: Callable[[], Regularizer], model: nn.Module, regularizer: Regularizer, x: Tensor
) -> None:
    """Check what a penalty on parameters does after a consolidation."""
    before, optimizer = _everything(model), torch.optim.SGD(model.parameters(), lr=0.01)
    _check_names(model, regularizer)
    saved = snapshot(regularizer.state_dict())
    regularizer.after_backward(model)
    regularizer.after_step(model, optimizer)
    require(same(before, _everything(model)), "at the anchor there must be no penalty")
    moved, distance = _penalize(model, regularizer, optimizer)
    require(0 <= moved < distance, "away from the anchor the penalty must go back towards it")
    require(same(saved, regularizer.state_dict()), "only consolidate may change the state")
    twin_model, twin = _network(), make()
    twin.load_state_dict(saved)
    require(same(saved, twin.state_dict()), "a loaded state must be what was saved")
    twin_model.load_state_dict(model.state_dict())
    for one, network in ((regularizer, model), (twin, twin_model)):
        one.consolidate(network, x)
        _penalize(network, one, torch.optim.SGD(network.parameters(), lr=0.01))
    require(
        same(regularizer.state_dict(), twin.state_dict())
        and same(dict(model.named_parameters()), dict(twin_model.named_parameters())),
        "a loaded regularizer must continue alike",
    )


def _check_outputs(make: Callable[[], Regularizer]) -> bool:
    """Check what is done to the outputs of replayed samples; whether anything is."""
    regularizer, model, held = make(), _network(), False
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        twin = make()
        twin.load_state_dict(snapshot(regularizer.state_dict()))
        torch.manual_seed(0)
        outputs = torch.randn(8, 2, dtype=torch.float64)
        known = torch.randn(5, 2, dtype=torch.float64)
        ages = torch.tensor([1.0, 3.0, math.inf, 10.0, 2.0], dtype=torch.float64)
        pulls = [_pull(one, outputs, Recalled(5, 5, [known], ages))
                 for one in (regularizer, twin)]  # fmt: skip
        require(torch.equal(*pulls), "a loaded regularizer must continue alike")
        pull = pulls[0]
        require(not pull[5:].any(), "only the outputs of replayed samples are held")
        require(not pull[2].any(), "of what is not remembered nothing is held")
        require(
            bool((pull[:5] * (outputs[:5] - known) >= 0).all()),
            "outputs must be pulled towards what is remembered",
        )
        held = held or bool(pull.any())
        for one in (regularizer, twin):
            one.after_backward(model)
            one.after_step(model, optimizer)
            one.after_time_step(model, 0.7, 0.5)
        require(
            same(snapshot(regularizer.state_dict()), twin.state_dict()),
            "a loaded regularizer must continue alike",
        )
    return held


def _pull(regularizer: Regularizer, values: Tensor, recalled: Recalled) -> Tensor:
    """What a regularizer adds to the gradients of the outputs."""
    outputs = values.clone().requires_grad_()
    losses = outputs.square().sum(1)
    remembered = regularizer.before_backward(outputs, losses, recalled)
    if remembered is not None:
        require(
            [part.shape for part in remembered] == [(recalled.here, 2)]
            and not any(part.requires_grad for part in remembered),
            "what is to be remembered must be outputs of the replayed samples, without a graph",
        )
    losses.mean().backward()  # type: ignore[no-untyped-call]  # torch
    gradient = outputs.grad
    assert gradient is not None
    return gradient - 2 * values / len(values)


def _check_names(model: nn.Module, regularizer: Regularizer) -> None:
    learning = {name: value for name, value in model.named_parameters() if value.requires_grad}
    for held in (regularizer.importance, regularizer.anchor):
        require(
            held.keys() == learning.keys(), "every trainable parameter is held, frozen ones are not"
        )
    for name, value in learning.items():
        omega, anchor = regularizer.importance[name], regularizer.anchor[name]
        require(
            omega.shape == value.shape and omega.dtype == value.dtype,
            "importance must have the shape and dtype of its parameter",
        )
        require(bool((omega >= 0).all() & omega.isfinite().all()), "importance must be 0 or more")
        require(torch.equal(anchor, value), "the anchor must be the parameters' value")
        require(anchor.data_ptr() != value.data_ptr(), "the anchor must be a copy")


def _penalize(
    model: nn.Module, regularizer: Regularizer, optimizer: torch.optim.Optimizer
) -> tuple[float, float]:
    """How far the parameters are from the anchor after and before one step of the penalty alone."""
    held = [(value, name) for name, value in model.named_parameters() if value.requires_grad]

    @torch.no_grad()
    def distance() -> float:
        return sum(float((value - regularizer.anchor[name]).square().sum()) for value, name in held)

    with torch.no_grad():
        for value, _ in held:
            value.add_(0.1)
            value.grad = torch.zeros_like(value)
    before = distance()
    regularizer.after_backward(model)
    optimizer.step()
    regularizer.after_step(model, optimizer)
    return distance(), before


def _everything(model: nn.Module) -> dict[str, Tensor]:
    """A copy of a model's parameters, buffers and gradients, and of the random generator."""
    found = {"random": torch.get_rng_state(), **model.state_dict()}
    for name, value in model.named_parameters():
        if value.grad is not None:
            found[f"{name}.grad"] = value.grad
    return snapshot(found)
