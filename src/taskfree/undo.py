"""A way back: whatever a step changes, kept until it is known to have gone well."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


class Undo:
    """Brings a model, its optimizer and the random generators back if the block under it raises.

    The copies are allocated once and written over at each use.

    >>> model = nn.Linear(1, 1)
    >>> before = model.weight.clone()
    >>> with Undo(model, torch.optim.SGD(model.parameters())):
    ...     _ = nn.init.zeros_(model.weight)
    ...     raise ValueError("not like this")
    Traceback (most recent call last):
    ...
    ValueError: not like this
    >>> torch.equal(model.weight, before)
    True
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer) -> None:
        self.model = model
        self.optimizer = optimizer
        self._live: list[Tensor] = []
        self._copies: list[Tensor] = []
        self._optimizer_state: dict[Any, Any] = {}
        self._random: dict[str, Tensor] = {}

    def __enter__(self) -> None:
        self._optimizer_state = _copy_containers(dict(self.optimizer.state))
        live = self._tensors()
        with torch.no_grad():
            if [tensor.shape for tensor in live] == [copy.shape for copy in self._copies]:
                torch._foreach_copy_(self._copies, live)
            else:
                self._copies = [tensor.detach().clone() for tensor in live]
        self._live = live
        self._random = random_state(self.model)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            with torch.no_grad():
                torch._foreach_copy_(self._live, self._copies)
            self.optimizer.state.clear()
            self.optimizer.state.update(self._optimizer_state)
            self.optimizer.zero_grad()
            load_random_state(self._random)
        self._live = []

    def _tensors(self) -> list[Tensor]:
        """All that learning writes to: learning parameters, buffers and the optimizer's tensors."""
        optimized = (value for group in self.optimizer.param_groups for value in group["params"])
        learning = {id(value): value for value in (*self.model.parameters(), *optimized)}
        found = [value for value in learning.values() if value.requires_grad]
        found.extend(self.model.buffers())
        _collect(self._optimizer_state, found)
        return found


def _copy_containers(node: Any) -> Any:
    """Copy the dicts and lists of a nested state; tensors and values stay the same objects."""
    if isinstance(node, dict):
        return {key: _copy_containers(value) for key, value in node.items()}
    return [_copy_containers(value) for value in node] if isinstance(node, list) else node


def _collect(node: Any, found: list[Tensor]) -> None:
    """Add the tensors of a nested state to `found`."""
    if isinstance(node, Tensor):
        found.append(node)
    elif isinstance(node, dict | list):
        for value in node.values() if isinstance(node, dict) else node:
            _collect(value, found)


def random_state(model: nn.Module) -> dict[str, Tensor]:
    """The state of torch's random generators on the CPU and on the model's devices.

    >>> list(random_state(nn.Linear(1, 1)))
    ['cpu']
    """
    state = {"cpu": torch.get_rng_state()}
    for device in {value.device for value in model.parameters()}:
        if device.type != "cpu":
            state[str(device)] = torch.get_device_module(device).get_rng_state(device)
    return state


def load_random_state(state: dict[str, Tensor]) -> None:
    """Bring torch's random generators back to a saved state.

    >>> before = random_state(nn.Linear(1, 1))
    >>> drawn = torch.rand(3)
    >>> load_random_state(before)
    >>> torch.equal(torch.rand(3), drawn)
    True
    """
    torch.set_rng_state(state["cpu"].cpu())
    for name, value in state.items():
        if name != "cpu":
            torch.get_device_module(name).set_rng_state(value.cpu(), name)
