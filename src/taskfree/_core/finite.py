"""Keeping nan and inf out: gradients and parameters are checked before they can do harm."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from taskfree._core.errors import NotFiniteError
from taskfree._core.model import trainable

LARGE = 2**18
"""Gradients with at least this many elements are checked one by one, smaller ones in one call."""


def step_is_safe(optimizer: Optimizer, loss: float) -> bool:
    """Whether a step cannot overflow. If False, check the parameters after the step.

    Raises if a gradient is nan or inf, which can happen although the losses are finite: at the
    square root of 0, for example.

    >>> model = nn.Linear(1, 1)
    >>> model(torch.ones(1, 1)).sum().backward()
    >>> step_is_safe(torch.optim.SGD(model.parameters(), lr=0.1), loss=0.7)
    True
    >>> step_is_safe(torch.optim.SGD(model.parameters(), lr=1e30), loss=0.7)
    False
    """
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"]]
    dense = [g._values() if g.is_sparse else g for g in gradients if g is not None]
    if not dense:
        return True
    if not all_finite(dense):
        raise NotFiniteError(
            "gradients are nan or inf although the losses are finite; nothing was learned: "
            "look for a root, a norm or a logarithm of 0 in model and loss or, if the loss has "
            "been rising, lower the learning rate"
        )
    rate = max(float(group["lr"]) for group in optimizer.param_groups)
    return rate < 1e6 and abs(loss) < 1e15 and torch.finfo(dense[0].dtype).max > 1e30


def parameters_are_finite(model: nn.Module) -> bool:
    """Whether every trainable parameter is finite.

    >>> parameters_are_finite(nn.Linear(2, 2))
    True
    """
    return all(bool(value.isfinite().all()) for value in trainable(model).values())


def check_parameters(model: nn.Module) -> None:
    """Raise if a step made parameters nan or inf."""
    if not parameters_are_finite(model):
        raise NotFiniteError(
            "this step would have made parameters nan or inf; nothing was learned: "
            "learning diverges, lower the learning rate"
        )


def all_finite(gradients: list[Tensor]) -> bool:
    """Whether all gradients are finite, in one pass over them.

    >>> all_finite([torch.ones(3), torch.tensor([1.0, torch.inf])])
    False
    """
    # nan and inf survive a sum, which only reads; a sum may also overflow, hence "suspects"
    suspects = [g for g in gradients if g.numel() < LARGE or not math.isfinite(g.sum().item())]
    if not suspects:
        return True
    found, one = _flag(suspects[0].device)
    try:  # the kernel of the mixed-precision scaler; a scale of 1 changes nothing
        torch._amp_foreach_non_finite_check_and_unscale_(suspects, found, one)
    except RuntimeError:  # on several devices, for example
        return all(bool(gradient.isfinite().all()) for gradient in suspects)
    if found.item():
        _flag.cache_clear()
        return False
    return True


@lru_cache(maxsize=4)
def _flag(device: torch.device) -> tuple[Tensor, Tensor]:
    """A zero that becomes one if something is not finite, and a scale of one."""
    return torch.zeros(1, device=device), torch.ones(1, device=device)
