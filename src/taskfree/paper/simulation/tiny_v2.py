"""Tiny v2, the small convolutional network of the authors' robots."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["network", "standardize"]


def network(outputs: int = 3, seed: int = 0) -> nn.Sequential:
    """Two convolutional and two linear layers for images of 128x128, with Xavier initialization.

    >>> network()(standardize(torch.zeros(2, 128, 128, 3, dtype=torch.uint8))).shape
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


def standardize(images: Tensor) -> Tensor:
    """Convert images of bytes, [n, 128, 128, 3], to inputs of the network.

    Each image gets mean 0 and standard deviation 1, so brightness makes no difference.
    """
    values = images.permute(0, 3, 1, 2).float()
    spread, mean = torch.std_mean(values, dim=(1, 2, 3), keepdim=True)
    return (values - mean) / spread.clamp_min(1)
