"""From tracks to triplets: pairs of tracks of two people become triplets of faces.

A face is represented by its index in a gallery, so a triplet is three integers, and the buffer
stores integers instead of images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from taskfree._core.batch import Batch
from taskfree.how import MAS

__all__ = ["FaceMAS", "Faces", "Pair", "TVTrack", "pairs", "triplet_loss", "triplets"]

RECENT = 4
"""How many people a new track is compared with, in self-supervised learning."""


@dataclass(frozen=True)
class TVTrack:
    """A track: successive faces of one person."""

    episode: int
    actor: str
    """The person's name; empty if unknown."""
    faces: tuple[int, ...]
    """Indices in the gallery, in temporal order."""
    co_occurring: frozenset[int] = frozenset()
    """Indices of the tracks that share a frame with it: other people."""


class Pair(NamedTuple):
    """A time step: two tracks of two people."""

    episode: int
    first: tuple[int, ...]
    second: tuple[int, ...]


def pairs(tracks: Sequence[TVTrack]) -> Iterator[Pair]:
    """Weakly supervised: consecutive tracks that an annotator labels as different people.

    >>> leo, amy = TVTrack(1, "leo", (0, 1)), TVTrack(1, "amy", (2, 3))
    >>> [pair.first for pair in pairs([leo, leo, amy, leo])]
    [(0, 1), (2, 3)]
    """
    for before, now in pairwise(tracks):
        known = before.actor and now.actor
        if known and before.actor != now.actor and before.episode == now.episode:
            yield Pair(now.episode, before.faces, now.faces)


def co_occurring_pairs(tracks: Sequence[TVTrack]) -> Iterator[Pair]:
    """Self-supervised: tracks that share a frame, which must be different people.

    >>> tracks = [TVTrack(1, "", (0, 1), frozenset([1])), TVTrack(1, "", (2,), frozenset([0]))]
    >>> list(co_occurring_pairs(tracks))
    [Pair(episode=1, first=(0, 1), second=(2,))]
    """
    for index, track in enumerate(tracks):
        for other in sorted(track.co_occurring):
            if other > index:
                yield Pair(track.episode, track.faces, tracks[other].faces)


def merge_tracks(tracks: Sequence[TVTrack], features: Tensor, threshold: float) -> list[TVTrack]:
    """Merge tracks that follow soon after each other and look alike to the initial network.

    Of the people of its episode, a track is compared with the `RECENT` who appeared last, because a
    dialogue alternates between a few people: its mean features with those of the last track of
    each. It is merged into the nearest if their distance is below `threshold` times the mean
    distance between the tracks of the episode. Tracks that share a frame are never merged.
    """
    if not tracks:
        return []
    means = torch.stack([features[list(track.faces)].flatten(1).mean(0) for track in tracks])
    mean_distance: dict[int, float] = {}
    for episode in {track.episode for track in tracks}:
        own = [index for index, track in enumerate(tracks) if track.episode == episode]
        sample = torch.linspace(0, len(own) - 1, min(len(own), 200)).round().long().tolist()
        distances = torch.pdist(means[[own[at] for at in sample]])
        mean_distance[episode] = float(distances.mean()) if len(distances) else 0.0
    person_of: list[int] = []  # for each track, the index of its merged track
    merged: list[TVTrack] = []
    last: list[int] = []  # for each merged track, the index of its newest track
    for index, track in enumerate(tracks):
        others = {person_of[other] for other in track.co_occurring if other < index}
        candidates = [
            person
            for person in sorted(range(len(merged)), key=last.__getitem__)[-RECENT:]
            if merged[person].episode == track.episode and person not in others
        ]
        distance = {p: float((means[last[p]] - means[index]).norm()) for p in candidates}
        nearest = min(distance, key=distance.__getitem__, default=None)
        if nearest is not None and distance[nearest] < threshold * mean_distance[track.episode]:
            faces = merged[nearest].faces + track.faces
            merged[nearest] = replace(merged[nearest], faces=faces)
            person_of.append(nearest)
            last[nearest] = index
        else:
            person_of.append(len(merged))
            merged.append(replace(track, co_occurring=frozenset()))
            last.append(index)
    co_occurring: list[set[int]] = [set() for _ in merged]
    for person, track in zip(person_of, tracks, strict=True):
        co_occurring[person] |= {person_of[other] for other in track.co_occurring} - {person}
    return [
        replace(track, co_occurring=frozenset(others))
        for track, others in zip(merged, co_occurring, strict=True)
    ]


def triplets(pair: Pair, most: int = 100, generator: torch.Generator | None = None) -> Tensor:
    """One triplet of face indices per row: an anchor, another face of its track, one of the other.

    Every face is the anchor once, except in a track of a single face, which has no positive. If
    there are more than `most` faces, `most` of them are chosen at random.

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
    """Maps indices of faces to embeddings: one face per row, or the three faces of a triplet.

    A face in several triplets goes through the network once.

    Args:
        network: maps rows of the gallery to embeddings.
        gallery: one row per face: its image, or fixed features of it.
        prepare: applied to rows of the gallery first.

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

    def forward(self, indices: Tensor) -> Tensor:
        """The embeddings of these faces."""
        if indices.dim() == 1:
            return self._embed(indices)
        unique, inverse = torch.unique(indices, return_inverse=True)
        found: Tensor = self._embed(unique)[inverse]
        return found

    def _embed(self, indices: Tensor) -> Tensor:
        rows = self.gallery[indices]
        embedding: Tensor = self.network(rows if self.prepare is None else self.prepare(rows))
        return embedding


class FaceMAS(MAS):
    """MAS for triplets: each triplet counts as three inputs."""

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
