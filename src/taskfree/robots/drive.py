"""Driving in the arena: a simulated robot, and its Gymnasium environment."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from taskfree import arguments
from taskfree.robots import wheels
from taskfree.robots.arena import ARENAS, AWAY, RADIUS, Arena, build
from taskfree.robots.camera import Kind
from taskfree.robots.camera import make as make_camera
from taskfree.robots.laser import Laser
from taskfree.robots.robot import RobotEnv, Scan
from taskfree.robots.textures import Picture


class SimulatedRobot:
    """The wheeled robot in an arena, as a `taskfree.robots.Robot`.

    Args:
        arena: where it is.
        camera: `"ray"` or `"gl"`: see `taskfree.robots.camera`.
    """

    def __init__(self, arena: Arena, camera: Kind = "ray") -> None:
        self.arena = arena
        self.model = build(arena, wheels.body((0.0, 0.0), 0.0))
        self.data = mujoco.MjData(self.model)
        self.noise = np.random.default_rng(0)
        self.camera = make_camera(camera, self.model, (0.0, (0.62, 0.64, 0.67)))
        self._driver, self._laser = wheels.Driver(self.model), Laser(self.model, "robot", 0.14)

    def put(self, x: float, y: float, heading: float) -> None:
        """Put it somewhere, at rest."""
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:2] = x, y
        self.data.qpos[3:7] = np.cos(heading / 2), 0, 0, np.sin(heading / 2)
        mujoco.mj_forward(self.model, self.data)

    @property
    def place(self) -> tuple[float, float, float]:
        """Where it is in metres, and its heading in radians."""
        x, y = self.data.qpos[:2].tolist()
        return x, y, self._driver.heading(self.data)

    def picture(self) -> Picture:
        """What its camera sees, with the arena's grain."""
        picture = self.camera.picture(self.data)
        noise = 255 * self.arena.grain * self.noise.standard_normal(picture.shape)
        return np.clip(picture + noise, 0, 255).astype(np.uint8)

    def scan(self) -> Scan:
        """What its laser sees."""
        return self._laser.scan(self.data, self._driver.heading(self.data), self.noise)

    def drive(self, speed: float, turn: float) -> None:
        """Drive for a fifth of a second."""
        self._driver.drive(self.data, speed, turn)


class ArenaEnv(RobotEnv):
    """A wheeled robot in an arena: it sees a picture and turns left, drives on, or turns right.

    `info` has `scan` (the laser's 360 beams in metres), `expert` (what the laser's expert would do
    now), `collision`, and `place` (x, y in metres and the heading in radians). It never ends: after
    a collision call `recover`, which turns the robot until what was nearest is behind it.

    Args:
        arena: `"simulated"`, `"lab"`, or an `Arena` of your own.
        camera: `"ray"`, which needs nothing, or `"gl"`: see `taskfree.robots.camera`.
        render_mode: `"rgb_array"`.
    """

    def __init__(
        self,
        arena: str | Arena = "simulated",
        *,
        camera: Kind = "ray",
        render_mode: str | None = None,
    ) -> None:
        if isinstance(arena, str):
            arena = ARENAS[arguments.one_of("arena", arena, tuple(ARENAS))]
        self.simulated = SimulatedRobot(arena, camera)
        super().__init__(self.simulated, render_mode=render_mode)

    def _begin(self) -> None:
        """Somewhere between the thing and the panels, looking along the way around it."""
        angle, way = self.np_random.uniform(0, 2 * np.pi), (RADIUS + AWAY) / 2
        around = np.pi / 2 if self.np_random.integers(2) else -np.pi / 2
        heading = angle + around + self.np_random.uniform(-0.5, 0.5)
        self.simulated.noise = self.np_random
        self.simulated.put(way * np.cos(angle), way * np.sin(angle), heading)

    def _look(self) -> tuple[Picture, dict[str, Any]]:
        picture, info = super()._look()
        return picture, info | {"place": self.simulated.place}

    def close(self) -> None:
        """Give back the camera."""
        self.simulated.camera.close()
