"""AlexNet with torchvision's parameter names, so that its weights can be loaded."""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251 - an error of torch.load

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

__all__ = ["AlexNet", "preprocess"]

SIZE = 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the channels of ImageNet's images."""


class AlexNet(nn.Module):
    """The network of the paper's section 4.2: maps images of 3x224x224 to embeddings.

    Args:
        outputs: the length of an embedding.
        weights: a file with the weights of the convolutions, `features.*`: safetensors, as
            `taskfree data alexnet` downloads it, or torchvision's own file (.pth); random weights
            by default. Other weights in the file are ignored: as in the paper, the other layers
            start from random weights.
        seed: of the random weights.
        dropout: the dropout probability of the fully connected layers.

    >>> AlexNet(100)(torch.zeros(2, 3, 224, 224)).shape
    torch.Size([2, 100])
    """

    def __init__(
        self,
        outputs: int = 100,
        weights: Path | None = None,
        seed: int = 0,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.features = nn.Sequential(
                nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
                nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
                nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(),
                nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
                nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2),
            )  # fmt: skip
            self.avgpool = nn.AdaptiveAvgPool2d(6)
            self.classifier = nn.Sequential(
                nn.Dropout(dropout), nn.Linear(256 * 36, 4096), nn.ReLU(),
                nn.Dropout(dropout), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, outputs),
            )  # fmt: skip
        if weights is not None:
            self.features.load_state_dict(_read(weights, self.features.state_dict()))

    @property
    def convolutions(self) -> nn.Module:
        """The part before `classifier`: maps images to rows of features."""
        return nn.Sequential(self.features, self.avgpool, nn.Flatten())

    def forward(self, images: Tensor) -> Tensor:
        """Embeddings of images."""
        embedding: Tensor = self.classifier(self.avgpool(self.features(images)).flatten(1))
        return embedding


def _read(file: Path, expected: dict[str, Tensor]) -> dict[str, Tensor]:
    """Read the weights of the convolutions from a file; nothing but tensors is loaded."""
    try:
        if Path(file).suffix == ".safetensors":
            found = load_file(file)
        else:
            # torchvision's own format; a file that would run code is refused
            found = torch.load(  # noqa: TID251 - weights only: it runs no code
                file, map_location="cpu", weights_only=True
            )
    except (SafetensorError, UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(f"weights: {file} cannot be read: {error}") from error
    for name, value in expected.items():
        if (tensor := found.get(f"features.{name}")) is None or tensor.shape != value.shape:
            raise ValueError(
                f"weights must be AlexNet's, with torchvision's names; in {file}, features.{name} "
                f"is missing or its shape is not {list(value.shape)}"
            )
    return {name: found[f"features.{name}"] for name in expected}


def preprocess(images: Tensor) -> Tensor:
    """Convert images of bytes, [n, height, width, 3], to inputs of the network."""
    values = images.permute(0, 3, 1, 2).contiguous().float() / 255
    if values.shape[-2:] != (SIZE, SIZE):
        values = nn.functional.interpolate(
            values, (SIZE, SIZE), mode="bilinear", antialias=True, align_corners=False
        )
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (MEAN, STD))
    return (values - mean) / std
