"""A series to learn from: a gallery of faces, the tracks they are in, and what is held out."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from rich.progress import track as track_bar
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from taskfree.faces import tracks as tracks_of_faces
from taskfree.faces.alexnet import prepared
from taskfree.faces.triplets import Seen

__all__ = ["Series", "features", "from_folder"]

TEMPLATES = 5
"""Of each actor, from different episodes if there are."""


@dataclass
class Series:
    """Faces, and who is seen when."""

    gallery: Tensor
    """A row a face: pictures of bytes, [faces, height, width, 3], or features of them."""
    tracks: list[Seen]
    """In the order of time; those that are held out are not among them."""
    templates: dict[str, list[int]]
    """By actor, the faces that others are compared with."""
    held_out: dict[str, list[int]]
    """By actor, faces to test with: of tracks that are never learned, or all but the templates."""
    episode_of: list[int]
    """Of every face, the episode that it is seen in."""

    @property
    def episodes(self) -> list[int]:
        """Their numbers, in order."""
        return sorted({track.episode for track in self.tracks})

    def save(self, file: Path) -> None:
        """Keep all of it in one safetensors file."""
        told = {
            "tracks": [[t.episode, t.actor, t.faces, sorted(t.together)] for t in self.tracks],
            "templates": self.templates, "held_out": self.held_out, "episode_of": self.episode_of,
        }  # fmt: skip
        unfinished = file.with_suffix(".writing")
        save_file({"gallery": self.gallery}, unfinished, metadata={"series": json.dumps(told)})
        unfinished.replace(file)

    @classmethod
    def load(cls, file: Path) -> Series:
        """What was kept."""
        with safe_open(file, framework="pt") as kept:
            told = json.loads(kept.metadata()["series"])
            gallery = kept.get_tensor("gallery")
        tracks = [Seen(e, actor, tuple(f), frozenset(t)) for e, actor, f, t in told["tracks"]]
        return cls(gallery, tracks, told["templates"], told["held_out"], told["episode_of"])


def load(file: Path, size: int) -> Tensor:
    """A picture as bytes, [size, size, 3]; what is not square is cut at its longer sides."""
    with Image.open(file) as opened:
        picture = opened.convert("RGB")
        side = min(picture.size)
        left, top = (picture.width - side) // 2, (picture.height - side) // 2
        picture = picture.crop((left, top, left + side, top + side)).resize((size, size))
    return torch.from_numpy(np.array(picture))


def from_folder(
    folder: Path,
    held_out: int = 10,
    size: int = 224,
    episodes: int = 0,
    see: Callable[[Tensor], Tensor] | None = None,
) -> Series:
    """What `taskfree tracks` and `taskfree label` made, or folders in the same form.

    That is `EPISODE/crops/TRACK/*.jpg` and `EPISODE/faces.csv` (a line a face: frame, left, top,
    right, bottom, track), and over all `labels.csv` (track, as `EPISODE/TRACK`, and name). A
    dataset that has `EPISODE/frames/*.jpg` instead of crops has them cut. The order of time is that
    of the numbers of the tracks. The faces that others are compared with are not learned.

    Args:
        folder: where they are.
        held_out: every so many-th track of those that have a name is held out; with 0 none is, and
            the test is all faces with a name but the templates.
        size: pixels of a face in height and width.
        episodes: only so many, from the first on; 0: all.
        see: what the gallery keeps of each picture, as features of it, which are smaller; the
            picture itself if not given.
    """
    for frames in sorted(folder.glob("*/frames")):
        if not (frames.parent / "crops").exists():
            tracks_of_faces.cut(frames.parent)
    if any(folder.glob("*/faces.csv")):
        tracks_of_faces.gather(folder)
    found = _found(folder, size, episodes, see or (lambda picture: picture))
    if not found.gallery:
        raise ValueError(f"{folder} has no tracks (EPISODE/crops/TRACK/*.jpg); see taskfree tracks")
    named = [name for name, track in found.tracks.items() if track.actor]
    if not named:
        raise ValueError(f"no track of {folder} has a name; name them with taskfree label {folder}")
    tests = set(named[held_out - 1 :: held_out]) if held_out else set()
    learned = {name: track for name, track in found.tracks.items() if name not in tests}
    templates = choose_templates(list(learned.values()))
    compared = {face for faces in templates.values() for face in faces}
    left = {
        name: tuple(face for face in track.faces if face not in compared)
        for name, track in learned.items()
    }
    place = {name: at for at, name in enumerate(name for name in left if left[name])}
    shares = _shares(folder)
    tracks = [
        replace(
            learned[name], faces=left[name],
            together=frozenset(place[other] for other in shares.get(name, ()) if other in place),
        )
        for name in place
    ]  # fmt: skip
    asked: dict[str, list[int]] = {}
    for track in [found.tracks[name] for name in sorted(tests)] if held_out else tracks:
        if track.actor in templates:
            asked.setdefault(track.actor, []).extend(track.faces)
    if not asked:
        raise ValueError(
            f"{folder}: {len(named)} tracks have a name, too few for every {held_out}th to be a "
            "test; name more, or hold out more (--held-out 5), or test on all faces (--held-out 0)"
        )
    episode_of = [0] * len(found.gallery)
    for track in found.tracks.values():
        for face in track.faces:
            episode_of[face] = track.episode
    return Series(torch.stack(found.gallery), tracks, templates, asked, episode_of)


class _Found(NamedTuple):
    """The faces in a folder, and its tracks by name."""

    gallery: list[Tensor]
    tracks: dict[str, Seen]


def _found(folder: Path, size: int, episodes: int, see: Callable[[Tensor], Tensor]) -> _Found:
    names = tracks_of_faces.read_labels(folder)
    places = sorted(folder.glob("*/crops/*/"))
    numbers = {name: at for at, name in enumerate(sorted({p.parts[-3] for p in places}), 1)}
    found = _Found([], {})
    for place in track_bar(places, description="faces of all tracks"):
        episode, name = numbers[place.parts[-3]], f"{place.parts[-3]}/{place.parts[-1]}"
        files = sorted(file for file in place.iterdir() if file.suffix in (".jpg", ".png"))
        if not files or (episodes and episode > episodes):
            continue
        faces = tuple(range(len(found.gallery), len(found.gallery) + len(files)))
        found.gallery.extend(see(load(file, size)) for file in files)
        found.tracks[name] = Seen(episode, names.get(name, ""), faces)
    return found


def choose_templates(tracks: Sequence[Seen], count: int = TEMPLATES) -> dict[str, list[int]]:
    """A few faces of each actor: of as many episodes as there are, and of many tracks of each.

    >>> tracks = [Seen(1, "amy", (0, 1)), Seen(1, "amy", (2, 3)), Seen(2, "amy", (4, 5))]
    >>> choose_templates(tracks, 3)
    {'amy': [0, 4, 2]}
    """
    own: dict[str, dict[int, list[Seen]]] = {}
    for track in tracks:
        if track.actor:
            own.setdefault(track.actor, {}).setdefault(track.episode, []).append(track)
    found = {}
    for actor, seen in own.items():
        spread = torch.linspace(0, len(seen) - 1, min(count, len(seen))).round().long().tolist()
        ordered = [list(seen.values())[at] for at in spread]
        by_episode = [_in_turn([track.faces for track in episode]) for episode in ordered]
        found[actor] = _in_turn(by_episode)[:count]
    return found


def _in_turn(rows: Sequence[Sequence[int]]) -> list[int]:
    """The first of every row, then the second of every row, and so on."""
    return [value for turn in zip_longest(*rows) for value in turn if value is not None]


def _shares(folder: Path) -> dict[str, list[str]]:
    file = folder / "tracks.csv"
    if not file.exists():
        return {}
    with open(file, newline="", encoding="utf-8") as rows:
        return {
            f"{row['video']}/{int(row['track']):05d}": [
                f"{row['video']}/{int(other):05d}" for other in row[tracks_of_faces.SHARES].split()
            ]
            for row in csv.DictReader(rows)
        }


@torch.no_grad()
def features(network: nn.Module, picture: Tensor) -> Tensor:
    """What the part of a network that does not learn makes of a picture, in a row."""
    row: Tensor = network(prepared(picture[None])).flatten()
    return row
