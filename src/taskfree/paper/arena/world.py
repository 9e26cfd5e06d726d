"""The arena: seven wall panels around one large obstacle, and the MuJoCo model built from it."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi, sin, tan
from xml.etree import ElementTree as Xml

import mujoco

from taskfree._core import validation
from taskfree.paper.simulation.scene import Scene, join_numbers, panel
from taskfree.paper.simulation.textures import Colour

PANELS, PANEL_WIDTH, PANEL_HEIGHT = 7, 0.82, 0.48
"""Number, width and height of the panels, in metres: the authors' world."""
WALL_DISTANCE = PANEL_WIDTH / 2 / tan(pi / PANELS)
"""Metres from the centre to the middle of a panel."""
OBSTACLE_RADIUS, OBSTACLE_HEIGHT = 0.185, 0.6
"""Of the cylinder in the centre, in metres."""


@dataclass(frozen=True)
class Arena:
    """The full specification of an arena; equal specifications are equal worlds."""

    wall: str = "chipboard"
    """The texture of the panels: see `taskfree.paper.simulation.textures`."""
    floor: str = "asphalt"
    """The texture of the floor."""
    obstacle: Colour = (1.0, 0.84, 0.05)
    """The colour of the obstacle in the centre."""
    light: float = 0.45
    """Ambient brightness, from 0 to 1."""
    headlight: float = 0.45
    """Additional brightness of surfaces that face the camera."""
    noise: float = 0.007
    """The standard deviation of the pixel noise, where 1 is white."""
    friction: float = 1.0
    """Between wheels and floor."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("light", "headlight", "noise"):
            validation.number(name, getattr(self, name), least=0)
        validation.number("friction", self.friction, above=0)
        validation.integer("seed", self.seed, least=0)


SIMULATED = Arena()
"""The authors' simulated arena: chipboard, a dark floor and a yellow barrel."""
LAB = Arena(
    wall="planks", floor="floor tiles", obstacle=(0.86, 0.62, 0.12), light=0.3, headlight=0.35,
    noise=0.03, friction=0.7,
)  # fmt: skip
"""A stand-in for the real arena: other wood, another floor, less light, more noise, less grip."""
ARENAS = {"simulated": SIMULATED, "lab": LAB}


def build(arena: Arena, robot: Xml.Element | None = None) -> mujoco.MjModel:
    """The MuJoCo model of an arena, with a robot in it."""
    scene = Scene("arena", light=arena.light, headlight=arena.headlight)
    scene.add_texture(arena.wall, arena.seed, repeat=1.0)
    scene.add_texture(arena.floor, arena.seed)
    ground = panel((0, 0, -0.05), (0, 0, 1), arena.floor, (4.0, 4.0), 0.05)
    scene.add_geom(ground | {"friction": join_numbers([arena.friction, 0.005, 0.0001])})
    half_size = (PANEL_WIDTH / 2 + 0.01, PANEL_HEIGHT / 2)
    for number in range(PANELS):
        angle = 2 * pi * number / PANELS
        x, y = WALL_DISTANCE * cos(angle), WALL_DISTANCE * sin(angle)
        facing = (-cos(angle), -sin(angle), 0.0)
        scene.add_geom(panel((x, y, PANEL_HEIGHT / 2), facing, arena.wall, half_size, 0.01))
    scene.add_geom(
        {
            "type": "cylinder",
            "pos": join_numbers([0, 0, OBSTACLE_HEIGHT / 2]),
            "size": join_numbers([OBSTACLE_RADIUS, OBSTACLE_HEIGHT / 2]),
            "rgba": join_numbers([*arena.obstacle, 1]),
        }
    )
    if robot is not None:
        scene.add_robot(robot)
    return scene.model()
