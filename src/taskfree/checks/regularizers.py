"""The contract of a regularizer."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

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
    regularizer.add_penalty_gradients(model)
    regularizer.proximal_step(model, optimizer)
    require(same(before, _everything(model)), "before the first consolidation nothing is held")

    attributes, empty = vars(regularizer).copy(), snapshot(regularizer.state_dict())
    regularizer.consolidate(model, x)
    check_undo(regularizer, attributes, empty)
    require(same(before, _everything(model)), "consolidate must leave the model as it is")
    require(all(module.training for module in model.modules()), "consolidate must keep the mode")
    _check_names(model, regularizer)
    saved = snapshot(regularizer.state_dict())
    regularizer.add_penalty_gradients(model)
    regularizer.proximal_step(model, optimizer)
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
    saved = snapshot(regularizer.state_dict())
    try:
        regularizer.consolidate(model, torch.full_like(x, math.nan))
    except ValueError:
        require(same(saved, regularizer.state_dict()), "what raises must change nothing")


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
    regularizer.add_penalty_gradients(model)
    optimizer.step()
    regularizer.proximal_step(model, optimizer)
    return distance(), before


def _everything(model: nn.Module) -> dict[str, Tensor]:
    """A copy of a model's parameters, buffers and gradients, and of the random generator."""
    found = {"random": torch.get_rng_state(), **model.state_dict()}
    for name, value in model.named_parameters():
        if value.grad is not None:
            found[f"{name}.grad"] = value.grad
    return snapshot(found)
