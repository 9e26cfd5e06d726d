"""Tiny v2, the small convolution network that the authors' robots learn with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["network", "scaled"]


def network(outputs: int = 3, seed: int = 0) -> nn.Sequential:
    """Two convolutions and two layers for pictures of 128x128, with Xavier's initial weights.

    >>> network()(scaled(torch.zeros(2, 128, 128, 3, dtype=torch.uint8))).shape
    torch.Size([2, 3])
    """
    model = nn.Sequential(
        nn.Conv2d(3, 10, 6, 3), nn.ReLU(), nn.Conv2d(10, 20, 3, 2), nn.ReLU(), nn.Flatten(),
        nn.Linear(8000, 1024), nn.ReLU(), nn.Linear(1024, outputs),
    )  # fmt: skip
    generator = torch.Generator().manual_seed(seed)
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return model


def scaled(pictures: Tensor) -> Tensor:
    """Pictures of bytes, [n, 128, 128, 3], as the network wants them.

    Each has a mean of 0 and a standard deviation of 1, so that it makes no difference whether a
    corridor is bright or dark.
    """
    values = pictures.permute(0, 3, 1, 2).float()
    spread, mean = torch.std_mean(values, dim=(1, 2, 3), keepdim=True)
    return (values - mean) / spread.clamp_min(1)
