"""The exact importance for any module: `torch.func`, or one sample at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from taskfree._core import batch
from taskfree._core.batch import Batch
from taskfree.how.importance import fast, layers
from taskfree.how.importance.norms import Output, output_norm

Parameters: TypeAlias = Mapping[str, Tensor]


@torch.no_grad()
def sums(
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
    """Whether vmap reached the parameters; it does not if the model holds them in a list."""
    return all(
        float((first[name] - value).abs().max())
        <= float(value.max()) * torch.finfo(value.dtype).eps ** 0.5
        for name, value in second.items()
    )


def _vectorised(
    model: nn.Module, parameters: Parameters, inputs: Batch, output: Output
) -> dict[str, Tensor]:
    """By `torch.func`: the gradients of a chunk of samples at once.

    Each sample gets its own view of the parameters, without a copy: recurrent layers vectorise
    only if their parameters do.
    """

    def norm_of_one(learning: Parameters, row: Batch) -> Tensor:
        one: Any = batch.apply(lambda column: column.unsqueeze(0), row)
        values = {**fixed, **learning}
        if isinstance(one, dict):
            outputs = functional_call(model, values, (), one)
        else:
            outputs = functional_call(model, values, one if isinstance(one, Tensor) else tuple(one))
        return output_norm(batch.output_tensors(outputs), output)

    gradients: Callable[..., dict[str, Tensor]] = vmap(grad(norm_of_one))
    fixed = {name: value.detach() for name, value in model.named_parameters()}
    constants = {name: value.detach() for name, value in parameters.items()}
    numbers = sum(value.numel() for value in constants.values())
    total = {name: fast.zeros(value) for name, value in constants.items()}
    with fast.vectorising(model):
        for chunk in layers.chunks(batch.rows(inputs), numbers):
            rows = batch.take(inputs, chunk)
            count = batch.rows(rows)
            views = {name: value.expand(count, *value.shape) for name, value in constants.items()}
            for name, values in gradients(views, rows).items():
                total[name] += values.abs().sum(0, dtype=total[name].dtype)
    return total


def _one_by_one(
    model: nn.Module, parameters: Parameters, inputs: Batch, output: Output
) -> dict[str, Tensor]:
    """The slow way that works for any model: one forward and backward pass per sample."""
    total = {name: fast.zeros(value) for name, value in parameters.items()}
    for index in range(batch.rows(inputs)):
        with torch.enable_grad():
            one = batch.take(inputs, slice(index, index + 1))
            norm = output_norm(batch.output_tensors(batch.call(model, one)), output)
        if not norm.requires_grad:
            continue
        gradients = torch.autograd.grad(norm, list(parameters.values()), allow_unused=True)
        for name, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                total[name] += gradient.to_dense().abs()
    return total
