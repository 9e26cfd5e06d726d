"""The state of the random generators: torch's for a step, all of them for a checkpoint."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def torch_state(device: torch.device) -> dict[str, Tensor]:
    """The state of torch's generators on the CPU and on one more device.

    >>> list(torch_state(torch.device("cpu")))
    ['cpu']
    """
    state = {"cpu": torch.get_rng_state()}
    if device.type not in ("cpu", "meta"):
        state[str(device)] = torch.get_device_module(device).get_rng_state(device)
    return state


def load_torch_state(state: Mapping[str, Tensor]) -> None:
    """Restore torch's generators. The generator of a device that is not available is skipped.

    >>> before = torch_state(torch.device("cpu"))
    >>> drawn = torch.rand(3)
    >>> load_torch_state(before)
    >>> torch.equal(torch.rand(3), drawn)
    True
    """
    torch.set_rng_state(state["cpu"].cpu())
    for name, value in state.items():
        if name != "cpu" and torch.get_device_module(name).is_available():
            torch.get_device_module(name).set_rng_state(value.cpu(), name)


class GlobalGenerators:
    """The process-wide generators of Python, torch and, if it is imported, NumPy.

    >>> generators = GlobalGenerators()
    >>> state = generators.state_dict()
    >>> first = random.random()
    >>> generators.load_state_dict(state)
    >>> random.random() == first
    True
    """

    def state_dict(self) -> dict[str, Any]:
        """Their states."""
        version, numbers, gauss = random.getstate()
        state: dict[str, Any] = {
            "python": (version, torch.tensor(numbers), gauss),
            "torch": torch.get_rng_state(),
        }
        if "numpy" in sys.modules:
            kind, key, *rest = sys.modules["numpy"].random.get_state()
            state["numpy"] = (kind, torch.tensor(key.tolist()), *rest)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore saved states."""
        version, numbers, gauss = state["python"]
        random.setstate((version, tuple(numbers.tolist()), gauss))
        torch.set_rng_state(state["torch"])
        if "numpy" in state:
            kind, key, *rest = state["numpy"]
            importlib.import_module("numpy").random.set_state((kind, key.tolist(), *rest))
