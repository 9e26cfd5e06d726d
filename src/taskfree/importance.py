"""Importance of every parameter: how much the outputs move when it does, exactly, per sample.

Omega* = 1/N sum_k |d f(x_k) / d theta|, with f the squared norm (or the norm) of the output of ONE
input x_k. The absolute value is taken for each sample before the mean: the gradient of a batch
would let the samples cancel each other and lose much of the importance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from taskfree import batch
from taskfree.batch import Batch

Output: TypeAlias = Literal["squared", "norm"]
Parameters: TypeAlias = Mapping[str, Tensor]

CHUNK = 2**24
"""How many numbers of per-sample gradients may exist at a time, if one sample has fewer."""


def estimate(model: nn.Module, inputs: Batch, output: Output = "squared") -> dict[str, Tensor]:
    """The exact importance of every trainable parameter, on average over the rows of `inputs`.

    The model is looked at in eval mode (dropout off, batch norm by its running statistics), and
    is afterwards as it was, its gradients included.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> _ = nn.init.ones_(model.weight)
    >>> estimate(model, torch.tensor([[1.0, 2.0], [-1.0, -2.0]]))
    {'weight': tensor([[ 6., 12.]])}
    """
    parameters = trainable(model)
    with evaluating(model):
        try:
            total = _vectorised(model, parameters, inputs, output)
        except RuntimeError:  # what vmap cannot trace, such as control flow that depends on data
            total = _one_by_one(model, parameters, inputs, output)
    samples = batch.rows(inputs)
    return {name: (value / samples).to(parameters[name].dtype) for name, value in total.items()}


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that learn, each once by its first name, however many layers share it.

    >>> list(trainable(nn.Linear(2, 1).requires_grad_(False)))
    []
    """
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put all of a model into eval mode for a while; every module then gets its own mode back.

    >>> model = nn.Dropout()
    >>> with evaluating(model):
    ...     model.training
    False
    >>> model.training
    True
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _size(output: Any, kind: Output) -> Tensor:
    """f: the squared norm, or the norm, of all that the model gives for one input."""
    if not isinstance(output, Tensor | tuple | list | dict):
        raise TypeError(
            f"importance needs a model whose output is a tensor, or a tuple, list or dict of "
            f"tensors, got {type(output).__name__}"
        )
    squared = torch.stack([part.square().sum() for part in batch.tensors(output)]).sum()
    if kind == "squared":
        return squared
    positive = squared > 0  # the norm has no gradient at zero, where the square root's is infinite
    return torch.where(positive, torch.where(positive, squared, 1.0).sqrt(), 0.0)


def _sums_like(parameters: Parameters) -> dict[str, Tensor]:
    """Zeros to add up in, in single precision at least."""
    return {
        name: torch.zeros_like(value, dtype=torch.promote_types(value.dtype, torch.float32))
        for name, value in parameters.items()
    }


def _vectorised(
    model: nn.Module, parameters: Parameters, inputs: Batch, output: Output
) -> dict[str, Tensor]:
    """The general way: `torch.func` gives the gradients of a chunk of samples at once.

    Each sample gets its own view of the parameters, without a copy: recurrent layers only
    vectorise if their parameters do.
    """

    def size_of_one(parameters: Parameters, row: Batch) -> Tensor:
        one = batch.apply(lambda column: column.unsqueeze(0), row)
        arguments: Any = (one,) if isinstance(one, Tensor) else one
        if isinstance(arguments, dict):
            outputs = functional_call(model, dict(parameters), (), arguments)
        else:
            outputs = functional_call(model, dict(parameters), tuple(arguments))
        return _size(outputs, output)

    gradients: Callable[..., dict[str, Tensor]] = vmap(grad(size_of_one))
    constants = {name: value.detach() for name, value in parameters.items()}
    numbers = sum(value.numel() for value in constants.values())
    chunk = max(1, CHUNK // max(1, numbers))
    total = _sums_like(constants)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        for start in range(0, batch.rows(inputs), chunk):
            rows = batch.take(inputs, slice(start, start + chunk))
            count = batch.rows(rows)
            views = {name: value.expand(count, *value.shape) for name, value in constants.items()}
            for name, values in gradients(views, rows).items():
                total[name] += values.abs().sum(0, dtype=total[name].dtype)
    return total


def _one_by_one(
    model: nn.Module, parameters: Parameters, inputs: Batch, output: Output
) -> dict[str, Tensor]:
    """The slow way that any model can go: one forward and one backward pass a sample."""
    total = _sums_like(parameters)
    for index in range(batch.rows(inputs)):
        with torch.enable_grad():
            size = _size(batch.call(model, batch.take(inputs, slice(index, index + 1))), output)
        if not size.requires_grad:
            continue
        gradients = torch.autograd.grad(size, list(parameters.values()), allow_unused=True)
        for name, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                total[name] += gradient.to_dense().abs()
    return total
