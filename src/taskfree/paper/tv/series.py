"""A series to learn from: a gallery of faces, their tracks, and the faces for testing."""

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

from taskfree._core.files import atomic_write
from taskfree.paper.tv import tables
from taskfree.paper.tv.alexnet import preprocess
from taskfree.paper.tv.crops import cut_crops
from taskfree.paper.tv.triplets import TVTrack

__all__ = ["Series", "extract_features", "from_folder"]

TEMPLATES = 5
"""The number of templates of each actor, from different episodes where possible."""


@dataclass
class Series:
    """All faces of a series, and the tracks they are in."""

    gallery: Tensor
    """One row per face: images of bytes, [faces, height, width, 3], or features of them."""
    tracks: list[TVTrack]
    """The tracks to learn from, in temporal order."""
    templates: dict[str, list[int]]
    """By actor, the known faces that others are compared with."""
    held_out: dict[str, list[int]]
    """By actor, the faces for testing: of held-out tracks, or all but the templates."""
    episode_of: list[int]
    """The episode of every face."""

    @property
    def episodes(self) -> list[int]:
        """The numbers of its episodes, in order."""
        return sorted({track.episode for track in self.tracks})

    def save(self, file: Path) -> None:
        """Save it as one safetensors file."""
        content = {
            "tracks": [[t.episode, t.actor, t.faces, sorted(t.co_occurring)] for t in self.tracks],
            "templates": self.templates, "held_out": self.held_out, "episode_of": self.episode_of,
        }  # fmt: skip
        metadata = {"series": json.dumps(content)}
        with atomic_write(file) as unfinished:
            save_file({"gallery": self.gallery}, unfinished, metadata=metadata)

    @classmethod
    def load(cls, file: Path) -> Series:
        """Load a saved series."""
        with safe_open(file, framework="pt") as saved:
            content = json.loads(saved.metadata()["series"])
            gallery = saved.get_tensor("gallery")
        tracks = [TVTrack(e, actor, tuple(f), frozenset(t)) for e, actor, f, t in content["tracks"]]
        return cls(
            gallery, tracks, content["templates"], content["held_out"], content["episode_of"]
        )


def load(file: Path, size: int) -> Tensor:
    """An image as bytes, [size, size, 3]; if it is not square, its centre."""
    with Image.open(file) as opened:
        image = opened.convert("RGB")
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        image = image.crop((left, top, left + side, top + side)).resize((size, size))
    return torch.from_numpy(np.array(image))


def from_folder(
    folder: Path,
    held_out: int = 10,
    size: int = 224,
    episodes: int = 0,
    features: Callable[[Tensor], Tensor] | None = None,
) -> Series:
    """Read a series: the output of `taskfree tracks` and `taskfree label`, or the same layout.

    The layout is `EPISODE/crops/TRACK/*.jpg` and `EPISODE/faces.csv` (one line per face: frame,
    left, top, right, bottom, track), and for all episodes `labels.csv` (track, as `EPISODE/TRACK`,
    and name). If there are `EPISODE/frames/*.jpg` instead of crops, the crops are cut from them.
    Tracks are in the order of their numbers. Templates are not learned from.

    Args:
        folder: of the series.
        held_out: hold out every n-th labelled track for testing; 0 holds out none and tests on all
            labelled faces except the templates.
        size: height and width of a face in pixels.
        episodes: use only this many episodes, from the first on; 0 for all.
        features: maps an image to what the gallery stores, such as its features, which are
            smaller; the image itself by default.
    """
    for frames in sorted(folder.glob("*/frames")):
        if not (frames.parent / "crops").exists():
            cut_crops(frames.parent)
    if any(folder.glob("*/faces.csv")):
        tables.gather(folder)
    found = _read_tracks(folder, size, episodes, features or (lambda image: image))
    if not found.gallery:
        raise ValueError(f"{folder} has no tracks (EPISODE/crops/TRACK/*.jpg); see taskfree tracks")
    labelled = [name for name, track in found.tracks.items() if track.actor]
    if not labelled:
        raise ValueError(f"{folder} has no labelled track; name them with taskfree label {folder}")
    tests = set(labelled[held_out - 1 :: held_out]) if held_out else set()
    learned = {name: track for name, track in found.tracks.items() if name not in tests}
    templates = choose_templates(list(learned.values()))
    used = {face for faces in templates.values() for face in faces}
    remaining = {
        name: tuple(face for face in track.faces if face not in used)
        for name, track in learned.items()
    }
    index = {name: at for at, name in enumerate(name for name in remaining if remaining[name])}
    sharing = _tracks_sharing_a_frame(folder)
    tracks = [
        replace(
            learned[name], faces=remaining[name],
            co_occurring=frozenset(index[o] for o in sharing.get(name, ()) if o in index),
        )
        for name in index
    ]  # fmt: skip
    test_faces: dict[str, list[int]] = {}
    for track in [found.tracks[name] for name in sorted(tests)] if held_out else tracks:
        if track.actor in templates:
            test_faces.setdefault(track.actor, []).extend(track.faces)
    if not test_faces:
        raise ValueError(
            f"{folder} has {len(labelled)} labelled tracks, too few to hold out every "
            f"{held_out}th; label more, hold out more (--held-out 5), or test on all faces "
            "(--held-out 0)"
        )
    episode_of = [0] * len(found.gallery)
    for track in found.tracks.values():
        for face in track.faces:
            episode_of[face] = track.episode
    return Series(torch.stack(found.gallery), tracks, templates, test_faces, episode_of)


class _FolderContent(NamedTuple):
    """The faces in a folder, and its tracks by identifier."""

    gallery: list[Tensor]
    tracks: dict[str, TVTrack]


def _read_tracks(
    folder: Path, size: int, episodes: int, features: Callable[[Tensor], Tensor]
) -> _FolderContent:
    """Read all faces of the first episodes."""
    names = tables.read_labels(folder)
    folders = sorted(folder.glob("*/crops/*/"))
    numbers = {name: n for n, name in enumerate(sorted({f.parts[-3] for f in folders}), 1)}
    found = _FolderContent([], {})
    for crops in track_bar(folders, description="faces of all tracks"):
        episode, name = numbers[crops.parts[-3]], f"{crops.parts[-3]}/{crops.parts[-1]}"
        files = sorted(file for file in crops.iterdir() if file.suffix in (".jpg", ".png"))
        if not files or (episodes and episode > episodes):
            continue
        faces = tuple(range(len(found.gallery), len(found.gallery) + len(files)))
        found.gallery.extend(features(load(file, size)) for file in files)
        found.tracks[name] = TVTrack(episode, names.get(name, ""), faces)
    return found


def choose_templates(tracks: Sequence[TVTrack], count: int = TEMPLATES) -> dict[str, list[int]]:
    """Choose a few faces of each actor, from as many episodes and tracks as possible.

    >>> tracks = [TVTrack(1, "amy", (0, 1)), TVTrack(1, "amy", (2, 3)), TVTrack(2, "amy", (4, 5))]
    >>> choose_templates(tracks, 3)
    {'amy': [0, 4, 2]}
    """
    tracks_of: dict[str, dict[int, list[TVTrack]]] = {}
    for track in tracks:
        if track.actor:
            tracks_of.setdefault(track.actor, {}).setdefault(track.episode, []).append(track)
    found = {}
    for actor, own in tracks_of.items():
        spread = torch.linspace(0, len(own) - 1, min(count, len(own))).round().long().tolist()
        episodes = [list(own.values())[at] for at in spread]
        by_episode = [_interleave([track.faces for track in episode]) for episode in episodes]
        found[actor] = _interleave(by_episode)[:count]
    return found


def _interleave(rows: Sequence[Sequence[int]]) -> list[int]:
    """The first of every row, then the second of every row, and so on."""
    return [value for turn in zip_longest(*rows) for value in turn if value is not None]


def _tracks_sharing_a_frame(folder: Path) -> dict[str, list[str]]:
    """By track, the tracks that share a frame with it, from `tracks.csv`."""
    file = folder / "tracks.csv"
    if not file.exists():
        return {}
    with file.open(newline="", encoding="utf-8") as rows:
        return {
            f"{row['video']}/{int(row['track']):05d}": [
                f"{row['video']}/{int(other):05d}" for other in row[tables.SHARES].split()
            ]
            for row in csv.DictReader(rows)
        }


@torch.no_grad()
def extract_features(network: nn.Module, image: Tensor) -> Tensor:
    """The features of an image, by the part of a network that does not learn."""
    row: Tensor = network(preprocess(image[None])).flatten()
    return row
