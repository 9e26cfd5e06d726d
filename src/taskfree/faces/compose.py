"""A series that was never filmed: photographs of people in the order in which a real cast appears.

Each episode has its own light, its own mix of poses and its own share of accessories, so that what
the network sees changes as it does on television. What is learned, what is tested and what faces
are compared with are different photographs of a person.
"""

from __future__ import annotations

import csv
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import torch
from PIL import Image
from torch import Tensor

from taskfree.faces.detect import Detector
from taskfree.faces.series import TEMPLATES, Series, load
from taskfree.faces.tracks import cropped
from taskfree.faces.triplets import Seen

__all__ = ["compose", "people", "read_order"]

LOOKED_AT, SIZE = 384, 128
"""Pixels of a photograph in which a face is looked for, and of a face, in height and width."""
TOGETHER = {1: 0.6, 6: 0.6}
"""The share of consecutive tracks of two people that share a frame, by episode: as in The Big Bang
Theory, of which only the first and the sixth have many (paper, section 4.2)."""
SELDOM = 0.1
"""... and in all other episodes."""
Photographs = dict[Path, Tensor]
"""Faces by the file that they are in: bytes, [SIZE, SIZE, 3]."""
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".pgm")


@dataclass(frozen=True)
class Look:
    """How an episode looks."""

    light: float
    gamma: float
    side: float
    """From which side the light comes, in radians."""
    depth: float
    """How much darker the other side is, between 0 and 1."""
    tint: tuple[float, float, float]
    pose: int
    """Which quarter of a person's photographs is seen most."""
    accessories: float
    """How often a photograph with sunglasses is taken where there are such."""


def look(episode: int, seed: int) -> Look:
    """The same for the same seed and episode."""
    chance = torch.Generator().manual_seed(1_000_003 * seed + episode)
    values = torch.rand(7, generator=chance).tolist()
    tint = [0.7 + 0.5 * value for value in torch.rand(3, generator=chance).tolist()]
    return Look(
        light=0.5 + 0.8 * values[0], gamma=0.6 + 1.0 * values[1], side=6.28 * values[2],
        depth=0.3 + 0.6 * values[3], tint=(tint[0], tint[1], tint[2]),
        pose=int(4 * values[4]), accessories=0.1 + 0.8 * values[5],
    )  # fmt: skip


def people(folder: Path, detector: Detector | None = None) -> dict[str, Photographs]:
    """The photographs in a folder with a folder a person.

    With a detector, the face in each of them, cut as faces are cut from films; photographs in which
    it finds none are left out. Without, the photographs are faces.
    """
    if not folder.is_dir():
        raise ValueError(f"faces must be a folder with a folder a person, there is no {folder}")
    found = {
        one.name: _photographs(sorted(one.iterdir()), detector)
        for one in sorted(folder.iterdir())
        if one.is_dir()
    }
    least = 2 * TEMPLATES + 2
    enough = {name: own for name, own in found.items() if len(own) >= least}
    if len(enough) < 2:
        raise ValueError(
            f"{folder} must hold folders of at least two people with {least} faces each, it has "
            f"{len(enough)}"
        )
    return enough


def _photographs(files: Sequence[Path], detector: Detector | None) -> Photographs:
    found = {}
    for file in (file for file in files if file.suffix.lower() in PICTURES):
        if detector is None:
            found[file] = load(file, SIZE)
            continue
        picture = load(file, LOOKED_AT).numpy()
        if faces := detector.faces(picture):
            best = max(faces, key=lambda face: face.score)
            found[file] = torch.from_numpy(cropped(picture, best, SIZE))
    return found


def lfw(folder: Path, least: int = 20) -> Path:
    """Labeled Faces in the Wild as a folder of people, by scikit-learn's loader.

    Args:
        folder: where the pictures go.
        least: only people with so many pictures.
    """
    try:
        from sklearn.datasets import fetch_lfw_people
    except ModuleNotFoundError:
        raise ValueError("LFW needs scikit-learn: pip install scikit-learn") from None
    if not folder.exists():
        faces = fetch_lfw_people(min_faces_per_person=least, color=True, resize=1.0)
        unfinished = folder.with_name(f"{folder.name}.writing")
        shutil.rmtree(unfinished, ignore_errors=True)
        for number, (values, person) in enumerate(zip(faces.images, faces.target, strict=True)):
            place = unfinished / str(faces.target_names[person]).replace(" ", "_")
            place.mkdir(parents=True, exist_ok=True)
            scale = 255 if values.max() <= 1 else 1
            Image.fromarray((values * scale).astype("uint8")).save(place / f"{number:05d}.png")
        unfinished.rename(folder)
    return folder


def read_order(file: Path) -> list[tuple[int, str]]:
    """Episode and name of every track, in the order of a CSV with the columns episode and name."""
    with open(file, newline="", encoding="utf-8-sig") as rows:
        reader = csv.DictReader(rows)
        missing = {"episode", "name"} - set(reader.fieldnames or ())
        if missing:
            there = ", ".join(reader.fieldnames or ())
            raise ValueError(f"{file} must have the columns episode and name, has {there}")
        found = []
        for row in reader:
            try:
                found.append((int(row["episode"]), row["name"].strip()))
            except (ValueError, AttributeError):
                raise ValueError(
                    f"{file}, line {reader.line_num}: episode must be a whole number and name a "
                    f"text, got {row['episode']!r} and {row['name']!r}"
                ) from None
        return found


def compose(
    faces: dict[str, Photographs],
    order: Sequence[tuple[int, str]],
    *,
    seed: int = 0,
    tracks: int = 50,
    stretch: int = 10,
    actors: int = 8,
    length: int = 8,
    held_out: int = 10,
    episodes: int = 0,
) -> Series:
    """A series of these people in this order.

    The most frequent names are played by the people in the order of their folders, each name by
    one; tracks of further names are left out.

    Args:
        faces: photographs by person, as `people` reads them.
        order: episode and name of every track.
        seed: of the looks of the episodes, the choice of photographs, and their small changes.
        tracks: so many an episode; 0 takes all.
        stretch: they come in stretches of so many that follow each other in the order, as in a
            scene; the stretches are evenly spaced, and with 1 the tracks are.
        actors: so many names, the most frequent ones; 0: as many as there are people.
        length: faces a track.
        held_out: every so many-th track is held out; with 0 none is, and the test is all faces
            that are learned.
        episodes: only so many, from the first on; 0: all. Nothing of the others is seen, neither
            to learn from, nor to test with, nor to compare with.
    """
    chance = torch.Generator().manual_seed(seed)
    often = Counter(name for _, name in order).most_common(actors or None)
    cast = dict(zip((name for name, _ in often), faces, strict=False))
    parts = {person: _split(list(faces[person]), chance) for person in cast.values()}
    pictures: list[Tensor] = []
    episode_of: list[int] = []

    def shoot(name: str, episode: int, part: int, count: int) -> tuple[int, ...]:
        """Take pictures of somebody in an episode, and put them into the gallery."""
        person, how = cast[name], look(episode, seed)
        own = parts[person][part]
        weights = torch.tensor([_wanted(file, how) for file in own])
        picks = torch.multinomial(weights, count, replacement=True, generator=chance).tolist()
        first = len(pictures)
        pictures.extend(_lit(faces[person][own[at]], how, chance) for at in picks)
        episode_of.extend([episode] * count)
        return tuple(range(first, len(pictures)))

    first = sorted({episode for episode, _ in order})[: episodes or None]
    known = [(episode, name) for episode, name in order if name in cast and episode in first]
    if len(known) < (least := max(2, held_out)):
        asking = f" (every {held_out}th is a test)" if held_out else ""
        raise ValueError(
            f"order must have at least {least} tracks of the {len(cast)} actors{asking}, it has "
            f"{len(known)}"
        )
    asked = set(range(held_out - 1, len(known), held_out)) if held_out else set()
    shown = [one for at, one in enumerate(known) if at not in asked]
    tests: dict[str, list[int]] = {}
    for episode, name in (known[at] for at in sorted(asked)):
        tests.setdefault(name, []).extend(shoot(name, episode, 1, length // 2))
    seen: list[Seen] = []
    for episode in sorted({episode for episode, _ in shown}):
        names = [name for one, name in shown if one == episode]
        names = [names[at] for at in _chosen(len(names), tracks, stretch)]
        seen += [Seen(episode, name, shoot(name, episode, 2, length)) for name in names]
    _put_together(seen, chance)
    for track in () if held_out else seen:
        tests.setdefault(track.actor, []).extend(track.faces)
    templates = {}
    for name in tests:
        own = sorted({episode for episode, other in known if other == name})
        templates[name] = [shoot(name, own[at % len(own)], 0, 1)[0] for at in range(TEMPLATES)]
    return Series(torch.stack(pictures), seen, templates, tests, episode_of)


def _chosen(count: int, tracks: int, stretch: int) -> list[int]:
    """The places, of as many as there are, of so many tracks in evenly spaced stretches.

    >>> _chosen(20, 6, 3)
    [0, 1, 2, 17, 18, 19]
    """
    if not tracks or count <= tracks:
        return list(range(count))
    leaps = max(1, -(-tracks // stretch) - 1)
    return [at + round((count - tracks) * (at // stretch) / leaps) for at in range(tracks)]


def _put_together(tracks: list[Seen], chance: torch.Generator) -> None:
    """Have some consecutive tracks of two people share a frame."""
    for at in range(1, len(tracks)):
        before, now = tracks[at - 1], tracks[at]
        share = TOGETHER.get(now.episode, SELDOM)
        beside = float(torch.rand((), generator=chance)) < share
        if beside and before.actor != now.actor and before.episode == now.episode:
            tracks[at - 1] = replace(before, together=before.together | {at})
            tracks[at] = replace(now, together=now.together | {at - 1})


def _split(files: Sequence[Path], chance: torch.Generator) -> list[list[Path]]:
    """A person's photographs: to compare with, to test with, to learn from."""
    order = torch.randperm(len(files), generator=chance).tolist()
    tests = max(2, len(files) // 4)
    cuts = [order[:TEMPLATES], order[TEMPLATES : TEMPLATES + tests], order[TEMPLATES + tests :]]
    return [[files[at] for at in sorted(part)] for part in cuts]


def _wanted(file: Path, how: Look) -> float:
    """How much an episode wants a photograph: its pose, by name or by chance, and what it wears."""
    words = file.stem.split("_")
    poses = ("straight", "left", "right", "up")
    pose = next(
        (poses.index(word) for word in words if word in poses), crc32(file.name.encode()) % 4
    )
    wears = "sunglasses" in words
    return (6.0 if pose == how.pose else 1.0) * (how.accessories if wears else 1 - how.accessories)


def _lit(picture: Tensor, how: Look, chance: torch.Generator) -> Tensor:
    """A photograph in an episode's light, a little moved."""
    dx, dy, bright = (torch.rand(3, generator=chance) - 0.5).tolist()
    moved = picture.roll((round(12 * dx), round(12 * dy)), (0, 1)).float() / 255
    across = torch.linspace(-1, 1, SIZE)
    side = torch.tensor(how.side)
    slope = across[:, None] * side.sin() + across[None, :] * side.cos()
    shade = 1 - how.depth * (slope + 1) / 2
    lit = moved**how.gamma * shade[..., None] * torch.tensor(how.tint)
    noise = 0.02 * torch.randn(lit.shape, generator=chance)
    bytes_: Tensor = ((lit * how.light * (1 + 0.3 * bright) + noise) * 255).clamp(0, 255).byte()
    return bytes_
