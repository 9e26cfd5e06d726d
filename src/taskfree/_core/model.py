"""A model's parameters, its eval mode, and its state around a call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from taskfree._core.rollback import preserved


def unwrap(model: nn.Module) -> nn.Module:
    """The model itself, without the wrappers of `torch.compile` and DistributedDataParallel.

    >>> unwrap(nn.Linear(1, 1))
    Linear(in_features=1, out_features=1, bias=True)
    """
    while True:
        if "_orig_mod" in model._modules:
            model = model.get_submodule("_orig_mod")
        elif isinstance(model, DistributedDataParallel):
            model = model.module
        else:
            return model


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that require gradients, each once, by the first of its names.

    >>> list(trainable(nn.Linear(2, 1).requires_grad_(False)))
    []
    """
    found = unwrap(model).named_parameters()
    return {name: value for name, value in found if value.requires_grad}


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, each once, by the first of its names.

    >>> list(named_tensors(nn.BatchNorm1d(2)))
    ['weight', 'bias', 'running_mean', 'running_var', 'num_batches_tracked']
    """
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch a model to eval mode, and restore modes, attributes and buffers afterwards.

    >>> model = nn.Dropout()
    >>> with evaluating(model):
    ...     model.training
    False
    >>> model.training
    True
    """
    with preserved(model):
        if any(module.training for module in model.modules()):
            model.eval()
        yield
