"""The arena: seven panels around one big thing, and the MuJoCo model that is built from it."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi, sin, tan
from xml.etree import ElementTree as Xml

import mujoco

from taskfree import arguments
from taskfree.robots.scene import Scene, panel, words
from taskfree.robots.textures import Colour

PANELS, WIDTH, HIGH = 7, 0.82, 0.48
"""How many, how wide and how high in metres: the authors' world."""
AWAY = WIDTH / 2 / tan(pi / PANELS)
"""How far the panels are from the middle."""
RADIUS, TALL = 0.185, 0.6
"""The thing in the middle."""


@dataclass(frozen=True)
class Arena:
    """Everything that makes an arena; the same specification is the same world."""

    wall: str = "chipboard"
    """The texture of the panels, as is that of the floor: see `taskfree.robots.textures`."""
    floor: str = "asphalt"
    thing: Colour = (1.0, 0.84, 0.05)
    """The colour of what stands in the middle."""
    light: float = 0.45
    """How bright it is everywhere, from 0 to 1."""
    lamp: float = 0.45
    """How bright what is straight ahead is made."""
    grain: float = 0.007
    """The standard deviation of a pixel's noise, of 1."""
    friction: float = 1.0
    """Between wheels and floor."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("light", "lamp", "grain"):
            arguments.number(name, getattr(self, name), least=0)
        arguments.number("friction", self.friction, above=0)
        arguments.whole("seed", self.seed, least=0)


SIMULATED = Arena()
"""The authors' simulated arena: chipboard, a dark floor and a yellow barrel."""
LAB = Arena(
    wall="planks", floor="floor tiles", thing=(0.86, 0.62, 0.12), light=0.3, lamp=0.35,
    grain=0.03, friction=0.7,
)  # fmt: skip
"""Stands in for the real one: other wood, another floor, less light, more noise, less grip."""
ARENAS = {"simulated": SIMULATED, "lab": LAB}


def build(arena: Arena, robot: Xml.Element | None = None) -> mujoco.MjModel:
    """The MuJoCo model of an arena, with a robot in it."""
    scene = Scene("arena", light=arena.light, lamp=arena.lamp)
    scene.texture(arena.wall, arena.seed, repeat=1.0)
    scene.texture(arena.floor, arena.seed)
    ground = panel((0, 0, -0.05), (0, 0, 1), arena.floor, (4.0, 4.0), 0.05)
    scene.add(ground | {"friction": words([arena.friction, 0.005, 0.0001])})
    for number in range(PANELS):
        angle = 2 * pi * number / PANELS
        x, y = AWAY * cos(angle), AWAY * sin(angle)
        facing = (-cos(angle), -sin(angle), 0.0)
        scene.add(panel((x, y, HIGH / 2), facing, arena.wall, (WIDTH / 2 + 0.01, HIGH / 2), 0.01))
    scene.add(
        {
            "type": "cylinder", "pos": words([0, 0, TALL / 2]), "size": words([RADIUS, TALL / 2]),
            "rgba": words([*arena.thing, 1]),
        }
    )  # fmt: skip
    if robot is not None:
        scene.put(robot)
    return scene.model()
