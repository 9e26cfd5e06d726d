"""Corridors: a frozen specification, and the MuJoCo model that is built from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias, get_args
from xml.etree import ElementTree as Xml

import mujoco
import numpy as np

from taskfree import arguments
from taskfree.robots import textures
from taskfree.robots.scene import Scene, Triple, panel, words
from taskfree.robots.textures import Colour

TILE = 3.0
"""The width, length and height of a tile in metres."""
THICK = 0.05
"""Half of the thickness of walls, floor and ceiling."""

Thing: TypeAlias = Literal["person", "pillar", "crate", "shelf", "doorway", "arc"]
Heading: TypeAlias = tuple[int, int]

TURNS = {"S": 0, "L": 1, "R": -1}


class Tile(NamedTuple):
    """A square of a corridor: where it is, and where one comes from and goes to."""

    place: tuple[int, int]
    comes: Heading
    goes: Heading

    @property
    def centre(self) -> tuple[float, float]:
        """Its middle, in metres."""
        return self.place[0] * TILE, self.place[1] * TILE


@dataclass(frozen=True)
class Corridor:
    """Everything that makes a corridor; the same specification is the same world."""

    path: str
    """A letter a tile: S goes straight on, L and R turn in it."""
    wall: str
    """The texture of the walls, as are floor and ceiling: see `taskfree.robots.textures`."""
    floor: str
    ceiling: str
    light: float = 0.4
    """How bright it is everywhere, from 0 to 1."""
    lamp: float = 0.5
    """How bright the drone's own lamp makes what is straight ahead."""
    haze: float = 0.0
    """How thick the haze is: at ten metres, 1 - exp(-haze) of the view is haze."""
    haze_colour: Colour = (0.5, 0.5, 0.5)
    things: tuple[tuple[int, Thing], ...] = ()
    """What stands in the way: the number of a tile, and what it is."""
    posters: tuple[tuple[int, str], ...] = ()
    """The number of a tile, and the texture on its wall."""
    pipes: bool = False
    """Whether pipes run under the ceiling."""
    paint: tuple[Colour, ...] = field(default=((0.75, 0.16, 0.14), (0.16, 0.32, 0.66)))
    """The colours of things."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.path or set(self.path) - TURNS.keys():
            raise ValueError(f"path must be made of S, L and R, got {self.path!r}")
        places = [tile.place for tile in self.tiles]
        if len(set(places)) < len(places):
            raise ValueError(f"path crosses itself: {self.path!r}")
        for name in (self.wall, self.floor, self.ceiling, *(name for _, name in self.posters)):
            textures.make(name)
        for name in ("light", "lamp", "haze"):
            arguments.number(name, getattr(self, name), least=0)
        for number, thing in self.things:
            arguments.one_of("things", thing, get_args(Thing))
            if not 0 <= number < len(places):
                raise ValueError(
                    f"things must stand in one of the {len(places)} tiles, from 0 on, got {number}"
                )

    @property
    def tiles(self) -> list[Tile]:
        """The tiles in order; the first is entered from the west."""
        found, place, heading = [], (0, 0), (1, 0)
        for letter in self.path:
            goes = _turned(heading, TURNS[letter])
            found.append(Tile(place, heading, goes))
            place, heading = (place[0] + goes[0], place[1] + goes[1]), goes
        return found

    @property
    def bends(self) -> int:
        """How many tiles turn."""
        return sum(letter != "S" for letter in self.path)


def _turned(heading: Heading, quarter: int) -> Heading:
    """A heading turned to the left by as many quarters."""
    for _ in range(quarter % 4):
        heading = (-heading[1], heading[0])
    return heading


def draw_path(tiles: int, bends: int, rng: np.random.Generator) -> str:
    """A path at random that does not cross itself, nor turn the same way three times.

    >>> path = draw_path(12, 4, np.random.default_rng(0))
    >>> len(path), sum(letter != "S" for letter in path)
    (12, 4)
    """
    while True:
        letters = ["S"] * tiles
        for place in rng.choice(np.arange(1, tiles - 1), bends, replace=False):
            letters[place] = "LR"[rng.integers(2)]
        path = "".join(letters)
        turns = path.replace("S", "")
        if "LLL" in turns or "RRR" in turns or _crosses(path):
            continue
        return path


def _crosses(path: str) -> bool:
    """Whether a corridor comes back to a place where it has been."""
    place, heading = (0, 0), (1, 0)
    seen: dict[tuple[int, int], int] = {}
    for number, letter in enumerate(path):
        if place in seen:
            return True
        seen[place] = number
        heading = _turned(heading, TURNS[letter])
        place = (place[0] + heading[0], place[1] + heading[1])
    return False


# The model


def build(corridor: Corridor, robot: Xml.Element | None = None) -> mujoco.MjModel:
    """The MuJoCo model of a corridor, with a robot in it."""
    scene = Scene("corridor", light=corridor.light, lamp=corridor.lamp)
    names = dict.fromkeys(
        [corridor.wall, corridor.floor, corridor.ceiling, *(name for _, name in corridor.posters)]
    )
    for name in names:
        scene.texture(name, corridor.seed)
    for attributes in (
        *_walls(corridor),
        *_posters(corridor),
        *_pipes(corridor),
        *_things(corridor),
    ):
        scene.add(attributes)
    if robot is not None:
        scene.put(robot)
    return scene.model()


def _panel(
    centre: Triple, normal: Triple, material: str,
    half: tuple[float, float] = (TILE / 2, TILE / 2), thick: float = THICK,
) -> dict[str, str]:  # fmt: skip
    return panel(centre, normal, material, half, thick)


def _walls(corridor: Corridor) -> Iterator[dict[str, str]]:
    """Floor, ceiling, and a wall on each side of a tile that one neither comes from nor goes to."""
    tiles = corridor.tiles
    for number, tile in enumerate(tiles):
        x, y = tile.centre
        yield _panel((x, y, -THICK), (0, 0, 1), corridor.floor)
        yield _panel((x, y, TILE + THICK), (0, 0, -1), corridor.ceiling)
        back = (-tile.comes[0], -tile.comes[1])
        is_open = {tile.goes} if number < len(tiles) - 1 else set()
        is_open |= {back} if number else set()
        for a, b in ((1, 0), (0, 1), (-1, 0), (0, -1)):
            if (a, b) not in is_open:
                away = TILE / 2 - THICK
                yield _panel((x + a * away, y + b * away, TILE / 2), (-a, -b, 0), corridor.wall)


def _side(tile: Tile, rng: np.random.Generator) -> Heading:
    """One of the sides of a straight tile."""
    return _turned(tile.comes, 1 if rng.integers(2) else -1)


def _posters(corridor: Corridor) -> Iterator[dict[str, str]]:
    rng = np.random.default_rng([corridor.seed, 1])
    for number, texture in corridor.posters:
        tile = corridor.tiles[number]
        a, b = _side(tile, rng)
        if (a, b) in (tile.goes, (-tile.comes[0], -tile.comes[1])):
            a, b = -a, -b
        x, y = tile.centre
        away = TILE / 2 - 2 * THICK - 0.01
        high = 1.2 + 0.4 * rng.random()
        yield _panel((x + a * away, y + b * away, high), (-a, -b, 0), texture, (0.45, 0.6), 0.01)


def _pipes(corridor: Corridor) -> Iterator[dict[str, str]]:
    if not corridor.pipes:
        return
    for tile in corridor.tiles:
        x, y = tile.centre
        a, b = tile.comes
        for beside, thick, colour in ((-0.9, 0.08, (0.5, 0.5, 0.52)), (0.6, 0.05, (0.7, 0.4, 0.2))):
            ends = [x - a * TILE / 2 - b * beside, y - b * TILE / 2 + a * beside, TILE - 0.3]
            ends += [x + a * TILE / 2 - b * beside, y + b * TILE / 2 + a * beside, TILE - 0.3]
            yield {
                "type": "cylinder",
                "fromto": words(ends),
                "size": f"{thick}",
                "rgba": words([*colour, 1]),
            }


def _things(corridor: Corridor) -> Iterator[dict[str, str]]:
    """What stands in the way. Everything leaves room for the drone on one side."""
    rng = np.random.default_rng([corridor.seed, 2])
    for number, thing in corridor.things:
        tile = corridor.tiles[number]
        colour = corridor.paint[int(rng.integers(len(corridor.paint)))]
        side = 1 if rng.integers(2) else -1
        yield from _thing(thing, tile, side, colour, rng)


def _thing(
    thing: Thing, tile: Tile, side: int, colour: Colour, rng: np.random.Generator
) -> Iterator[dict[str, str]]:
    x, y = tile.centre
    along, beside = np.array(tile.comes, dtype=float), np.array(_turned(tile.comes, 1), dtype=float)

    def at(forward: float, sideways: float, high: float) -> str:
        place = np.array([x, y]) + forward * along + sideways * beside
        return words([*place, high])

    def box(where: str, half: tuple[float, float, float], rgb: Colour = colour) -> dict[str, str]:
        wide, deep = (half[0], half[1]) if tile.comes[0] else (half[1], half[0])
        return {
            "type": "box",
            "pos": where,
            "size": words([wide, deep, half[2]]),
            "rgba": words([*rgb, 1]),
        }

    if thing == "person":
        away = side * (0.7 + 0.2 * rng.random())
        skin = (0.85, 0.65, 0.5)
        yield {
            "type": "capsule",
            "pos": at(0, away, 0.75),
            "size": "0.2 0.55",
            "rgba": words([*colour, 1]),
        }
        yield {
            "type": "sphere",
            "pos": at(0, away, 1.62),
            "size": "0.16",
            "rgba": words([*skin, 1]),
        }
        for leg in (-0.09, 0.09):
            yield {
                "type": "capsule",
                "pos": at(leg, away, 0.3),
                "size": "0.08 0.25",
                "rgba": "0.15 0.15 0.2 1",
            }
    elif thing == "pillar":
        yield {
            "type": "cylinder", "pos": at(0, side * 0.75, TILE / 2),
            "size": words([0.2, TILE / 2]), "rgba": words([*colour, 1]),
        }  # fmt: skip
    elif thing == "crate":
        yield box(at(0, side * 0.95, 0.7), (0.4, 0.35, 0.7))
    elif thing == "shelf":
        yield box(at(0, side * 1.2, 1.0), (0.6, 0.2, 1.0))
        for shelf in range(4):
            books = 0.9 - 0.25 * rng.random(3)
            yield box(at(0, side * 0.99, 0.35 + 0.45 * shelf), (0.5, 0.02, 0.14), tuple(books))
    else:
        width, thick = (0.16, 0.1) if thing == "doorway" else (0.32, 0.16)
        for hand in (-1, 1):
            yield box(at(0, hand * (1.45 - width), TILE / 2), (thick, width, TILE / 2))
        yield box(at(0, 0, TILE - 0.25), (thick, 1.45, 0.25))
