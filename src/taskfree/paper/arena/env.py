"""Driving in the arena: a simulated robot, and its Gymnasium environment."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from taskfree._core import validation
from taskfree.paper.arena import wheels
from taskfree.paper.arena.world import ARENAS, OBSTACLE_RADIUS, WALL_DISTANCE, Arena, build
from taskfree.paper.simulation.camera import Kind
from taskfree.paper.simulation.camera import make as make_camera
from taskfree.paper.simulation.laser import Laser
from taskfree.robot import Image, RobotEnv, Scan


class SimulatedRobot:
    """The wheeled robot in an arena, as a `taskfree.robot.Robot`.

    Args:
        arena: the world it is in.
        camera: `"ray"` or `"gl"`: see `taskfree.paper.simulation.camera`.
    """

    def __init__(self, arena: Arena, camera: Kind = "ray") -> None:
        self.arena = arena
        self.model = build(arena, wheels.body((0.0, 0.0), 0.0))
        self.data = mujoco.MjData(self.model)
        self.generator = np.random.default_rng(0)
        self.camera = make_camera(camera, self.model, (0.0, (0.62, 0.64, 0.67)))
        self._driver, self._laser = wheels.Driver(self.model), Laser(self.model, "robot", 0.14)

    def put(self, x: float, y: float, heading: float) -> None:
        """Move it to a pose, at rest."""
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:2] = x, y
        self.data.qpos[3:7] = np.cos(heading / 2), 0, 0, np.sin(heading / 2)
        mujoco.mj_forward(self.model, self.data)

    @property
    def pose(self) -> tuple[float, float, float]:
        """Its position in metres and its heading in radians."""
        x, y = self.data.qpos[:2].tolist()
        return x, y, self._driver.heading(self.data)

    def image(self) -> Image:
        """The camera image, with the arena's noise."""
        image = self.camera.image(self.data)
        noise = 255 * self.arena.noise * self.generator.standard_normal(image.shape)
        return np.clip(image + noise, 0, 255).astype(np.uint8)

    def scan(self) -> Scan:
        """The laser scan, with the laser's noise."""
        return self._laser.scan(self.data, self._driver.heading(self.data), self.generator)

    def drive(self, speed: float, turn: float) -> None:
        """Drive for a fifth of a second."""
        self._driver.drive(self.data, speed, turn)


class ArenaEnv(RobotEnv):
    """A wheeled robot in an arena: it observes an image and turns left, drives on, or turns right.

    `info` has `scan` (360 distances in metres), `expert` (the expert's action, from the scan),
    `collision`, and `pose` (x and y in metres, heading in radians). An episode never ends: after a
    collision, call `recover`, which turns the robot until the nearest obstacle is behind it.

    Args:
        arena: `"simulated"`, `"lab"`, or any `Arena`.
        camera: `"ray"`, which needs no system package, or `"gl"`: see
            `taskfree.paper.simulation.camera`.
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
            arena = ARENAS[validation.choice("arena", arena, tuple(ARENAS))]
        self.simulated = SimulatedRobot(arena, camera)
        super().__init__(self.simulated, render_mode=render_mode)

    def _start(self) -> None:
        """Place it between obstacle and walls, facing one of the two ways around the obstacle."""
        angle = self.np_random.uniform(0, 2 * np.pi)
        distance = (OBSTACLE_RADIUS + WALL_DISTANCE) / 2
        around = np.pi / 2 if self.np_random.integers(2) else -np.pi / 2
        heading = angle + around + self.np_random.uniform(-0.5, 0.5)
        self.simulated.generator = self.np_random
        self.simulated.put(distance * np.cos(angle), distance * np.sin(angle), heading)

    def _observe(self) -> tuple[Image, dict[str, Any]]:
        image, info = super()._observe()
        return image, info | {"pose": self.simulated.pose}

    def close(self) -> None:
        """Release the camera."""
        self.simulated.camera.close()
