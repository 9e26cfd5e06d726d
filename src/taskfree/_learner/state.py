"""Saving and loading all that the continuation of a learner depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from taskfree._core.distributed import Processes
from taskfree._core.random_state import load_torch_state, torch_state
from taskfree._core.serialization import add_prefix, pack, take_prefix, unpack
from taskfree._learner.objective import learned_tensors

COMPONENTS = ("when", "which", "how", "_serving")
"""The attributes of a learner that have a state."""


def save(learner: Any, processes: Processes) -> dict[str, Tensor]:
    """The state as a flat dict from names to tensors."""
    state = {
        "step": torch.tensor(learner.step),
        "parts": torch.tensor([learner.which is not None, learner.how is not None]),
        **add_prefix("model", learned_tensors(learner.model, learner.optimizer, learner.loss)),
        **add_prefix("optimizer", pack(learner.optimizer.state_dict())),
    }
    for name, own in torch_state(next(learner.model.parameters()).device).items():
        for rank, value in enumerate(processes.stack(own)):
            state[f"random.{rank}.{name}"] = value
    for name in COMPONENTS:
        if (component := getattr(learner, name)) is not None:
            state |= add_prefix(name.lstrip("_"), component.state_dict())
    return state


def load(learner: Any, processes: Processes, state: Mapping[str, Tensor]) -> None:
    """Load a state. What raises may leave the learner half loaded."""
    saved = take_prefix("model", state)
    own = learned_tensors(learner.model, learner.optimizer, learner.loss)
    _check_tensors(saved, own)
    name = ""
    try:
        step = int(state["step"])
        _check_parts(learner, state["parts"].tolist())
        with torch.no_grad():
            for key, tensor in own.items():
                tensor.copy_(saved[key])
        name = "optimizer"
        load_optimizer(learner.optimizer, unpack(take_prefix(name, state)))
        device = next(learner.model.parameters()).device
        for attribute in COMPONENTS:
            name = attribute.lstrip("_")
            if (component := getattr(learner, attribute)) is not None:
                moved = {key: value.to(device) for key, value in take_prefix(name, state).items()}
                component.load_state_dict(moved)
        name = f"random.{processes.rank}"
        random = take_prefix(name, state)
        if random or processes.size == 1:  # a rank that was not saved keeps its generators
            load_torch_state(random)
        learner.step = step
    except KeyError as error:
        missing = f"{name}.{error.args[0]}".lstrip(".")
        raise ValueError(f"the saved state lacks {missing!r}") from error


def _check_tensors(saved: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    for name in saved.keys() | own.keys():
        there, here = (_described(found.get(name)) for found in (saved, own))
        if there != here:
            raise ValueError(
                f"the saved state has {there} for {name!r} and this learner has {here}; "
                "load it into a learner with the model it was saved from"
            )


def _described(tensor: Tensor | None) -> str:
    return "nothing" if tensor is None else f"{tensor.dtype} {list(tensor.shape)}"


def _check_parts(learner: Any, saved: list[bool]) -> None:
    for name, there in zip(("which", "how"), saved, strict=True):
        if there != (getattr(learner, name) is not None):
            raise ValueError(
                f"the state was saved {'with' if there else 'without'} a component for "
                f"{name!r}, unlike this learner; make it of the same components"
            )


def load_optimizer(optimizer: Optimizer, saved: Mapping[str, Any]) -> None:
    """Load an optimizer's state exactly: as copies, in the dtypes in which it was saved.

    `Optimizer.load_state_dict` shares tensors with the saved state and casts them to the
    parameter's dtype.

    >>> weight = torch.nn.Parameter(torch.ones(2))
    >>> optimizer = torch.optim.SGD([weight], lr=0.1)
    >>> load_optimizer(optimizer, optimizer.state_dict())
    """
    optimizer.load_state_dict(dict(saved))

    def exact(there: Any, here: Any) -> Any:
        if isinstance(there, Tensor):
            return there.to(here.device, copy=True)
        if isinstance(there, dict):
            return {key: exact(value, here[key]) for key, value in there.items()}
        if isinstance(there, list | tuple):
            return type(there)(map(exact, there, here))
        return there

    parameters = [value for group in optimizer.param_groups for value in group["params"]]
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    for number, value in zip(numbers, parameters, strict=True):
        if number in saved["state"]:
            optimizer.state[value] = exact(saved["state"][number], optimizer.state[value])
