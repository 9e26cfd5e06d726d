"""From tracks to what a network learns: pairs of tracks of two people, as triplets of faces.

Faces are known by their number in a gallery, so that a triplet is three numbers and the buffer
keeps numbers, not pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from taskfree.batch import Batch
from taskfree.how import MAS

__all__ = ["FaceMAS", "Faces", "Pair", "Seen", "pairs", "triplet_loss", "triplets"]

RECENT = 4
"""People with whom a new track is compared, where nobody says who it is."""


@dataclass(frozen=True)
class Seen:
    """A track: the faces of one person, one after the other."""

    episode: int
    actor: str
    """Who it is; empty if nobody has said."""
    faces: tuple[int, ...]
    """Their numbers in the gallery, in the order of time."""
    together: frozenset[int] = frozenset()
    """Places of the tracks that are seen in the same frame: other people."""


class Pair(NamedTuple):
    """A time step: two tracks of two people."""

    episode: int
    first: tuple[int, ...]
    second: tuple[int, ...]


def pairs(tracks: Sequence[Seen]) -> Iterator[Pair]:
    """With weak supervision: two consecutive tracks that an annotator calls different people.

    >>> leo, amy = Seen(1, "leo", (0, 1)), Seen(1, "amy", (2, 3))
    >>> [pair.first for pair in pairs([leo, leo, amy, leo])]
    [(0, 1), (2, 3)]
    """
    for before, now in pairwise(tracks):
        known = before.actor and now.actor
        if known and before.actor != now.actor and before.episode == now.episode:
            yield Pair(now.episode, before.faces, now.faces)


def pairs_together(tracks: Sequence[Seen]) -> Iterator[Pair]:
    """With none: two tracks that share a frame, which must be two people.

    >>> tracks = [Seen(1, "", (0, 1), frozenset([1])), Seen(1, "", (2,), frozenset([0]))]
    >>> list(pairs_together(tracks))
    [Pair(episode=1, first=(0, 1), second=(2,))]
    """
    for at, track in enumerate(tracks):
        for other in sorted(track.together):
            if other > at:
                yield Pair(track.episode, track.faces, tracks[other].faces)


def merged(tracks: Sequence[Seen], features: Tensor, nearest: float) -> list[Seen]:
    """Join tracks that follow soon after each other and look alike to the network as it was before.

    A track is compared with the last of each of the people of its episode who appeared most
    recently, `RECENT` of them: a dialogue goes back and forth between two or a few. It is joined to
    the one whose mean features are nearest, if that is nearer than `nearest`, as a share of the
    mean distance between the tracks of the episode; tracks that share a frame never are.
    """
    if not tracks:
        return []
    means = torch.stack([features[list(track.faces)].flatten(1).mean(0) for track in tracks])
    usual: dict[int, float] = {}
    for episode in {track.episode for track in tracks}:
        own = [at for at, track in enumerate(tracks) if track.episode == episode]
        chosen = torch.linspace(0, len(own) - 1, min(len(own), 200)).round().long().tolist()
        distances = torch.pdist(means[[own[at] for at in chosen]])
        usual[episode] = float(distances.mean()) if len(distances) else 0.0
    home: list[int] = []  # of each track, the place of the joined one
    joined: list[Seen] = []
    last: list[int] = []  # of each joined one, its newest track
    for at, track in enumerate(tracks):
        together = {home[other] for other in track.together if other < at}
        candidates = [
            place
            for place in sorted(range(len(joined)), key=last.__getitem__)[-RECENT:]
            if joined[place].episode == track.episode and place not in together
        ]
        away = {place: float((means[last[place]] - means[at]).norm()) for place in candidates}
        best = min(away, key=away.__getitem__, default=None)
        if best is not None and away[best] < nearest * usual[track.episode]:
            joined[best] = replace(joined[best], faces=joined[best].faces + track.faces)
            home.append(best)
            last[best] = at
        else:
            home.append(len(joined))
            joined.append(replace(track, together=frozenset()))
            last.append(at)
    shared: list[set[int]] = [set() for _ in joined]
    for at, track in enumerate(tracks):
        shared[home[at]] |= {home[other] for other in track.together} - {home[at]}
    return [
        replace(track, together=frozenset(others))
        for track, others in zip(joined, shared, strict=True)
    ]


def triplets(pair: Pair, most: int = 100, generator: torch.Generator | None = None) -> Tensor:
    """Three numbers of faces a row: anchor and another face of its track, and one of the other.

    Every face is an anchor once, but the only one of a track, which has no other. If there are more
    than `most` faces, so many are chosen by chance.

    >>> found = triplets(Pair(1, (0, 1, 2), (5, 6)))
    >>> found.shape, found[:3, 2].min() >= 5, (found[:, 0] != found[:, 1]).all()
    (torch.Size([5, 3]), tensor(True), tensor(True))
    """
    first, second = torch.tensor(pair.first), torch.tensor(pair.second)
    if len(first) + len(second) > most:
        chosen = torch.randperm(len(first) + len(second), generator=generator)[:most].sort().values
        first, second = (
            first[chosen[chosen < len(first)]],
            second[chosen[chosen >= len(first)] - len(first)],
        )
    found = []
    for own, other in ((first, second), (second, first)):
        if len(own) < 2 or not len(other):
            continue
        count = len(own)
        step = torch.randint(1, count, (count,), generator=generator)
        positive = own[(torch.arange(count) + step) % count]
        negative = other[torch.randint(len(other), (count,), generator=generator)]
        found.append(torch.stack([own, positive, negative], dim=1))
    return torch.cat(found) if found else torch.zeros(0, 3, dtype=torch.long)


class Faces(nn.Module):
    """Embeddings of faces by their numbers: of one face a row, or of the three of a triplet.

    A face that is in several triplets goes through the network once.

    Args:
        network: from what the gallery holds to an embedding.
        gallery: a row a face: its picture, or features of it that do not change.
        prepare: what is done to rows of the gallery first.

    >>> faces = Faces(nn.Linear(4, 2), gallery=torch.randn(10, 4))
    >>> faces(torch.tensor([3, 7])).shape, faces(torch.tensor([[3, 7, 1]])).shape
    (torch.Size([2, 2]), torch.Size([1, 3, 2]))
    """

    def __init__(
        self,
        network: nn.Module,
        gallery: Tensor,
        prepare: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.network, self.gallery, self.prepare = network, gallery, prepare

    def forward(self, numbers: Tensor) -> Tensor:
        """Embeddings."""
        if numbers.dim() == 1:
            return self._embed(numbers)
        once, places = torch.unique(numbers, return_inverse=True)
        found: Tensor = self._embed(once)[places]
        return found

    def _embed(self, numbers: Tensor) -> Tensor:
        rows = self.gallery[numbers]
        embedding: Tensor = self.network(rows if self.prepare is None else self.prepare(rows))
        return embedding


class FaceMAS(MAS):
    """MAS for triplets: a triplet is three inputs."""

    def consolidate(self, model: nn.Module, inputs: Batch) -> None:
        """Update the importance on every face of these triplets."""
        assert isinstance(inputs, Tensor)
        super().consolidate(model, inputs.flatten())


def triplet_loss(outputs: Tensor, _: Tensor) -> Tensor:
    """The triplet margin loss of each triplet.

    >>> same = torch.zeros(1, 3, 2)
    >>> triplet_loss(same, torch.zeros(1))
    tensor([1.])
    """
    anchor, positive, negative = outputs.unbind(1)
    return nn.functional.triplet_margin_loss(anchor, positive, negative, reduction="none")
