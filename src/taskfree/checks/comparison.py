"""What the checks share: exact comparison of states, and undoing a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def require(condition: object, message: str) -> None:
    """Raise an AssertionError with this message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def snapshot(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A copy of a state, which must be a flat dict from names to tensors."""
    for name, value in state.items():
        require(
            isinstance(name, str) and isinstance(value, Tensor),
            f"state_dict must map names to tensors, got {name!r}: {type(value).__name__}",
        )
    return {name: value.clone() for name, value in state.items()}


def same(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    """Whether two states are equal bit for bit, including nan."""

    def bits(value: Tensor) -> Tensor:
        return value.cpu().contiguous().view(-1).view(torch.uint8)

    return first.keys() == second.keys() and all(
        first[name].dtype == second[name].dtype
        and first[name].shape == second[name].shape
        and bits(first[name]).equal(bits(second[name]))
        for name in first
    )


def check_undo(component: Any, attributes: dict[str, Any], before: dict[str, Tensor]) -> None:
    """Do what the learner does when a step fails: restore a component's attributes."""
    now = vars(component).copy()
    vars(component).clear()
    vars(component).update(attributes)
    require(
        same(before, component.state_dict()),
        "attributes must be replaced, not changed in place, so that a failed step can be undone",
    )
    vars(component).update(now)
