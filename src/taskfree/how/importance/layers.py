"""Closed forms for the sum of a layer's absolute per-sample gradients.

The gradient of a layer's weight is made of the layer's input (a) and the gradient with respect to
its output (delta). Each form adds sign * sum_k |gradient_k| to `sums`, by the parameter's name in
the layer, without storing a gradient per sample. For a linear layer with one vector per sample:

    sum_k |delta_k outer a_k| = |delta|^T |a|

The gradients of a layer that is called several times are summed before the absolute value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

Sums: TypeAlias = dict[str, Tensor]
Call: TypeAlias = tuple[Tensor, Tensor]
"""The input of one call of a layer, and the gradient with respect to its output."""

CHUNK = 2**24
"""How many elements of per-sample gradients are held at a time, if one sample has fewer."""


def _add(total: Tensor, gradients: Tensor, sign: float) -> None:
    """Add the absolute values of per-sample gradients, samples first."""
    total.add_(gradients.abs().sum(0, dtype=total.dtype), alpha=sign)


def _sum(gradients: list[Tensor]) -> Tensor:
    """The gradients of several calls, summed before the absolute value."""
    return gradients[0] if len(gradients) == 1 else torch.stack(gradients).sum(0)


def linear(layer: nn.Linear, calls: list[Call], sums: Sums, sign: float) -> None:
    """A linear layer, with one vector per sample or several positions.

    >>> sums = {"weight": torch.zeros(1, 2)}
    >>> a, delta = torch.tensor([[1.0, 2.0], [-1.0, -2.0]]), torch.tensor([[3.0], [1.0]])
    >>> linear(nn.Linear(2, 1), [(a, delta)], sums, 1.0)
    >>> sums["weight"]
    tensor([[4., 8.]])
    """
    if len(calls) == 1 and calls[0][0].dim() == 2:  # one vector per sample: one matrix product
        a, delta = (part.abs() for part in calls[0])
        if "weight" in sums:
            total = sums["weight"]
            total.addmm_(delta.T.to(total.dtype), a.to(total.dtype), alpha=sign)
        if "bias" in sums:
            sums["bias"].add_(delta.sum(0, dtype=sums["bias"].dtype), alpha=sign)
        return
    a = torch.cat([_positions(a) for a, _ in calls], dim=1)
    delta = torch.cat([_positions(delta) for _, delta in calls], dim=1)
    if "bias" in sums:
        _add(sums["bias"], delta.sum(1), sign)
    if "weight" in sums:
        for rows in chunks(len(a), layer.weight.numel()):
            _add(sums["weight"], torch.bmm(delta[rows].transpose(1, 2), a[rows]), sign)


def _conv(layer: Any, calls: list[Call], sums: Sums, sign: float) -> None:
    if "bias" in sums:
        _add(sums["bias"], _sum([delta.flatten(2).sum(2) for _, delta in calls]), sign)
    if "weight" not in sums:
        return
    padding = layer.padding
    if isinstance(padding, str) or layer.padding_mode != "zeros":
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        sides = layer._reversed_padding_repeated_twice
        calls = [(F.pad(a, sides, mode=mode), delta) for a, delta in calls]
        padding = [0] * len(layer.stride)
    still = [0] * len(layer.stride)
    for index in range(len(calls[0][0])):  # one sample at a time: memory stays flat
        gradient: Tensor | None = None
        for a, delta in calls:
            one = torch.ops.aten.convolution_backward(
                delta[index : index + 1], a[index : index + 1], layer.weight.detach(), None,
                layer.stride, padding, layer.dilation, False, still, layer.groups,
                (False, True, False),
            )[1]  # fmt: skip
            gradient = one if gradient is None else gradient + one
        if gradient is not None:
            sums["weight"].add_(gradient.abs_(), alpha=sign)


def _channels(normal: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
    """Per-sample gradients of a scale and a shift of each channel, the second dimension."""
    return (delta * normal).flatten(2).sum(2), delta.flatten(2).sum(2)


def _batch_norm(layer: Any, calls: list[Call], sums: Sums, sign: float) -> None:
    def normal(a: Tensor) -> Tensor:
        return F.batch_norm(a, layer.running_mean, layer.running_var, eps=layer.eps)

    _scale_and_shift([_channels(*_wide(normal(a), delta)) for a, delta in calls], sums, sign)


def _group_norm(layer: nn.GroupNorm, calls: list[Call], sums: Sums, sign: float) -> None:
    def normal(a: Tensor) -> Tensor:
        return F.group_norm(a, layer.num_groups, eps=layer.eps)

    _scale_and_shift([_channels(*_wide(normal(a), delta)) for a, delta in calls], sums, sign)


def _layer_norm(layer: Any, calls: list[Call], sums: Sums, sign: float) -> None:
    shape = tuple(layer.normalized_shape)
    norm = F.rms_norm if isinstance(layer, nn.RMSNorm) else F.layer_norm
    grads = []
    for a, delta in calls:
        positions = tuple(range(1, a.dim() - len(shape)))
        moved, shift = delta * norm(a, shape, eps=layer.eps), delta
        grads.append((moved.sum(positions), shift.sum(positions)) if positions else (moved, shift))
    _scale_and_shift(grads, sums, sign)


def _scale_and_shift(grads: list[tuple[Tensor, Tensor]], sums: Sums, sign: float) -> None:
    for name, found in zip(("weight", "bias"), zip(*grads, strict=True), strict=True):
        if name in sums:
            _add(sums[name], _sum(list(found)), sign)


def _embedding(layer: nn.Embedding, calls: list[Call], sums: Sums, sign: float) -> None:
    words = torch.cat([a.reshape(len(a), -1) for a, _ in calls], dim=1)
    delta = torch.cat([_positions(delta) for _, delta in calls], dim=1)
    if layer.padding_idx is not None:
        delta = delta * (words != layer.padding_idx).unsqueeze(-1)
    sample = torch.arange(len(words), device=words.device).unsqueeze(1)
    found, place = torch.unique(sample * layer.num_embeddings + words, return_inverse=True)
    each = delta.new_zeros(len(found), delta.shape[-1])
    each.index_add_(0, place.flatten(), delta.flatten(0, 1))
    each = each.abs_().to(sums["weight"].dtype)
    sums["weight"].index_add_(0, found % layer.num_embeddings, each, alpha=sign)


def _positions(x: Tensor) -> Tensor:
    """Samples, positions, features: one vector per sample is one position."""
    return x.reshape(len(x), -1, x.shape[-1])


def _wide(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Give vectors a third dimension, so that there are always positions to add up."""
    if first.dim() > 2:
        return first, second
    return first.unsqueeze(-1), second.unsqueeze(-1)


def chunks(samples: int, numbers: int) -> Iterator[slice]:
    """Slices of the samples whose gradients, of `numbers` elements each, stay below CHUNK.

    >>> list(chunks(3, CHUNK // 2))
    [slice(0, 2, None), slice(2, 4, None)]
    """
    size = max(1, CHUNK // max(1, numbers))
    for start in range(0, samples, size):
        yield slice(start, start + size)


Form: TypeAlias = Callable[[Any, list[Call], Sums, float], None]
FORMS: dict[type[nn.Module], Form] = {
    nn.Linear: linear,
    nn.Conv1d: _conv,
    nn.Conv2d: _conv,
    nn.Conv3d: _conv,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.BatchNorm3d: _batch_norm,
    nn.GroupNorm: _group_norm,
    nn.LayerNorm: _layer_norm,
    nn.RMSNorm: _layer_norm,
    nn.Embedding: _embedding,
}
