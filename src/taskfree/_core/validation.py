"""Argument checks. Each error names the argument, the value it got, and what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

from torch import is_inference_mode_enabled, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from taskfree._core import batch
from taskfree._core.batch import Batch

Choice = TypeVar("Choice")


def integer(name: str, value: Any, least: int) -> int:
    """Check that `value` is an integer of at least `least`.

    >>> integer("capacity", 2.5, 1)
    Traceback (most recent call last):
    ...
    TypeError: capacity must be an integer of at least 1, got 2.5
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer of at least {least}, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value}")
    return int(value)


def number(
    name: str, value: Any, *, least: float = -math.inf, above: float = -math.inf, hint: str = ""
) -> float:
    """Check that `value` is a number in range and not nan. With `least`, it must also be finite.

    >>> number("strength", -1, least=0, hint="0 switches the penalty off")
    Traceback (most recent call last):
    ...
    ValueError: strength must be finite and at least 0, got -1; 0 switches the penalty off
    """
    if least > -math.inf:
        wanted = f"finite and at least {least:g}"
    else:
        wanted = "a number" if above == -math.inf else f"above {above:g}"
    message = f"{name} must be {wanted}, got {value!r}" + (f"; {hint}" if hint else "")
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(message)
    found = float(value)
    if not (least <= found < math.inf if least > -math.inf else found > above):
        raise ValueError(message)
    return found


def fraction(name: str, value: Any) -> float:
    """Check that `value` is above 0 and at most 1.

    >>> fraction("score", 7)
    Traceback (most recent call last):
    ...
    ValueError: score must be above 0 and at most 1, got 7
    """
    if not 0 < number(name, value) <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, got {value!r}")
    return float(value)


def choice(name: str, value: Any, choices: tuple[Choice, ...]) -> Choice:
    """Check that `value` is one of the named choices.

    >>> choice("accumulate", "average", ("mean", "decay"))
    Traceback (most recent call last):
    ...
    ValueError: accumulate must be 'mean' or 'decay', got 'average'
    """
    if value not in choices:
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}")
    return choices[choices.index(value)]


def learner(
    model: nn.Module, optimizer: Optimizer, loss: object, given: Mapping[str, object]
) -> None:
    """Raise if model, optimizer, loss and components do not make a learner."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"optimizer must be a torch.optim.Optimizer over the model's parameters, "
            f"got {type(optimizer).__name__}"
        )
    per_sample(loss)
    components(given)
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


def components(given: Mapping[str, object]) -> None:
    """Raise if `when`, `which` and `how` are not components of that kind."""
    for name, component in given.items():
        method = {"when": "update", "which": "join", "how": "consolidate"}[name]
        parts = component if isinstance(component, list) and name == "how" else [component]
        fits = all(hasattr(part, method) and not isinstance(part, type | str) for part in parts)
        if not (component is None or component == "auto" or (fits and parts)):
            raise TypeError(
                f"{name} must be 'auto', None or an object of taskfree.{name}"
                f"{' or a list of them' if name == 'how' else ''}, got {component!r}; "
                f"taskfree.{name} lists them"
            )


def per_sample(loss: object) -> None:
    """Raise if a loss cannot return one value per sample."""
    if not callable(loss):
        raise TypeError(f"loss must be a function of outputs and targets, got {loss!r}")
    reduction = getattr(loss, "reduction", "none")
    if reduction != "none":
        raise ValueError(
            f"loss must return one value per sample, got {loss} with reduction={reduction!r}; "
            "make it with reduction='none'"
        )


def samples(inputs: Batch, targets: Batch) -> int:
    """Check that inputs and targets are batches of equally many samples; return how many.

    >>> import torch
    >>> samples(torch.zeros(4, 2), torch.zeros(3))
    Traceback (most recent call last):
    ...
    ValueError: inputs has 4 rows and targets 3; both need one row per sample
    """
    if is_inference_mode_enabled():
        raise RuntimeError("learn needs gradients: call it outside of torch.inference_mode")
    count, labels = batch.check("inputs", inputs), batch.check("targets", targets)
    if count != labels:
        raise ValueError(
            f"inputs has {count} rows and targets {labels}; both need one row per sample"
        )
    return count
