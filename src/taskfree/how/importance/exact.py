"""The exact importance, each parameter by the fastest way that is exact for it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from taskfree._core import batch
from taskfree._core.batch import Batch
from taskfree._core.distributed import process_group
from taskfree._core.model import evaluating, trainable, unwrap
from taskfree.how.importance import fast, general
from taskfree.how.importance.norms import Output, norm_slopes, squared_slopes


def estimate(model: nn.Module, inputs: Batch, output: Output = "squared") -> dict[str, Tensor]:
    """The exact importance of every trainable parameter, averaged over the rows of `inputs`.

    The model is evaluated in eval mode (dropout off, batch norm with its running statistics) and
    is unchanged afterwards, including its gradients. In a process group of `torch.distributed` the
    average is over the rows of all ranks.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> _ = nn.init.ones_(model.weight)
    >>> estimate(model, torch.tensor([[1.0, 2.0], [-1.0, -2.0]]))
    {'weight': tensor([[ 6., 12.]])}
    """
    model = unwrap(model)
    parameters, processes = trainable(model), process_group(model)
    total = processes.call(lambda: _sums(model, parameters, inputs, output))
    rows = sum(processes.gather(lambda: batch.rows(inputs)))
    processes.sum_(total[name] for name in parameters)
    torch._foreach_div_(list(total.values()), rows)
    return {name: total[name].to(value.dtype) for name, value in parameters.items()}


def _sums(
    model: nn.Module, parameters: Mapping[str, nn.Parameter], inputs: Batch, output: Output
) -> dict[str, Tensor]:
    """sum_k |d f(x_k) / d theta| over the rows on this rank."""
    if not batch.rows(inputs):  # all samples are on other ranks
        return {name: fast.zeros(value) for name, value in parameters.items()}
    slopes = squared_slopes if output == "squared" else norm_slopes
    with evaluating(model):
        total = fast.sums(model, parameters, inputs, slopes)
        rest = {name: value for name, value in parameters.items() if name not in total}
        if rest:
            total |= general.sums(model, rest, inputs, output)
    return total
