"""The networks of the speed measurements."""

from __future__ import annotations

from torch import nn


def mlp() -> nn.Module:
    """The network of the synthetic experiment: 4-100-100-2."""
    return nn.Sequential(
        nn.Linear(4, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 2)
    )


def tiny() -> nn.Module:
    """Tiny v2 of the paper's supplement, for images of 128x128."""
    return nn.Sequential(
        nn.Conv2d(3, 10, 6, 3), nn.ReLU(), nn.Conv2d(10, 20, 3, 2), nn.ReLU(), nn.Flatten(),
        nn.Linear(8000, 1024), nn.ReLU(), nn.Linear(1024, 3),
    )  # fmt: skip


def alexnet() -> nn.Module:
    """AlexNet with 100 outputs, for images of 224x224."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(True), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(True), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(True),
        nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(True),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(3, 2),
        nn.AdaptiveAvgPool2d(6), nn.Flatten(), nn.Dropout(),
        nn.Linear(9216, 4096), nn.ReLU(True), nn.Dropout(),
        nn.Linear(4096, 4096), nn.ReLU(True), nn.Linear(4096, 100),
    )  # fmt: skip


def connected(parameters: float) -> nn.Module:
    """A fully connected network with about this many parameters."""
    width = round((parameters / 2) ** 0.5)
    return nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10),
    )  # fmt: skip
