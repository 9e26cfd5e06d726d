"""AlexNet, with torchvision's names, so that its weights load."""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

__all__ = ["AlexNet", "prepared"]

SIZE = 224
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's pictures, by colour."""


class AlexNet(nn.Module):
    """The network of the paper's section 4.2: pictures of 3x224x224 in, an embedding out.

    Args:
        outputs: how long an embedding is.
        weights: a file with the weights of the convolutions, `features.*`: of safetensors, as
            `taskfree data alexnet` fetches it, or torchvision's own (.pth); random ones if not
            given. Of a whole network nothing else is taken: the paper's other layers begin at
            random.
        seed: of the random weights.
        dropout: the share of units that are left out while learning.

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
        """The part before `classifier`: features of pictures, in a row each."""
        return nn.Sequential(self.features, self.avgpool, nn.Flatten())

    def forward(self, pictures: Tensor) -> Tensor:
        """Embeddings of pictures."""
        embedding: Tensor = self.classifier(self.avgpool(self.features(pictures)).flatten(1))
        return embedding


def _read(file: Path, wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the convolutions in a file; only tensors are read from it."""
    try:
        if Path(file).suffix == ".safetensors":
            found = load_file(file)
        else:
            # torchvision's own format; what would run code is refused
            found = torch.load(file, map_location="cpu", weights_only=True)  # noqa: TID251
    except (SafetensorError, UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(f"weights: {file} cannot be read: {error}") from error
    for name, value in wanted.items():
        if (own := found.get(f"features.{name}")) is None or own.shape != value.shape:
            raise ValueError(
                f"weights must be AlexNet's by torchvision's names; in {file}, features.{name} "
                f"is missing or has another shape than {list(value.shape)}"
            )
    return {name: found[f"features.{name}"] for name in wanted}


def prepared(pictures: Tensor) -> Tensor:
    """Pictures of bytes, [n, height, width, 3], as the network wants them."""
    values = pictures.permute(0, 3, 1, 2).contiguous().float() / 255
    if values.shape[-2:] != (SIZE, SIZE):
        values = nn.functional.interpolate(
            values, (SIZE, SIZE), mode="bilinear", antialias=True, align_corners=False
        )
    mean, deviation = (torch.tensor(v).view(3, 1, 1) for v in (MEAN, DEVIATION))
    return (values - mean) / deviation
