"""State as a flat dict from names to tensors, which a checkpoint can hold without pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

LAYOUT = "layout"


def pack(tree: Any) -> dict[str, Tensor]:
    """Flatten nested dicts, lists and tuples of tensors and plain values.

    A tensor is named by its path. Everything else, including the nesting, is stored as JSON in
    the bytes of one more tensor, `layout`.

    >>> flat = pack({"lr": 0.1, "state": {0: {"momentum": torch.ones(2)}}})
    >>> sorted(flat)
    ['layout', 'state.0.momentum']
    >>> unpack(flat)
    {'lr': 0.1, 'state': {0: {'momentum': tensor([1., 1.])}}}
    """
    flat: dict[str, Tensor] = {}

    def walk(node: Any, path: str) -> Any:
        if isinstance(node, Tensor):
            if path in flat or path == LAYOUT:
                raise ValueError(f"two tensors of the state would both be named {path!r}")
            flat[path] = node.detach()
            return ["tensor", path]
        prefix = f"{path}." if path else ""
        if isinstance(node, Mapping):
            if not all(isinstance(key, str | int) for key in node):
                raise TypeError(f"the state at {path!r} has keys that are neither str nor int")
            return ["dict", [[key, walk(value, f"{prefix}{key}")] for key, value in node.items()]]
        if isinstance(node, list | tuple):
            kind = "list" if isinstance(node, list) else "tuple"
            return [kind, [walk(value, f"{prefix}{index}") for index, value in enumerate(node)]]
        if node is None or isinstance(node, bool | int | float | str):
            return ["value", node]
        raise TypeError(
            f"the state at {path!r} is a {type(node).__name__}; only tensors, numbers, strings, "
            "None, and dicts, lists and tuples of them can be saved"
        )

    layout = json.dumps(walk(tree, ""))
    flat[LAYOUT] = torch.tensor(list(layout.encode()), dtype=torch.uint8)
    return flat


def unpack(flat: Mapping[str, Tensor]) -> Any:
    """The inverse of `pack`.

    >>> unpack(pack([torch.tensor(1.0), None, ("a", 2)]))
    [tensor(1.), None, ('a', 2)]
    """

    def build(node: Any) -> Any:
        kind, content = node
        if kind == "tensor":
            return flat[content]
        if kind == "value":
            return content
        if kind == "dict":
            return {key: build(value) for key, value in content}
        if kind not in ("list", "tuple"):
            raise ValueError(f"the layout names a {kind!r}, which is nothing that can be saved")
        return (list if kind == "list" else tuple)(build(value) for value in content)

    return build(json.loads(bytes(flat[LAYOUT].tolist()).decode()))


def add_prefix(name: str, flat: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A component's state under its name.

    >>> add_prefix("when", {"armed": torch.tensor(True)})
    {'when.armed': tensor(True)}
    """
    return {f"{name}.{key}": value for key, value in flat.items()}


def take_prefix(name: str, flat: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of one component: the inverse of `add_prefix`.

    >>> take_prefix("when", {"when.armed": torch.tensor(True), "step": torch.tensor(3)})
    {'armed': tensor(True)}
    """
    prefix = f"{name}."
    return {key.removeprefix(prefix): flat[key] for key in flat if key.startswith(prefix)}


def save_fields(owner: object, names: Sequence[str]) -> dict[str, Tensor]:
    """Attributes that are numbers or tuples of numbers, as tensors by their names.

    A leading underscore is dropped from the name.

    >>> class Counter:
    ...     _count, window, ready = 3, (0.5, 0.25), True
    >>> save_fields(Counter, ["_count", "window", "ready"])
    {'count': tensor(3), 'window': tensor([0.5000, 0.2500], dtype=torch.float64),
     'ready': tensor(True)}
    """

    def tensor(value: Any) -> Tensor:
        exact = torch.float64 if isinstance(value, float | tuple) else None
        return torch.tensor(value, dtype=exact)

    return {name.lstrip("_"): tensor(getattr(owner, name)) for name in names}


def load_fields(owner: object, names: Sequence[str], state: Mapping[str, Tensor]) -> None:
    """Set what `save_fields` saved; if a name is missing, nothing is set.

    >>> class Counter:
    ...     _count, window, ready = 3, (0.5, 0.25), True
    >>> load_fields(Counter, ["_count"], {"count": torch.tensor(7)})
    >>> Counter._count
    7
    """
    saved = {name: state[name.lstrip("_")].tolist() for name in names}
    for name, value in saved.items():
        setattr(owner, name, tuple(value) if isinstance(value, list) else value)
