"""Corridors: a frozen specification, and the MuJoCo model built from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias, get_args
from xml.etree import ElementTree as Xml

import mujoco
import numpy as np

from taskfree._core import validation
from taskfree.paper.simulation import textures
from taskfree.paper.simulation.scene import Scene, Triple, join_numbers, panel
from taskfree.paper.simulation.textures import Colour

TILE = 3.0
"""The width, length and height of a tile, in metres."""
HALF_THICKNESS = 0.05
"""Half the thickness of walls, floor and ceiling, in metres."""

Obstacle: TypeAlias = Literal["person", "pillar", "crate", "shelf", "doorway", "arc"]
Heading: TypeAlias = tuple[int, int]
Geom: TypeAlias = dict[str, str]
"""The attributes of a MuJoCo geom."""

TURNS = {"S": 0, "L": 1, "R": -1}
"""Quarter turns to the left."""


class Tile(NamedTuple):
    """A square of a corridor."""

    cell: tuple[int, int]
    """Its position on the grid of tiles."""
    entry: Heading
    """The heading at its entry."""
    exit: Heading
    """The heading at its exit."""

    @property
    def centre(self) -> tuple[float, float]:
        """Its centre, in metres."""
        return self.cell[0] * TILE, self.cell[1] * TILE


@dataclass(frozen=True)
class Corridor:
    """The full specification of a corridor; equal specifications are equal worlds."""

    path: str
    """One letter per tile: S goes straight on, L and R turn left and right."""
    wall: str
    """The texture of the walls: see `taskfree.paper.simulation.textures`."""
    floor: str
    """The texture of the floor."""
    ceiling: str
    """The texture of the ceiling."""
    light: float = 0.4
    """Ambient brightness, from 0 to 1."""
    headlight: float = 0.5
    """Additional brightness of surfaces that face the drone, by its headlight."""
    haze: float = 0.0
    """The density of the haze: at ten metres, it covers 1 - exp(-haze) of the view."""
    haze_colour: Colour = (0.5, 0.5, 0.5)
    obstacles: tuple[tuple[int, Obstacle], ...] = ()
    """The obstacles: the number of a tile, and the kind of obstacle in it."""
    posters: tuple[tuple[int, str], ...] = ()
    """The posters: the number of a tile, and the texture on its wall."""
    pipes: bool = False
    """Whether pipes run below the ceiling."""
    paint: tuple[Colour, ...] = field(default=((0.75, 0.16, 0.14), (0.16, 0.32, 0.66)))
    """The colours of obstacles."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.path or set(self.path) - TURNS.keys():
            raise ValueError(f"path must consist of S, L and R, got {self.path!r}")
        cells = [tile.cell for tile in self.tiles]
        if len(set(cells)) < len(cells):
            raise ValueError(f"path crosses itself: {self.path!r}")
        for name in (self.wall, self.floor, self.ceiling, *(name for _, name in self.posters)):
            textures.check(name)
        for name in ("light", "headlight", "haze"):
            validation.number(name, getattr(self, name), least=0)
        for number, obstacle in self.obstacles:
            validation.choice("obstacles", obstacle, get_args(Obstacle))
            if not 0 <= number < len(cells):
                raise ValueError(f"obstacles must be in tiles 0 to {len(cells) - 1}, got {number}")

    @property
    def tiles(self) -> list[Tile]:
        """The tiles in order; the first is entered from the west."""
        found, cell, heading = [], (0, 0), (1, 0)
        for letter in self.path:
            after = _rotate(heading, TURNS[letter])
            found.append(Tile(cell, heading, after))
            cell, heading = (cell[0] + after[0], cell[1] + after[1]), after
        return found

    @property
    def bends(self) -> int:
        """The number of tiles that turn."""
        return sum(letter != "S" for letter in self.path)


def _rotate(heading: Heading, quarters: int) -> Heading:
    """A heading after quarter turns to the left."""
    for _ in range(quarters % 4):
        heading = (-heading[1], heading[0])
    return heading


def draw_path(tiles: int, bends: int, rng: np.random.Generator) -> str:
    """A random path that neither crosses itself nor turns the same way three times in a row.

    >>> path = draw_path(12, 4, np.random.default_rng(0))
    >>> len(path), sum(letter != "S" for letter in path)
    (12, 4)
    """
    while True:
        letters = ["S"] * tiles
        for number in rng.choice(np.arange(1, tiles - 1), bends, replace=False):
            letters[number] = "LR"[rng.integers(2)]
        path = "".join(letters)
        turns = path.replace("S", "")
        if "LLL" in turns or "RRR" in turns or _crosses_itself(path):
            continue
        return path


def _crosses_itself(path: str) -> bool:
    """Whether a path visits a cell twice."""
    cell, heading = (0, 0), (1, 0)
    visited: set[tuple[int, int]] = set()
    for letter in path:
        if cell in visited:
            return True
        visited.add(cell)
        heading = _rotate(heading, TURNS[letter])
        cell = (cell[0] + heading[0], cell[1] + heading[1])
    return False


# The model


def build(corridor: Corridor, robot: Xml.Element | None = None) -> mujoco.MjModel:
    """The MuJoCo model of a corridor, with a robot in it."""
    scene = Scene("corridor", light=corridor.light, headlight=corridor.headlight)
    names = dict.fromkeys(
        [corridor.wall, corridor.floor, corridor.ceiling, *(name for _, name in corridor.posters)]
    )
    for name in names:
        scene.add_texture(name, corridor.seed)
    for attributes in (
        *_walls(corridor),
        *_posters(corridor),
        *_pipes(corridor),
        *_obstacles(corridor),
    ):
        scene.add_geom(attributes)
    if robot is not None:
        scene.add_robot(robot)
    return scene.model()


def _wall(centre: Triple, normal: Triple, texture: str) -> Geom:
    return panel(centre, normal, texture, (TILE / 2, TILE / 2), HALF_THICKNESS)


def _walls(corridor: Corridor) -> Iterator[Geom]:
    """Floor, ceiling, and a wall on each side of a tile that is neither its entry nor its exit."""
    tiles = corridor.tiles
    for number, tile in enumerate(tiles):
        x, y = tile.centre
        yield _wall((x, y, -HALF_THICKNESS), (0, 0, 1), corridor.floor)
        yield _wall((x, y, TILE + HALF_THICKNESS), (0, 0, -1), corridor.ceiling)
        back = (-tile.entry[0], -tile.entry[1])
        is_open = {tile.exit} if number < len(tiles) - 1 else set()
        is_open |= {back} if number else set()
        for a, b in ((1, 0), (0, 1), (-1, 0), (0, -1)):
            if (a, b) not in is_open:
                distance = TILE / 2 - HALF_THICKNESS
                centre = (x + a * distance, y + b * distance, TILE / 2)
                yield _wall(centre, (-a, -b, 0), corridor.wall)


def _side(tile: Tile, rng: np.random.Generator) -> Heading:
    """One of the two sides of a straight tile, at random."""
    return _rotate(tile.entry, 1 if rng.integers(2) else -1)


def _posters(corridor: Corridor) -> Iterator[Geom]:
    rng = np.random.default_rng([corridor.seed, 1])
    for number, texture in corridor.posters:
        tile = corridor.tiles[number]
        a, b = _side(tile, rng)
        if (a, b) in (tile.exit, (-tile.entry[0], -tile.entry[1])):
            a, b = -a, -b
        x, y = tile.centre
        distance = TILE / 2 - 2 * HALF_THICKNESS - 0.01
        centre = (x + a * distance, y + b * distance, 1.2 + 0.4 * rng.random())
        yield panel(centre, (-a, -b, 0), texture, (0.45, 0.6), 0.01)


def _pipes(corridor: Corridor) -> Iterator[Geom]:
    if not corridor.pipes:
        return
    for tile in corridor.tiles:
        x, y = tile.centre
        a, b = tile.entry
        for offset, radius, colour in (
            (-0.9, 0.08, (0.5, 0.5, 0.52)),
            (0.6, 0.05, (0.7, 0.4, 0.2)),
        ):
            ends = [x - a * TILE / 2 - b * offset, y - b * TILE / 2 + a * offset, TILE - 0.3]
            ends += [x + a * TILE / 2 - b * offset, y + b * TILE / 2 + a * offset, TILE - 0.3]
            yield {
                "type": "cylinder",
                "fromto": join_numbers(ends),
                "size": f"{radius}",
                "rgba": join_numbers([*colour, 1]),
            }


def _obstacles(corridor: Corridor) -> Iterator[Geom]:
    """The obstacles. Each leaves room for the drone to pass."""
    rng = np.random.default_rng([corridor.seed, 2])
    for number, obstacle in corridor.obstacles:
        tile = corridor.tiles[number]
        colour = corridor.paint[int(rng.integers(len(corridor.paint)))]
        side = 1 if rng.integers(2) else -1
        yield from _obstacle(obstacle, tile, side, colour, rng)


def _obstacle(
    obstacle: Obstacle, tile: Tile, side: int, colour: Colour, rng: np.random.Generator
) -> Iterator[Geom]:
    """The geoms of an obstacle on the left (1) or right (-1) side of a tile."""
    x, y = tile.centre
    ahead, left = np.array(tile.entry, dtype=float), np.array(_rotate(tile.entry, 1), dtype=float)
    rgba = join_numbers([*colour, 1])

    def at(forward: float, sideways: float, height: float) -> str:
        position = np.array([x, y]) + forward * ahead + sideways * left
        return join_numbers([*position, height])

    def box(pos: str, half_size: tuple[float, float, float], rgb: Colour = colour) -> Geom:
        length, width, height = half_size
        size = [length, width, height] if tile.entry[0] else [width, length, height]
        return {
            "type": "box",
            "pos": pos,
            "size": join_numbers(size),
            "rgba": join_numbers([*rgb, 1]),
        }

    if obstacle == "person":
        offset = side * (0.7 + 0.2 * rng.random())
        skin = "0.85 0.65 0.5 1"
        yield {"type": "capsule", "pos": at(0, offset, 0.75), "size": "0.2 0.55", "rgba": rgba}
        yield {"type": "sphere", "pos": at(0, offset, 1.62), "size": "0.16", "rgba": skin}
        for leg in (-0.09, 0.09):
            pos, trousers = at(leg, offset, 0.3), "0.15 0.15 0.2 1"
            yield {"type": "capsule", "pos": pos, "size": "0.08 0.25", "rgba": trousers}
    elif obstacle == "pillar":
        pos, size = at(0, side * 0.75, TILE / 2), join_numbers([0.2, TILE / 2])
        yield {"type": "cylinder", "pos": pos, "size": size, "rgba": rgba}
    elif obstacle == "crate":
        yield box(at(0, side * 0.95, 0.7), (0.4, 0.35, 0.7))
    elif obstacle == "shelf":
        yield box(at(0, side * 1.2, 1.0), (0.6, 0.2, 1.0))
        for shelf in range(4):
            books = 0.9 - 0.25 * rng.random(3)
            yield box(at(0, side * 0.99, 0.35 + 0.45 * shelf), (0.5, 0.02, 0.14), tuple(books))
    else:  # a frame around the passage: a thin one, or a thick one
        width, depth = (0.16, 0.1) if obstacle == "doorway" else (0.32, 0.16)
        for hand in (-1, 1):
            yield box(at(0, hand * (1.45 - width), TILE / 2), (depth, width, TILE / 2))
        yield box(at(0, 0, TILE - 0.25), (depth, 1.45, 0.25))
