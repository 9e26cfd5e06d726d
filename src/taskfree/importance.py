"""Importance of every parameter: how much the outputs move when it does, exactly, per sample.

Omega* = 1/N sum_k |d f(x_k) / d theta|, with f the squared norm (or the norm) of the output of ONE
input x_k. The absolute value is taken for each sample before the mean: the gradient of a batch
would let the samples cancel each other and lose much of the importance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.parallel import DistributedDataParallel

from taskfree import batch, closed, forms
from taskfree.batch import Batch
from taskfree.ranks import Ranks
from taskfree.undo import unchanged

Output: TypeAlias = Literal["squared", "norm"]
Parameters: TypeAlias = Mapping[str, Tensor]


def estimate(model: nn.Module, inputs: Batch, output: Output = "squared") -> dict[str, Tensor]:
    """The exact importance of every trainable parameter, on average over the rows of `inputs`.

    The model is looked at in eval mode (dropout off, batch norm by its running statistics), and
    is afterwards as it was, its gradients included. In a process group of `torch.distributed` the
    average is over the rows of all ranks.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> _ = nn.init.ones_(model.weight)
    >>> estimate(model, torch.tensor([[1.0, 2.0], [-1.0, -2.0]]))
    {'weight': tensor([[ 6., 12.]])}
    """
    model = unwrapped(model)
    parameters = trainable(model)
    rows, ranks = batch.rows(inputs), Ranks.joined(model)
    if ranks is None:
        total = _sums(model, parameters, inputs, output)
    else:
        total = ranks.do(lambda: _sums(model, parameters, inputs, output))
        rows = sum(ranks.gather(lambda: batch.rows(inputs)))
        ranks.add_(total[name] for name in parameters)
    torch._foreach_div_(list(total.values()), rows)
    return {name: total[name].to(value.dtype) for name, value in parameters.items()}


def _sums(
    model: nn.Module, parameters: Mapping[str, nn.Parameter], inputs: Batch, output: Output
) -> dict[str, Tensor]:
    """sum_k |d f(x_k) / d theta|, each parameter by the fastest way that is exact for it."""
    if not batch.rows(inputs):  # all samples are on other ranks
        return {name: closed.zeros(value) for name, value in parameters.items()}
    slopes = _squared_slopes if output == "squared" else _norm_slopes
    with evaluating(model):
        total = closed.sums(model, parameters, inputs, slopes)
        rest = {name: value for name, value in parameters.items() if name not in total}
        if rest:
            total |= _general(model, rest, inputs, output)
    return total


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that learn, each once by its first name, however many layers share it.

    >>> list(trainable(nn.Linear(2, 1).requires_grad_(False)))
    []
    """
    found = unwrapped(model).named_parameters()
    return {name: value for name, value in found if value.requires_grad}


def unwrapped(model: nn.Module) -> nn.Module:
    """The model itself, out of what `torch.compile` and DistributedDataParallel put around it.

    >>> unwrapped(nn.Linear(1, 1))
    Linear(in_features=1, out_features=1, bias=True)
    """
    while True:
        if "_orig_mod" in model._modules:
            model = model.get_submodule("_orig_mod")
        elif isinstance(model, DistributedDataParallel):
            model = model.module
        else:
            return model


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into eval mode for a while, and have everything in it as it was afterwards.

    >>> model = nn.Dropout()
    >>> with evaluating(model):
    ...     model.training
    False
    >>> model.training
    True
    """
    with unchanged(model):
        if any(module.training for module in model.modules()):
            model.eval()
        yield


def _squared_slopes(outputs: list[Tensor]) -> list[Tensor]:
    """The derivative of the squared norm."""
    return [2 * part for part in outputs]


def _norm_slopes(outputs: list[Tensor]) -> list[Tensor]:
    """The derivative of each sample's norm; 0 where the norm is 0 and has none."""
    rows = [_wide(part).reshape(part.shape[0], -1) for part in outputs]
    norm = torch.stack([part.square().sum(1) for part in rows]).sum(0).sqrt()
    scale = torch.where(norm > 0, 1 / norm, 0.0)
    return [(part * scale.view(-1, *[1] * (part.dim() - 1))).to(part.dtype) for part in outputs]


def _wide(part: Tensor) -> Tensor:
    """In single precision at least: squares leave the range of half precision soon."""
    return part.to(torch.promote_types(part.dtype, torch.float32))


def _size(outputs: list[Tensor], kind: Output) -> Tensor:
    """f: the squared norm, or the norm, of all that the model gives for one input."""
    squared = torch.stack([_wide(part).square().sum() for part in outputs]).sum()
    if kind == "squared":
        return squared
    positive = squared > 0  # the norm has no gradient at zero, where the square root's is infinite
    return torch.where(positive, torch.where(positive, squared, 1.0).sqrt(), 0.0)


@torch.no_grad()
def _general(
    model: nn.Module, parameters: Parameters, inputs: Batch, output: Output
) -> dict[str, Tensor]:
    """sum_k |d f(x_k) / d theta| for any module."""
    try:
        one = batch.take(inputs, slice(0, 1))
        alone = _one_by_one(model, parameters, one, output)
        if _agree(_vectorised(model, parameters, one, output), alone):
            return _vectorised(model, parameters, inputs, output)
    except RuntimeError:  # what vmap cannot trace, such as control flow that depends on data
        pass
    return _one_by_one(model, parameters, inputs, output)


def _agree(first: Parameters, second: Parameters) -> bool:
    """Whether vmap reached the parameters: it does not if the model holds them in a list, say."""
    return all(
        float((first[name] - value).abs().max())
        <= float(value.max()) * torch.finfo(value.dtype).eps ** 0.5
        for name, value in second.items()
    )


def _vectorised(
    model: nn.Module, parameters: Parameters, inputs: Batch, output: Output
) -> dict[str, Tensor]:
    """The general way: `torch.func` gives the gradients of a chunk of samples at once.

    Each sample gets its own view of the parameters, without a copy: recurrent layers only
    vectorise if their parameters do.
    """

    def size_of_one(learning: Parameters, row: Batch) -> Tensor:
        one: Any = batch.apply(lambda column: column.unsqueeze(0), row)
        values = {**fixed, **learning}
        if isinstance(one, dict):
            outputs = functional_call(model, values, (), one)
        else:
            outputs = functional_call(model, values, one if isinstance(one, Tensor) else tuple(one))
        return _size(batch.parts(outputs), output)

    gradients: Callable[..., dict[str, Tensor]] = vmap(grad(size_of_one))
    fixed = {name: value.detach() for name, value in model.named_parameters()}
    constants = {name: value.detach() for name, value in parameters.items()}
    numbers = sum(value.numel() for value in constants.values())
    total = {name: closed.zeros(value) for name, value in constants.items()}
    with closed.vectorising(model):
        for chunk in forms.chunks(batch.rows(inputs), numbers):
            rows = batch.take(inputs, chunk)
            count = batch.rows(rows)
            views = {name: value.expand(count, *value.shape) for name, value in constants.items()}
            for name, values in gradients(views, rows).items():
                total[name] += values.abs().sum(0, dtype=total[name].dtype)
    return total


def _one_by_one(
    model: nn.Module, parameters: Parameters, inputs: Batch, output: Output
) -> dict[str, Tensor]:
    """The slow way that any model can go: one forward and one backward pass a sample."""
    total = {name: closed.zeros(value) for name, value in parameters.items()}
    for index in range(batch.rows(inputs)):
        with torch.enable_grad():
            one = batch.take(inputs, slice(index, index + 1))
            size = _size(batch.parts(batch.call(model, one)), output)
        if not size.requires_grad:
            continue
        gradients = torch.autograd.grad(size, list(parameters.values()), allow_unused=True)
        for name, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                total[name] += gradient.to_dense().abs()
    return total
