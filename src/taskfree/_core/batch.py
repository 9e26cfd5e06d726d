"""A batch: a tensor, or a tuple, list or dict of tensors, with one row per sample."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

Batch: TypeAlias = Tensor | tuple[Tensor, ...] | list[Tensor] | dict[str, Tensor]


class Recalled(NamedTuple):
    """What is remembered of the outputs for `here` replayed samples, of `total` on all ranks.

    `ages` says how many gradient steps ago, inf for never. Both are None before anything is.
    """

    here: int
    total: int
    outputs: list[Tensor] | None = None
    ages: Tensor | None = None

    def part(self, rows: slice) -> Recalled:
        """That of some rows of a batch, in which the replayed samples come first."""
        if rows.start == 0 and rows.stop >= self.here:
            return self
        outputs = None if self.outputs is None else [column[rows] for column in self.outputs]
        ages = None if self.ages is None else self.ages[rows]
        return Recalled(len(range(self.here)[rows]), self.total, outputs, ages)


def tensors(batch: Batch) -> list[Tensor]:
    """The tensors of a batch.

    >>> len(tensors({"image": torch.zeros(2, 3), "speed": torch.zeros(2)}))
    2
    """
    if isinstance(batch, Tensor):
        return [batch]
    return list(batch.values() if isinstance(batch, dict) else batch)


def apply(function: Callable[..., Tensor], *batches: Any) -> Batch:
    """Apply `function` to the matching tensors of batches of one structure.

    >>> apply(torch.add, (torch.ones(2),), (torch.ones(2),))
    (tensor([2., 2.]),)
    """
    first = batches[0]
    if isinstance(first, Tensor):
        return function(*batches)
    if isinstance(first, dict):
        return {key: function(*(batch[key] for batch in batches)) for key in first}
    columns = [function(*columns) for columns in zip(*batches, strict=True)]
    return columns if isinstance(first, list) else tuple(columns)


def rows(batch: Batch) -> int:
    """The number of samples in a batch.

    >>> rows((torch.zeros(4, 2), torch.zeros(4)))
    4
    """
    return (batch if isinstance(batch, Tensor) else tensors(batch)[0]).shape[0]


def take(batch: Batch, index: Tensor | slice) -> Batch:
    """The selected rows of a batch.

    >>> take(torch.arange(5), torch.tensor([3, 1]))
    tensor([3, 1])
    """
    return apply(lambda column: column[index], batch)


def call(model: nn.Module, inputs: Batch) -> Any:
    """Call a model: a tuple or list is passed as positional arguments, a dict as keywords.

    A model whose `forward` does not know the keys as keywords gets the dict as one argument.

    >>> call(nn.Bilinear(2, 3, 1), (torch.ones(4, 2), torch.ones(4, 3))).shape
    torch.Size([4, 1])
    """
    if isinstance(inputs, Tensor):
        return model(inputs)
    if isinstance(inputs, dict):
        own = getattr(model, "_orig_mod", model)  # what torch.compile wraps takes anything
        as_keywords = _takes_keywords(type(own).forward, tuple(inputs))
        return model(**inputs) if as_keywords else model(inputs)
    return model(*inputs)


@lru_cache(maxsize=64)
def _takes_keywords(forward: Callable[..., Any], names: tuple[str, ...]) -> bool:
    """Whether to pass keywords: yes, unless only a single argument can be bound."""
    try:
        inspect.signature(forward).bind(None, **dict.fromkeys(names))
    except TypeError:
        with suppress(TypeError):
            inspect.signature(forward).bind(None, None)
            return False
    return True


def output_tensors(output: Any) -> list[Tensor]:
    """The floating point tensors of a model's output: one, or a tuple, list or dict of tensors.

    >>> [part.shape for part in output_tensors({"left": torch.ones(4, 2), "right": torch.ones(4)})]
    [torch.Size([4, 2]), torch.Size([4])]
    """
    if isinstance(output, Tensor | tuple | list | dict):
        found = tensors(output)
        if all(isinstance(part, Tensor) for part in found):
            return [part for part in found if part.is_floating_point()]
    raise TypeError(
        "importance needs a model whose output is a tensor, or a tuple, list or dict of tensors, "
        f"got {type(output).__name__}"
    )


Signature: TypeAlias = dict[object, tuple[torch.dtype, torch.Size]]


def signature(batch: Batch) -> Signature:
    """The dtype and shape of each tensor of one sample.

    >>> signature(torch.zeros(8, 2)) == signature(torch.zeros(3, 2)), signature(torch.zeros(8, 2))
    (True, {None: (torch.float32, torch.Size([2]))})
    """
    if isinstance(batch, Tensor):
        return {None: (batch.dtype, batch.shape[1:])}
    named = batch.items() if isinstance(batch, dict) else enumerate(batch)
    return {name: (column.dtype, column.shape[1:]) for name, column in named}


def same_signature(first: Batch, second: Batch) -> bool:
    """Whether samples of both fit into one batch.

    >>> same_signature(torch.zeros(8, 2), torch.zeros(3, 2))
    True
    """
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return first.dtype == second.dtype and first.shape[1:] == second.shape[1:]
    return signature(first) == signature(second)


def detach(batch: Batch) -> Batch:
    """The same samples without their autograd graph.

    >>> detach(torch.ones(2, requires_grad=True) * 2)
    tensor([2., 2.])
    """
    if isinstance(batch, Tensor):
        return batch.detach() if batch.requires_grad else batch
    if any(column.requires_grad for column in tensors(batch)):
        return apply(Tensor.detach, batch)
    return batch


def nonfinite_rows(batch: Batch) -> Tensor | None:
    """Mask of the rows that hold a nan or inf; None if there are none.

    >>> nonfinite_rows(torch.tensor([[1.0, 2.0], [0.0, torch.inf]]))
    tensor([False,  True])
    """
    bad = None
    for column in tensors(batch):
        # a sum over everything is cheap, and nan and inf survive it
        if column.is_floating_point() and not math.isfinite(column.sum().item()):
            found = ~column.isfinite().flatten(1).all(1) if column.dim() > 1 else ~column.isfinite()
            bad = found if bad is None else bad | found
    return bad if bad is not None and bool(bad.any()) else None


def describe(batch: Batch) -> str:
    """The signature in words, for an error message.

    >>> describe((torch.zeros(8, 2), torch.zeros(8)))
    '(float32[2], float32[])'
    """
    described = {
        name: f"{str(dtype).removeprefix('torch.')}{list(shape)}"
        for name, (dtype, shape) in signature(batch).items()
    }
    if isinstance(batch, Tensor):
        return described[None]
    if isinstance(batch, dict):
        return "{" + ", ".join(f"{name}: {text}" for name, text in described.items()) + "}"
    return "(" + ", ".join(described.values()) + ")"


def check(name: str, batch: Batch) -> int:
    """Check that `batch` is a batch of at least one sample; return the number of samples.

    >>> check("inputs", torch.zeros(0, 3))
    Traceback (most recent call last):
    ...
    ValueError: inputs holds no samples (shape [0, 3]); pass at least one row
    """
    if isinstance(batch, Tensor) and batch.dim() and batch.shape[0]:
        return batch.shape[0]
    came = type(batch).__name__
    if isinstance(batch, tuple | list | dict):
        others = {type(c).__name__ for c in tensors(batch) if not isinstance(c, Tensor)}
        came = f"a {came} that holds {', '.join(sorted(others))}" if others else ""
    elif isinstance(batch, Tensor):
        came = ""
    if came:
        raise TypeError(
            f"{name} must be a tensor, or a tuple, list or dict of tensors, got {came}; "
            "convert it, for example with torch.as_tensor"
        )
    columns = tensors(batch)
    if not columns:
        raise ValueError(f"{name} is an empty {type(batch).__name__}; pass at least one tensor")
    for column in columns:
        if column.dim() == 0:
            raise ValueError(
                f"{name} is a single value without rows; give it a first dimension with one "
                "row per sample, for example with .unsqueeze(0)"
            )
        if len(column) != len(columns[0]):
            raise ValueError(
                f"{name} holds tensors of {len(columns[0])} and of {len(column)} rows; "
                "all must have one row per sample"
            )
    if len(columns[0]) == 0:
        raise ValueError(
            f"{name} holds no samples (shape {list(columns[0].shape)}); pass at least one row"
        )
    return len(columns[0])
