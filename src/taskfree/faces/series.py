"""A series to learn from: a gallery of faces, the tracks they are in, and what is held out."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
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
    """By actor, faces that are never learned."""

    @property
    def episodes(self) -> list[int]:
        """Their numbers, in order."""
        return sorted({track.episode for track in self.tracks})

    def save(self, file: Path) -> None:
        """Keep all of it in one safetensors file."""
        told = {
            "tracks": [[t.episode, t.actor, t.faces, sorted(t.together)] for t in self.tracks],
            "templates": self.templates, "held_out": self.held_out,
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
        return cls(gallery, tracks, told["templates"], told["held_out"])


def load(file: Path, size: int) -> Tensor:
    """A picture as bytes, [size, size, 3]; what is not square is cut at its longer sides."""
    with Image.open(file) as opened:
        picture = opened.convert("RGB")
        side = min(picture.size)
        left, top = (picture.width - side) // 2, (picture.height - side) // 2
        picture = picture.crop((left, top, left + side, top + side)).resize((size, size))
    return torch.from_numpy(np.array(picture))


def from_folder(folder: Path, held_out: int = 10, size: int = 224) -> Series:
    """What `taskfree tracks` and `taskfree label` made, or folders in the same form.

    That is `EPISODE/crops/TRACK/*.jpg` and `EPISODE/faces.csv` (a line a face: frame, left, top,
    right, bottom, track), and over all `labels.csv` (track, as `EPISODE/TRACK`, and name). A
    dataset that has `EPISODE/frames/*.jpg` instead of crops has them cut. The order of time is that
    of the numbers of the tracks. Every `held_out`-th track of those that have a name is held out;
    with 0 none is, and the test is all faces but the templates.
    """
    names = _labels(folder)
    for episode in sorted(folder.glob("*/frames")):
        if not (episode.parent / "crops").exists():
            tracks_of_faces.cut(episode.parent)
    if not (folder / "tracks.csv").exists():
        tracks_of_faces.gather(folder, sorted(f.parent.name for f in folder.glob("*/faces.csv")))
    shares = _shares(folder)
    found = sorted(folder.glob("*/crops/*/"))
    if not found:
        raise ValueError(f"{folder} has no tracks (EPISODE/crops/TRACK/*.jpg); see taskfree tracks")
    episodes = {name: at for at, name in enumerate(sorted({one.parts[-3] for one in found}), 1)}
    pictures: list[Tensor] = []
    tracks: list[Seen] = []
    place: dict[str, int] = {}
    tests: dict[str, list[int]] = {}
    named = 0
    for one in found:
        name = f"{one.parts[-3]}/{one.parts[-1]}"
        files = sorted(file for file in one.iterdir() if file.suffix in (".jpg", ".png"))
        faces = tuple(range(len(pictures), len(pictures) + len(files)))
        pictures += [load(file, size) for file in files]
        actor = names.get(name, "")
        named += bool(actor)
        if actor and held_out and named % held_out == 0:
            tests.setdefault(actor, []).extend(faces)
            continue
        place[name] = len(tracks)
        tracks.append(Seen(episodes[one.parts[-3]], actor, faces))
    tracks = [
        Seen(
            track.episode, track.actor, track.faces,
            frozenset(place[other] for other in shares.get(name, ()) if other in place),
        )
        for name, track in zip(place, tracks, strict=True)
    ]  # fmt: skip
    if not named:
        raise ValueError(f"no track of {folder} has a name; name them with taskfree label {folder}")
    templates = choose_templates(tracks)
    if not held_out:
        for track in tracks:
            own = templates.get(track.actor, ())
            tests.setdefault(track.actor, []).extend(f for f in track.faces if f not in own)
    known = {actor: faces for actor, faces in tests.items() if actor in templates}
    if not known:
        raise ValueError(
            f"{folder}: too few tracks have a name for every {held_out}th to be a test"
        )
    return Series(torch.stack(pictures), tracks, templates, known)


def choose_templates(tracks: Sequence[Seen], count: int = TEMPLATES) -> dict[str, list[int]]:
    """Of each actor one face of each of several tracks, spread over the episodes.

    >>> tracks = [Seen(1, "amy", (0, 1)), Seen(2, "amy", (2, 3)), Seen(2, "", (4,))]
    >>> choose_templates(tracks, 2)
    {'amy': [0, 2]}
    """
    own: dict[str, list[Seen]] = {}
    for track in tracks:
        if track.actor:
            own.setdefault(track.actor, []).append(track)
    found = {}
    for actor, seen in own.items():
        spread = torch.linspace(0, len(seen) - 1, count).round().long().tolist()
        places = list(dict.fromkeys(spread))
        faces = [seen[at].faces[0] for at in places]
        rest = [face for at in places for face in seen[at].faces[1:]]
        found[actor] = (faces + rest)[:count]
    return found


def _labels(folder: Path) -> dict[str, str]:
    file = folder / "labels.csv"
    if not file.exists():
        raise ValueError(
            f"{folder} has no labels.csv; name its tracks with taskfree label {folder}"
        )
    with open(file, newline="") as rows:
        return {row["track"]: row["name"] for row in csv.DictReader(rows)}


def _shares(folder: Path) -> dict[str, list[str]]:
    file = folder / "tracks.csv"
    if not file.exists():
        return {}
    with open(file, newline="") as rows:
        return {
            f"{row['video']}/{int(row['track']):05d}": [
                f"{row['video']}/{int(other):05d}" for other in row["shares a frame with"].split()
            ]
            for row in csv.DictReader(rows)
        }


@torch.no_grad()
def features(
    gallery: Tensor,
    network: nn.Module,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Tensor:
    """What the part of a network that does not learn makes of all faces, a row each."""
    places = progress(range(len(gallery)))
    return torch.cat([network(prepared(gallery[at : at + 1])).flatten(1) for at in places])
