"""Checks of arguments, whose errors name the argument, what came and what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer


def whole(name: str, value: Any, least: int) -> int:
    """Check that `value` is a whole number of at least `least`.

    >>> whole("capacity", 2.5, 1)
    Traceback (most recent call last):
    ...
    TypeError: capacity must be a whole number of at least 1, got 2.5
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number of at least {least}, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value}")
    return int(value)


def number(
    name: str, value: Any, *, least: float = -math.inf, above: float = -math.inf, hint: str = ""
) -> float:
    """Check that `value` is a number in range, and not nan. With `least`, it must be finite too.

    >>> number("strength", -1, least=0, hint="0 switches the penalty off")
    Traceback (most recent call last):
    ...
    ValueError: strength must be finite and at least 0, got -1; 0 switches the penalty off
    """
    if least > -math.inf:
        wanted = f"finite and at least {least:g}"
    else:
        wanted = "a number" if above == -math.inf else f"above {above:g}"
    told = f"{name} must be {wanted}, got {value!r}" + (f"; {hint}" if hint else "")
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(told)
    found = float(value)
    if not (least <= found < math.inf if least > -math.inf else found > above):
        raise ValueError(told)
    return found


def share(name: str, value: Any) -> float:
    """Check that `value` lies between 0, which it may not be, and 1.

    >>> share("score", 7)
    Traceback (most recent call last):
    ...
    ValueError: score must be above 0 and at most 1, got 7
    """
    if not 0 < number(name, value) <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, got {value!r}")
    return float(value)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Check that `value` is one of the named choices.

    >>> one_of("accumulate", "average", ("mean", "decay"))
    Traceback (most recent call last):
    ...
    ValueError: accumulate must be 'mean' or 'decay', got 'average'
    """
    if value not in choices:
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}")
    return str(value)


def learner(
    model: nn.Module, optimizer: Optimizer, loss: object, parts: Mapping[str, object]
) -> None:
    """Raise if model, optimizer and loss do not make a learner."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"optimizer must be a torch.optim.Optimizer over the model's parameters, "
            f"got {type(optimizer).__name__}"
        )
    per_sample(loss)
    components(parts)
    for value in (*model.parameters(), *model.buffers()):
        if is_lazy(value):
            raise ValueError(
                "model has parameters whose shape is not known yet; run it once on some inputs "
                "and make the optimizer after that"
            )
    optimized = {value for group in optimizer.param_groups for value in group["params"]}
    for value in optimized:
        if not value.is_floating_point():
            raise TypeError(
                f"optimizer holds a parameter of {value.dtype}, shape {list(value.shape)}; only "
                "floating point parameters can be learned: leave it out, or register it as a buffer"
            )
    if not any(value in optimized for value in model.parameters() if value.requires_grad):
        raise ValueError(
            "optimizer holds none of the model's trainable parameters; "
            "make it from model.parameters()"
        )


def components(parts: Mapping[str, object]) -> None:
    """Raise if when, which and how are not such parts."""
    for name, given in parts.items():
        wanted = {"when": "update", "which": "join", "how": "consolidate"}[name]
        if (
            given is not None
            and given is not ...
            and (isinstance(given, type) or not hasattr(given, wanted))
        ):
            raise TypeError(
                f"{name} must be None or an object of taskfree.{name}, got {given!r}; "
                f"taskfree.{name} lists them"
            )


def per_sample(loss: object) -> None:
    """Raise if a loss is plainly not one of every sample."""
    if not callable(loss):
        raise TypeError(f"loss must be a function of outputs and targets, got {loss!r}")
    reduction = getattr(loss, "reduction", "none")
    if reduction != "none":
        raise ValueError(
            f"loss must return one value a sample, got {loss} with reduction={reduction!r}; "
            "make it with reduction='none'"
        )
