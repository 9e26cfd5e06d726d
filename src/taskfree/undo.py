"""A way back: whatever a step changes, kept until it is known to have gone well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


class Undo:
    """Remembers what learning writes to, so that a step that fails can be taken back.

    `begin` remembers what a forward pass may change: the modules' buffers, the random generators,
    and the attributes of the learner's `parts`. `keep` adds what an optimizer's step changes; it
    costs a pass over the parameters and is only needed where something can still fail after that.
    The copies are allocated once and written over at each use.

    >>> model = nn.Linear(1, 1)
    >>> undo = Undo([model], torch.optim.SGD(model.parameters()), parts=[])
    >>> undo.begin()
    >>> undo.keep()
    >>> before = model.weight.clone()
    >>> _ = nn.init.zeros_(model.weight)
    >>> undo.restore()
    >>> torch.equal(model.weight, before)
    True
    """

    def __init__(
        self, modules: Sequence[nn.Module], optimizer: Optimizer, parts: Sequence[object]
    ) -> None:
        self._named_buffers = [m._buffers for whole in modules for m in whole.modules()]
        self._first = next(modules[0].parameters())
        self._optimizer = optimizer
        self._parts = parts  # not their dicts, which a copy of all this would not share
        self._buffers = _Copies()
        self._changed = _Copies()
        self._kept = False

    def begin(self) -> None:
        """Remember all but the parameters and the optimizer's state."""
        self._kept = False
        self._random = random_state(self._first.device)
        self._attributes = [vars(part).copy() for part in self._parts]
        self._places = [
            (buffers, name, tensor)
            for buffers in filter(None, self._named_buffers)
            for name, tensor in buffers.items()
        ]
        if self._places:
            self._buffers.take([tensor for *_, tensor in self._places if tensor is not None])

    def keep(self) -> None:
        """Remember the parameters and the optimizer's state too, as they are at the first call."""
        if self._kept:
            return
        self._kept = True
        self._state = _copy_containers(dict(self._optimizer.state))
        groups = self._optimizer.param_groups
        self._groups = [{key: group[key] for key in group if key != "params"} for group in groups]
        live: list[Tensor] = [value for group in groups for value in group["params"]]
        _collect(self._state, live)
        _collect(self._groups, live)
        self._changed.take(live)

    def restore(self) -> None:
        """Go back to what was remembered."""
        for part, before in zip(self._parts, self._attributes, strict=True):
            vars(part).clear()
            vars(part).update(before)
        for buffers, name, tensor in self._places:
            buffers[name] = tensor
        self._buffers.put_back()
        if self._kept:
            self._changed.put_back()
            self._optimizer.state.clear()
            self._optimizer.state.update(self._state)
            for group, options in zip(self._optimizer.param_groups, self._groups, strict=True):
                group.update(options)
        self._optimizer.zero_grad()
        load_random_state(self._random)


class _Copies:
    """Copies of tensors in memory that is used again."""

    def __init__(self) -> None:
        self.live: list[Tensor] = []
        self.copies: list[Tensor] = []

    @torch.no_grad()
    def take(self, live: list[Tensor]) -> None:
        fits = len(live) == len(self.copies) and all(map(_alike, self.copies, live))
        if not fits:
            self.copies = [tensor.detach().clone() for tensor in live]
        elif live:
            torch._foreach_copy_(self.copies, live)
        self.live = live

    @torch.no_grad()
    def put_back(self) -> None:
        for tensor, copy in zip(self.live, self.copies, strict=True):
            if not torch.equal(tensor, copy):  # a tensor that cannot be written to has not changed
                tensor.copy_(copy)


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Have all modules' attributes and buffers as they were afterwards; parameters are let alone.

    >>> model = nn.BatchNorm1d(1)
    >>> with unchanged(model):
    ...     _ = model.eval()(torch.ones(2, 1))
    >>> model.training
    True
    """
    modules = list(model.modules())
    attributes = [vars(module).copy() for module in modules]
    places = [(m._buffers, name, m._buffers[name]) for m in modules for name in m._buffers]
    copies = _Copies()
    copies.take([tensor for *_, tensor in places if tensor is not None])
    try:
        yield
    finally:
        for module, before in zip(modules, attributes, strict=True):
            vars(module).clear()
            vars(module).update(before)
        for buffers, name, tensor in places:
            buffers[name] = tensor
        copies.put_back()


def _alike(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.device == b.device


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


def random_state(device: torch.device) -> dict[str, Tensor]:
    """The state of torch's random generators on the CPU and on one more device.

    >>> list(random_state(torch.device("cpu")))
    ['cpu']
    """
    state = {"cpu": torch.get_rng_state()}
    if device.type not in ("cpu", "meta"):
        state[str(device)] = torch.get_device_module(device).get_rng_state(device)
    return state


def load_random_state(state: dict[str, Tensor]) -> None:
    """Bring torch's random generators back to a saved state.

    A generator of a device that is not there, or is another one now, is left alone.

    >>> before = random_state(torch.device("cpu"))
    >>> drawn = torch.rand(3)
    >>> load_random_state(before)
    >>> torch.equal(torch.rand(3), drawn)
    True
    """
    torch.set_rng_state(state["cpu"].cpu())
    for name, value in state.items():
        if name != "cpu" and torch.get_device_module(name).is_available():
            torch.get_device_module(name).set_rng_state(value.cpu(), name)
