"""A composed series: photographs of people, in the order in which a real cast appears.

Each episode has its own light, its own mix of poses and its own fraction of accessories, so the
images change from episode to episode, as on television. Learning, testing and templates use
different photographs of a person.
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
from PIL import Image as Pillow
from torch import Tensor

from taskfree.paper.tv.crops import crop
from taskfree.paper.tv.detect import FaceDetector
from taskfree.paper.tv.series import TEMPLATES, Series, load
from taskfree.paper.tv.triplets import TVTrack

__all__ = ["compose", "people", "read_order"]

DETECTION_SIZE, SIZE = 384, 128
"""Height and width of a photograph for face detection, and of a face, in pixels."""
CO_OCCURRENCE = {1: 0.6, 6: 0.6}
"""By episode, the fraction of consecutive tracks of two people that share a frame: as in The Big
Bang Theory, where only the first and the sixth episode have many (paper, section 4.2)."""
RARE_CO_OCCURRENCE = 0.1
"""... and in all other episodes."""
Photographs = dict[Path, Tensor]
"""Faces by file: bytes, [SIZE, SIZE, 3]."""
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".pgm")
POSES = ("straight", "left", "right", "up")


@dataclass(frozen=True)
class Look:
    """The look of an episode."""

    light: float
    """The brightness."""
    gamma: float
    side: float
    """The direction of the light, in radians."""
    depth: float
    """How much darker the far side is, between 0 and 1."""
    tint: tuple[float, float, float]
    pose: int
    """The quarter of a person's photographs that is used most: the index of a pose."""
    accessories: float
    """The weight of photographs with sunglasses, where there are any, between 0 and 1."""


def look(episode: int, seed: int) -> Look:
    """A random look; equal for equal seed and episode."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + episode)
    values = torch.rand(7, generator=generator).tolist()
    tint = [0.7 + 0.5 * value for value in torch.rand(3, generator=generator).tolist()]
    return Look(
        light=0.5 + 0.8 * values[0], gamma=0.6 + 1.0 * values[1], side=6.28 * values[2],
        depth=0.3 + 0.6 * values[3], tint=(tint[0], tint[1], tint[2]),
        pose=int(4 * values[4]), accessories=0.1 + 0.8 * values[5],
    )  # fmt: skip


def people(folder: Path, detector: FaceDetector | None = None) -> dict[str, Photographs]:
    """Read the photographs in a folder that has one folder per person.

    With a detector, the face in each photograph is cropped as in videos, and photographs without a
    detected face are left out. Without one, the photographs are used as faces.
    """
    if not folder.is_dir():
        raise ValueError(f"faces must be a folder with one folder per person, there is no {folder}")
    found = {
        person.name: _photographs(sorted(person.iterdir()), detector)
        for person in sorted(folder.iterdir())
        if person.is_dir()
    }
    least = 2 * TEMPLATES + 2
    enough = {name: faces for name, faces in found.items() if len(faces) >= least}
    if len(enough) < 2:
        raise ValueError(
            f"{folder} must have at least two people with at least {least} faces each, it has "
            f"{len(enough)}"
        )
    return enough


def _photographs(files: Sequence[Path], detector: FaceDetector | None) -> Photographs:
    found = {}
    for file in (file for file in files if file.suffix.lower() in IMAGES):
        if detector is None:
            found[file] = load(file, SIZE)
            continue
        image = load(file, DETECTION_SIZE).numpy()
        if faces := detector.faces(image):
            best = max(faces, key=lambda face: face.score)
            found[file] = torch.from_numpy(crop(image, best, SIZE))
    return found


def lfw(folder: Path, least: int = 20) -> Path:
    """Labeled Faces in the Wild as a folder of people, downloaded by scikit-learn.

    Args:
        folder: where to write the images.
        least: leave out people with fewer images.
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
            target = unfinished / str(faces.target_names[person]).replace(" ", "_")
            target.mkdir(parents=True, exist_ok=True)
            scale = 255 if values.max() <= 1 else 1
            Pillow.fromarray((values * scale).astype("uint8")).save(target / f"{number:05d}.png")
        unfinished.rename(folder)
    return folder


def read_order(file: Path) -> list[tuple[int, str]]:
    """Read the episode and name of every track, in order, from a CSV file with these columns."""
    with file.open(newline="", encoding="utf-8-sig") as rows:
        reader = csv.DictReader(rows)
        missing = {"episode", "name"} - set(reader.fieldnames or ())
        if missing:
            columns = ", ".join(reader.fieldnames or ())
            raise ValueError(f"{file} must have the columns episode and name, has {columns}")
        found = []
        for row in reader:
            try:
                found.append((int(row["episode"]), row["name"].strip()))
            except (ValueError, AttributeError):
                raise ValueError(
                    f"{file}, line {reader.line_num}: episode must be an integer and name a "
                    f"text, got {row['episode']!r} and {row['name']!r}"
                ) from None
        return found


def compose(
    faces: dict[str, Photographs],
    order: Sequence[tuple[int, str]],
    *,
    seed: int = 0,
    tracks_per_episode: int = 50,
    scene_length: int = 10,
    actors: int = 8,
    length: int = 8,
    held_out: int = 10,
    episodes: int = 0,
) -> Series:
    """Compose a series of these people in this order.

    The most frequent names are assigned to the people in the order of their folders, one person per
    name; tracks of other names are left out.

    Args:
        faces: photographs by person, as `people` reads them.
        order: episode and name of every track.
        seed: of the looks of the episodes, the choice of photographs, and their small variations.
        tracks_per_episode: tracks to use of each episode; 0 for all.
        scene_length: they are chosen in scenes of this many consecutive tracks, which are evenly
            spaced; 1 spaces the tracks evenly.
        actors: how many of the most frequent names to use; 0 for as many as there are people.
        length: faces per track.
        held_out: hold out every n-th track for testing; 0 holds out none and tests on all faces
            that are learned from.
        episodes: use only this many episodes, from the first on; 0 for all. Nothing of the others
            is used, neither for learning, nor for testing, nor as templates.
    """
    generator = torch.Generator().manual_seed(seed)
    frequent = Counter(name for _, name in order).most_common(actors or None)
    cast = dict(zip((name for name, _ in frequent), faces, strict=False))
    split = {person: _split(list(faces[person]), generator) for person in cast.values()}
    gallery: list[Tensor] = []
    episode_of: list[int] = []

    def add_faces(name: str, episode: int, part: int, count: int) -> tuple[int, ...]:
        """Add photographs of an actor, in the look of an episode, to the gallery."""
        person, episode_look = cast[name], look(episode, seed)
        files = split[person][part]
        weights = torch.tensor([_weight(file, episode_look) for file in files])
        chosen = torch.multinomial(weights, count, replacement=True, generator=generator).tolist()
        first = len(gallery)
        gallery.extend(_render(faces[person][files[at]], episode_look, generator) for at in chosen)
        episode_of.extend([episode] * count)
        return tuple(range(first, len(gallery)))

    used_episodes = sorted({episode for episode, _ in order})[: episodes or None]
    usable = [
        (episode, name) for episode, name in order if name in cast and episode in used_episodes
    ]
    if len(usable) < (least := max(2, held_out)):
        reason = f" (every {held_out}th is held out)" if held_out else ""
        raise ValueError(
            f"order must have at least {least} tracks of the {len(cast)} actors{reason}, it has "
            f"{len(usable)}"
        )
    test_positions = set(range(held_out - 1, len(usable), held_out)) if held_out else set()
    learned = [track for at, track in enumerate(usable) if at not in test_positions]
    tests: dict[str, list[int]] = {}
    for episode, name in (usable[at] for at in sorted(test_positions)):
        tests.setdefault(name, []).extend(add_faces(name, episode, 1, length // 2))
    tracks: list[TVTrack] = []
    for episode in sorted({episode for episode, _ in learned}):
        names = [name for own, name in learned if own == episode]
        names = [names[at] for at in _scenes(len(names), tracks_per_episode, scene_length)]
        tracks += [TVTrack(episode, name, add_faces(name, episode, 2, length)) for name in names]
    _add_co_occurrences(tracks, generator)
    for track in () if held_out else tracks:
        tests.setdefault(track.actor, []).extend(track.faces)
    templates = {}
    for name in tests:
        own = sorted({episode for episode, other in usable if other == name})
        templates[name] = [add_faces(name, own[at % len(own)], 0, 1)[0] for at in range(TEMPLATES)]
    return Series(torch.stack(gallery), tracks, templates, tests, episode_of)


def _scenes(count: int, tracks: int, scene_length: int) -> list[int]:
    """The positions of `tracks` of `count` tracks, in evenly spaced scenes of consecutive ones.

    >>> _scenes(20, 6, 3)
    [0, 1, 2, 17, 18, 19]
    """
    if not tracks or count <= tracks:
        return list(range(count))
    jumps = max(1, -(-tracks // scene_length) - 1)
    return [at + round((count - tracks) * (at // scene_length) / jumps) for at in range(tracks)]


def _add_co_occurrences(tracks: list[TVTrack], generator: torch.Generator) -> None:
    """Let some consecutive tracks of two people share a frame."""
    for at in range(1, len(tracks)):
        before, now = tracks[at - 1], tracks[at]
        fraction = CO_OCCURRENCE.get(now.episode, RARE_CO_OCCURRENCE)
        chosen = float(torch.rand((), generator=generator)) < fraction
        if chosen and before.actor != now.actor and before.episode == now.episode:
            tracks[at - 1] = replace(before, co_occurring=before.co_occurring | {at})
            tracks[at] = replace(now, co_occurring=now.co_occurring | {at - 1})


def _split(files: Sequence[Path], generator: torch.Generator) -> list[list[Path]]:
    """Split a person's photographs into those for templates, for testing and for learning."""
    order = torch.randperm(len(files), generator=generator).tolist()
    tests = max(2, len(files) // 4)
    parts = [order[:TEMPLATES], order[TEMPLATES : TEMPLATES + tests], order[TEMPLATES + tests :]]
    return [[files[at] for at in sorted(part)] for part in parts]


def _weight(file: Path, episode_look: Look) -> float:
    """The weight of a photograph in an episode, by its pose and accessories.

    A file name without a pose gets one by its hash.
    """
    words = file.stem.split("_")
    pose = next(
        (POSES.index(word) for word in words if word in POSES), crc32(file.name.encode()) % 4
    )
    accessories = episode_look.accessories
    by_pose = 6.0 if pose == episode_look.pose else 1.0
    return by_pose * (accessories if "sunglasses" in words else 1 - accessories)


def _render(image: Tensor, episode_look: Look, generator: torch.Generator) -> Tensor:
    """A photograph in the light of an episode, slightly shifted and with noise."""
    dx, dy, brightness = (torch.rand(3, generator=generator) - 0.5).tolist()
    shifted = image.roll((round(12 * dx), round(12 * dy)), (0, 1)).float() / 255
    across = torch.linspace(-1, 1, SIZE)
    side = torch.tensor(episode_look.side)
    slope = across[:, None] * side.sin() + across[None, :] * side.cos()
    shade = 1 - episode_look.depth * (slope + 1) / 2
    lit = shifted**episode_look.gamma * shade[..., None] * torch.tensor(episode_look.tint)
    noise = 0.02 * torch.randn(lit.shape, generator=generator)
    light = lit * episode_look.light * (1 + 0.3 * brightness)
    rendered: Tensor = ((light + noise) * 255).clamp(0, 255).byte()
    return rendered
