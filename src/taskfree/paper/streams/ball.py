"""The synthetic stream: is a point in 4-D inside the unit ball? One quadrant at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

GAP = 0.05
"""Points closer to the sphere than this are left out."""

SIGNS = ((1, 1), (-1, 1), (-1, -1), (1, -1))
"""The signs of the first two coordinates in each quadrant, counter-clockwise from the first."""


def quadrant(
    number: int, samples: int, generator: torch.Generator, *, flat: bool = False
) -> tuple[Tensor, Tensor]:
    """Points of one quadrant in random order, half inside the ball (label 1), half outside (0).

    The first two coordinates are between 0.5 and 1 in size, with the quadrant's signs; the other
    two are between -1 and 1, or 0 if `flat`, as in the authors' test points.

    >>> x, y = quadrant(2, 100, torch.Generator().manual_seed(0))
    >>> x.shape, int(y.sum()), bool((x[:, 0] < 0).all())
    (torch.Size([100, 4]), 50, True)
    """
    wanted = {0: samples // 2, 1: samples - samples // 2}
    chosen: list[Tensor] = []
    while any(wanted.values()):
        x = torch.empty(4 * samples, 4)
        x[:, :2].uniform_(0.5, 1, generator=generator)
        x[:, 2:].uniform_(-1, 1, generator=generator)
        x[:, :2] *= torch.tensor(SIGNS[number - 1])
        if flat:
            x[:, 2:] = 0
        x = x[(torch.linalg.vector_norm(x, dim=1) - 1).abs() > GAP]
        labels = inside(x)
        for label in wanted:
            found = x[labels == label][: wanted[label]]
            wanted[label] -= len(found)
            chosen.append(found)
    x = torch.cat(chosen)[torch.randperm(samples, generator=generator)]
    return x, inside(x)


def inside(x: Tensor) -> Tensor:
    """1 for each point inside the unit ball, 0 for the others.

    >>> inside(torch.tensor([[0.5, 0.5, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]]))
    tensor([1, 0])
    """
    distance: Tensor = torch.linalg.vector_norm(x, dim=1)
    return distance.lt(1).long()


def batches(x: Tensor, y: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The samples in order, `size` at a time.

    >>> [len(x) for x, y in batches(torch.zeros(5, 4), torch.zeros(5), 2)]
    [2, 2, 1]
    """
    yield from zip(torch.split(x, size), torch.split(y, size), strict=True)
