"""Who is it: the nearest of a few known faces of each person."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

__all__ = ["Templates"]


class Templates:
    """A few faces of each person, with which a new one is compared.

    Args:
        faces: by person, numbers of faces in a gallery.

    >>> gallery = torch.tensor([[0.0, 0.0], [5.0, 5.0], [0.0, 1.0]])
    >>> known = Templates({"amy": [0], "leo": [1]})
    >>> known.who(gallery.__getitem__, torch.tensor([2]))
    ['amy']
    >>> known.accuracy(gallery.__getitem__, {"amy": [2], "leo": [1]})
    {'amy': 1.0, 'leo': 1.0}
    """

    def __init__(self, faces: Mapping[str, Sequence[int]]) -> None:
        if not faces or not all(faces.values()):
            raise ValueError(f"templates must have at least one face of each person, got {faces}")
        self.names = list(faces)
        self.numbers = torch.tensor([face for own in faces.values() for face in own])
        self.owners = torch.tensor([at for at, own in enumerate(faces.values()) for _ in own])

    def who(self, embed: Callable[[Tensor], Tensor], faces: Tensor) -> list[str]:
        """The person of the nearest template, by Euclidean distance, of each face."""
        return [self.names[at] for at in self._nearest(embed, faces).tolist()]

    def _nearest(self, embed: Callable[[Tensor], Tensor], faces: Tensor) -> Tensor:
        known = embed(self.numbers)
        parts = torch.split(faces, 256)
        return self.owners[torch.cat([torch.cdist(embed(p), known).argmin(1) for p in parts])]

    def accuracy(
        self, embed: Callable[[Tensor], Tensor], faces: Mapping[str, Sequence[int]]
    ) -> dict[str, float]:
        """The share of each person's faces that are recognised."""
        numbers = torch.tensor([face for own in faces.values() for face in own])
        actual = torch.tensor([self.names.index(name) for name, own in faces.items() for _ in own])
        right = (self._nearest(embed, numbers) == actual).double()
        return {
            name: float(right[actual == self.names.index(name)].mean())
            for name, own in faces.items()
            if own
        }
