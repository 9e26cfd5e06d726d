"""Recognition: the person of the nearest template, a known face."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

__all__ = ["Templates"]


class Templates:
    """A few known faces of each person, with which a new face is compared.

    Args:
        faces: by person, indices of faces in a gallery.

    >>> gallery = torch.tensor([[0.0, 0.0], [5.0, 5.0], [0.0, 1.0]])
    >>> known = Templates({"amy": [0], "leo": [1]})
    >>> known.identify(gallery.__getitem__, torch.tensor([2]))
    ['amy']
    """

    def __init__(self, faces: Mapping[str, Sequence[int]]) -> None:
        if not faces or not all(faces.values()):
            raise ValueError(f"templates need at least one face of each person, got {faces}")
        self.names = list(faces)
        self.indices = torch.tensor([face for own in faces.values() for face in own])
        self.owners = torch.tensor([at for at, own in enumerate(faces.values()) for _ in own])

    def identify(self, embed: Callable[[Tensor], Tensor], faces: Tensor) -> list[str]:
        """For each face, the person of the nearest template by Euclidean distance."""
        known = embed(self.indices)
        nearest = [torch.cdist(embed(part), known).argmin(1) for part in torch.split(faces, 256)]
        return [self.names[at] for at in self.owners[torch.cat(nearest)].tolist()]
