"""The default networks of `taskfree learn`, and loading your own."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path

from torch import nn

__all__ = ["cnn", "load", "mlp"]


def mlp(inputs: int, outputs: int) -> nn.Module:
    """For tables: two hidden layers of 100 units.

    >>> sum(value.numel() for value in mlp(20, 2).parameters())
    12402
    """
    return nn.Sequential(
        nn.Linear(inputs, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, outputs)
    )


def cnn(inputs: int, outputs: int) -> nn.Module:
    """For images of any size with `inputs` channels: two convolutions, pooled to 4x4 places.

    >>> sum(value.numel() for value in cnn(3, 10).parameters())
    29642
    """
    return nn.Sequential(
        nn.Conv2d(inputs, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, outputs),
    )  # fmt: skip


def load(name: str) -> Callable[[int, int], nn.Module]:
    """Import a function that creates a network: `module:function`.

    It is called with the number of inputs (of channels, for images) and of outputs.
    """
    module, colon, function = name.partition(":")
    if not colon:
        raise ValueError(f"model must be module:function, got {name!r}")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        made = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"model {name!r} cannot be imported: {error}") from error
    if not callable(made) or len(inspect.signature(made).parameters) < 2:
        raise ValueError(f"model {name!r} must be a function of the number of inputs and outputs")
    return made  # type: ignore[no-any-return]  # it is the user's
