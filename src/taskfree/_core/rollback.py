"""Undo: what a time step changes is remembered until the step has succeeded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from taskfree._core.random_state import load_torch_state, torch_state


class Rollback:
    """Remembers what a time step writes to, so that a step that fails can be undone.

    `begin` saves what a forward pass may change: the modules' buffers, the random generators and
    the attributes of `components`. `save_parameters` adds what an optimizer step changes. It costs
    one pass over the parameters, so it is called only where something can fail after that step.
    Copies are reused as long as successive steps need them.

    >>> model = nn.Linear(1, 1)
    >>> rollback = Rollback([model], torch.optim.SGD(model.parameters()), components=[])
    >>> rollback.begin()
    >>> rollback.save_parameters()
    >>> before = model.weight.clone()
    >>> _ = nn.init.zeros_(model.weight)
    >>> rollback.restore()
    >>> torch.equal(model.weight, before)
    True
    """

    def __init__(
        self, modules: Sequence[nn.Module], optimizer: Optimizer, components: Sequence[object]
    ) -> None:
        self._named_buffers = [m._buffers for whole in modules for m in whole.modules()]
        self._first = next(modules[0].parameters())
        self._optimizer = optimizer
        self._components = components  # not their dicts, which a copy of this would not share
        self._buffers = _Copies()
        self._changed = _Copies()
        self._parameters_saved = False

    def begin(self) -> None:
        """Save everything but the parameters and the optimizer's state."""
        if not self._parameters_saved:
            self._changed = _Copies()  # the last step did without
        self._parameters_saved = False
        self._random = torch_state(self._first.device)
        self._attributes = [vars(component).copy() for component in self._components]
        self._slots = [
            (buffers, name, tensor)
            for buffers in filter(None, self._named_buffers)
            for name, tensor in buffers.items()
        ]
        if self._slots:
            self._buffers.take([tensor for *_, tensor in self._slots if tensor is not None])

    def save_parameters(self) -> None:
        """Save the parameters and the optimizer's state too, once per time step."""
        if self._parameters_saved:
            return
        self._parameters_saved = True
        self._state = _copy_containers(dict(self._optimizer.state))
        groups = self._optimizer.param_groups
        self._groups = [{key: group[key] for key in group if key != "params"} for group in groups]
        live: list[Tensor] = [value for group in groups for value in group["params"]]
        _collect_tensors(self._state, live)
        _collect_tensors(self._groups, live)
        self._changed.take(live)

    def restore(self) -> None:
        """Return to what was saved."""
        for component, before in zip(self._components, self._attributes, strict=True):
            vars(component).clear()
            vars(component).update(before)
        for buffers, name, tensor in self._slots:
            buffers[name] = tensor
        self._buffers.put_back()
        if self._parameters_saved:
            self._changed.put_back()
            self._optimizer.state.clear()
            self._optimizer.state.update(self._state)
            for group, options in zip(self._optimizer.param_groups, self._groups, strict=True):
                group.update(options)
        self._optimizer.zero_grad()
        load_torch_state(self._random)


class _Copies:
    """Copies of tensors, in memory that is reused."""

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
            if not torch.equal(tensor, copy):  # a tensor that is read-only has not changed
                tensor.copy_(copy)


@contextmanager
def preserved(model: nn.Module) -> Iterator[None]:
    """Restore the attributes and buffers of all submodules afterwards, but not the parameters.

    >>> model = nn.BatchNorm1d(1)
    >>> with preserved(model):
    ...     _ = model.eval()(torch.ones(2, 1))
    >>> model.training
    True
    """
    modules = list(model.modules())
    attributes = [vars(module).copy() for module in modules]
    slots = [(m._buffers, name, m._buffers[name]) for m in modules for name in m._buffers]
    copies = _Copies()
    copies.take([tensor for *_, tensor in slots if tensor is not None])
    try:
        yield
    finally:
        for module, before in zip(modules, attributes, strict=True):
            vars(module).clear()
            vars(module).update(before)
        for buffers, name, tensor in slots:
            buffers[name] = tensor
        copies.put_back()


def _alike(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.device == b.device


def _copy_containers(node: Any) -> Any:
    """Copy the dicts and lists of a nested state; tensors and values stay the same objects."""
    if isinstance(node, dict):
        return {key: _copy_containers(value) for key, value in node.items()}
    return [_copy_containers(value) for value in node] if isinstance(node, list) else node


def _collect_tensors(node: Any, found: list[Tensor]) -> None:
    """Append the tensors of a nested state to `found`."""
    if isinstance(node, Tensor):
        found.append(node)
    elif isinstance(node, dict | list):
        for value in node.values() if isinstance(node, dict) else node:
            _collect_tensors(value, found)
