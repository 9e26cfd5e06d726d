"""Driving in the arena, as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from taskfree import arguments
from taskfree.robots import wheels
from taskfree.robots.arena import ARENAS, AWAY, RADIUS, Arena, build
from taskfree.robots.camera import SIZE, Kind
from taskfree.robots.camera import make as make_camera
from taskfree.robots.laser import Action, Laser, expert
from taskfree.robots.textures import Picture

SPEED, TURN = 0.22, 0.6
"""Metres a second straight on; radians a second in a turn, on the spot."""
NEAR = 0.2
"""Metres: what is nearer than this in front is a collision."""
VIEW, FRONT = 140, 60
"""Degrees that the expert looks at, and how much of that is straight ahead."""


class ArenaEnv(gymnasium.Env[NDArray[np.uint8], Any]):
    """A wheeled robot in an arena: it sees a picture and turns left, drives on, or turns right.

    `info` has `scan` (the laser's 360 beams in metres), `expert` (what the laser's expert would do
    now), `collision`, and `place` (x, y in metres and the heading in radians). It never ends: after
    a collision call `recover`, which turns the robot until what was nearest is behind it.

    Args:
        arena: `"simulated"`, `"lab"`, or an `Arena` of your own.
        camera: `"ray"`, which needs nothing, or `"gl"`: see `taskfree.robots.camera`.
        render_mode: `"rgb_array"`.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012

    def __init__(
        self,
        arena: str | Arena = "simulated",
        *,
        camera: Kind = "ray",
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None:
            arguments.one_of("render_mode", render_mode, ("rgb_array",))
        if isinstance(arena, str):
            arena = ARENAS[arguments.one_of("arena", arena, tuple(ARENAS))]
        self.arena, self.render_mode = arena, render_mode
        self.observation_space = spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8)
        self.action_space = spaces.Discrete(len(Action))
        self.model = build(arena, wheels.body((0.0, 0.0), 0.0))
        self.data = mujoco.MjData(self.model)
        self._camera = make_camera(camera, self.model, (0.0, (0.62, 0.64, 0.67)))
        self._driver, self._laser = wheels.Driver(self.model), Laser(self.model, "robot", 0.14)
        self._picture: Picture | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Picture, dict[str, Any]]:
        """Begin somewhere between the thing and the panels, looking along the way around it."""
        super().reset(seed=seed, options=options)
        angle = self.np_random.uniform(0, 2 * np.pi)
        way = (RADIUS + AWAY) / 2
        heading = angle + np.pi / 2 + self.np_random.uniform(-0.5, 0.5)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:2] = way * np.cos(angle), way * np.sin(angle)
        self.data.qpos[3:7] = np.cos(heading / 2), 0, 0, np.sin(heading / 2)
        mujoco.mj_forward(self.model, self.data)
        return self._look()

    def step(self, action: int) -> tuple[Picture, float, bool, bool, dict[str, Any]]:
        """Drive for a fifth of a second. The reward of a collision is -1."""
        speed, turn = {
            Action.LEFT: (0.0, TURN),
            Action.STRAIGHT: (SPEED, 0.0),
            Action.RIGHT: (0.0, -TURN),
        }[Action(action)]
        self._driver.drive(self.data, speed, turn)
        picture, info = self._look()
        return picture, -float(info["collision"]), False, False, info

    def recover(self) -> tuple[Picture, dict[str, Any]]:
        """After a collision: back a little, then turn until what is nearest is behind."""
        self._driver.drive(self.data, -SPEED, 0.0)
        turn = 1.0 if self.np_random.integers(2) else -1.0
        for _ in range(60):
            scan = self._scan()
            bins = scan.reshape(36, 10).mean(1)
            behind = 36 * 3 // 8 <= int(bins.argmin()) < 36 * 5 // 8
            if behind and not _touches(scan):
                break
            self._driver.drive(self.data, 0.0, turn)
        return self._look()

    def _scan(self) -> NDArray[np.float64]:
        return self._laser.scan(self.data, self._driver.heading(self.data), self.np_random)

    def _look(self) -> tuple[Picture, dict[str, Any]]:
        picture = self._camera.picture(self.data)
        noise = 255 * self.arena.grain * self.np_random.standard_normal(picture.shape)
        self._picture = np.clip(picture + noise, 0, 255).astype(np.uint8)
        scan = self._scan()
        x, y = self.data.qpos[:2].tolist()
        return self._picture, {
            "scan": scan,
            "expert": int(expert(scan, VIEW, FRONT)),
            "collision": _touches(scan),
            "place": (x, y, self._driver.heading(self.data)),
        }

    def render(self) -> Any:
        """The picture of the camera."""
        return self._picture

    def close(self) -> None:
        """Give back the camera."""
        self._camera.close()


def _touches(scan: NDArray[np.float64]) -> bool:
    """Whether something is near in front: the least mean of four beams within 45 degrees."""
    front = np.concatenate([scan[-44:], scan[:44]]).reshape(-1, 4).mean(1)
    return bool(front.min() < NEAR)
