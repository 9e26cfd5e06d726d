"""The function whose sensitivity is the importance: the norm of the output for one input."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

Output: TypeAlias = Literal["squared", "norm"]


def output_norm(outputs: list[Tensor], kind: Output) -> Tensor:
    """The squared norm, or the norm, of all outputs for one input.

    >>> output_norm([torch.tensor([3.0, 4.0])], "squared"), output_norm([torch.zeros(2)], "norm")
    (tensor(25.), tensor(0.))
    """
    squared = torch.stack([_wide(part).square().sum() for part in outputs]).sum()
    if kind == "squared":
        return squared
    positive = squared > 0  # the norm has no gradient at zero, where the square root's is infinite
    return torch.where(positive, torch.where(positive, squared, 1.0).sqrt(), 0.0)


def squared_slopes(outputs: list[Tensor]) -> list[Tensor]:
    """The derivative of the squared norm with respect to the outputs.

    >>> squared_slopes([torch.tensor([[3.0, 4.0]])])
    [tensor([[6., 8.]])]
    """
    return [2 * part for part in outputs]


def norm_slopes(outputs: list[Tensor]) -> list[Tensor]:
    """The derivative of each sample's norm; 0 where the norm is 0 and has none.

    >>> norm_slopes([torch.tensor([[3.0, 4.0], [0.0, 0.0]])])
    [tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])]
    """
    rows = [_wide(part).reshape(part.shape[0], -1) for part in outputs]
    norm = torch.stack([part.square().sum(1) for part in rows]).sum(0).sqrt()
    scale = torch.where(norm > 0, 1 / norm, 0.0)
    return [(part * scale.view(-1, *[1] * (part.dim() - 1))).to(part.dtype) for part in outputs]


def _wide(part: Tensor) -> Tensor:
    """In single precision at least: squares soon leave the range of half precision."""
    return part.to(torch.promote_types(part.dtype, torch.float32))
