"""Every component of the package, with every choice of its options."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from taskfree import how, when, which
from taskfree.checks.buffers import check_buffer
from taskfree.checks.regularizers import check_regularizer
from taskfree.checks.triggers import check_trigger

_EXAMPLES: dict[str, Any] = {
    "capacity": 7, "cover": 10, "mean": 0.5, "n": 4, "replay": 3, "steps": (3, 250),
    "strength": 1.0, "variance": 0.1, "window": 5,
}  # fmt: skip


class Component(NamedTuple):
    """One component of the package with one choice of its options."""

    name: str
    check: Callable[[Callable[[], Any]], None]
    make: Callable[[], Any]


def components() -> list[Component]:
    """Every trigger, buffer and regularizer of the package, with every choice of its options.

    >>> sum(component.name.startswith("Hardest") for component in components())
    4
    """
    modules = ((when, check_trigger), (which, check_buffer), (how, check_regularizer))
    return [
        Component(f"{kind.__name__}({options})", check, partial(kind, **options))
        for module, check in modules
        for kind in _classes(module)
        for options in _choices(kind)
    ]


def _classes(module: ModuleType) -> Iterator[type]:
    for name in module.__all__:
        found = getattr(module, name)
        kept = inspect.isclass(found) and hasattr(found, "load_state_dict")
        if kept and not getattr(found, "_is_protocol", False):
            yield found


def _choices(kind: type) -> Iterator[dict[str, Any]]:
    """Arguments for a class: examples for required ones, all choices of those that have some."""
    hints = get_type_hints(kind.__init__)  # type: ignore[misc]  # of a class found by its name
    options: dict[str, tuple[Any, ...]] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if values := _values(hints.get(name)):
            options[name] = values
        elif parameter.default is inspect.Parameter.empty:
            options[name] = (_EXAMPLES[name],)
        elif parameter.default is None:
            options[name] = (None, _EXAMPLES[name])
    for values in itertools.product(*options.values()):
        yield dict(zip(options, values, strict=True))


def _values(hint: Any) -> tuple[Any, ...]:
    """All values of a type that has few: bool, a Literal, or a union of these."""
    if hint is bool:
        return (False, True)
    if get_origin(hint) is Literal:
        return get_args(hint)
    union = get_origin(hint) in (Union, UnionType)
    found = [_values(part) for part in get_args(hint)] if union else [()]
    return tuple(itertools.chain(*found)) if all(found) else ()
