"""Flying through a corridor, as a Gymnasium environment."""

from __future__ import annotations

import os
import sys
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from taskfree import arguments
from taskfree.robots import drone
from taskfree.robots.camera import SIZE, Kind
from taskfree.robots.camera import make as make_camera
from taskfree.robots.corridor import TILE, Corridor, build
from taskfree.robots.laser import Action, Laser, expert
from taskfree.robots.textures import Picture
from taskfree.robots.worlds import corridor as world

SPEED, TURN = 0.8, 1.0
"""Metres a second in every action, radians a second in turns: the authors' later code."""


class CorridorEnv(gymnasium.Env[NDArray[np.uint8], Any]):
    """A drone flies through a corridor: it sees a picture and goes left, straight on or right.

    `info` has `scan` (the laser's 360 beams in metres), `expert` (what the laser's expert would do
    now), `collision`, `tile` (where it is) and `distance` (metres flown). A flight ends where the
    corridor does, or at a collision. The reward is the number of new tiles.

    Args:
        corridor: one of A to J, or a `Corridor` of your own.
        camera: `"ray"`, which needs nothing, or `"gl"`: see `taskfree.robots.camera`.
        world_seed: which of the corridors of that name.
        render_mode: `"rgb_array"`, or `"human"` where there is a screen.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "human"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self,
        corridor: str | Corridor = "A",
        *,
        camera: Kind = "ray",
        world_seed: int = 0,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None:
            arguments.one_of("render_mode", render_mode, ("rgb_array", "human"))
        screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        if render_mode == "human" and sys.platform == "linux" and not screen:
            raise RuntimeError(
                "render_mode='human' needs a screen, and DISPLAY is not set; "
                "use render_mode='rgb_array' and show or save the pictures"
            )
        if not isinstance(corridor, str | Corridor):
            raise TypeError(
                f"corridor must be one of A to J, or a taskfree.robots.Corridor, got {corridor!r}"
            )
        self.corridor = world(corridor, world_seed) if isinstance(corridor, str) else corridor
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8)
        self.action_space = spaces.Discrete(len(Action))
        first = self.corridor.tiles[0]
        heading = float(np.arctan2(first.comes[1], first.comes[0]))
        self.model = build(self.corridor, drone.body(first.centre, heading))
        self.data = mujoco.MjData(self.model)
        haze = (self.corridor.haze, self.corridor.haze_colour)
        self._camera = make_camera(camera, self.model, haze)
        self._pilot, self._laser = drone.Pilot(self.model), Laser(self.model, "drone")
        self._numbers = {tile.place: number for number, tile in enumerate(self.corridor.tiles)}
        self._picture: Picture | None = None
        self._viewer: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Picture, dict[str, Any]]:
        """Begin at the first tile, or at `options["tile"]`; the seed is of the laser's noise."""
        super().reset(seed=seed, options=options)
        if unknown := set(options or {}) - {"tile"}:
            raise ValueError(
                f"options must have no key but tile, got {', '.join(map(str, unknown))}"
            )
        start = arguments.whole("tile", (options or {}).get("tile", 0), least=0)
        if start >= len(self.corridor.tiles):
            raise ValueError(f"tile must be below {len(self.corridor.tiles)}, got {start}")
        self.distance, self._furthest = 0.0, start
        return self._put(start)

    def carry_on(self) -> tuple[Picture, dict[str, Any]]:
        """After a collision: put the drone into the middle of its tile, looking along it."""
        return self._put(self._tile())

    def _put(self, number: int) -> tuple[Picture, dict[str, Any]]:
        tile = self.corridor.tiles[number]
        heading = np.arctan2(tile.goes[1], tile.goes[0])
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:2] = tile.centre
        self.data.qpos[3:7] = (np.cos(heading / 2), 0, 0, np.sin(heading / 2))
        mujoco.mj_forward(self.model, self.data)
        return self._look()

    def step(self, action: int) -> tuple[Picture, float, bool, bool, dict[str, Any]]:
        """Fly for a tenth of a second."""
        turn = {Action.LEFT: TURN, Action.STRAIGHT: 0.0, Action.RIGHT: -TURN}[Action(action)]
        before = self.data.qpos[:2].copy()
        self._pilot.fly(self.data, SPEED, turn)
        self.distance += float(np.linalg.norm(self.data.qpos[:2] - before))
        picture, info = self._look()
        new = max(0, info["tile"] - self._furthest)
        self._furthest += new
        ended = info["collision"] or info["tile"] == len(self.corridor.path) - 1
        if self.render_mode == "human":
            self.render()
        return picture, float(new), ended, False, info

    def _look(self) -> tuple[Picture, dict[str, Any]]:
        self._picture = self._camera.picture(self.data)
        heading = self._pilot.heading(self.data)
        scan = self._laser.scan(self.data, heading, self.np_random)
        return self._picture, {
            "scan": scan,
            "expert": int(expert(scan)),
            "collision": self._pilot.touches(self.data),
            "tile": self._tile(),
            "distance": self.distance,
        }

    def _tile(self) -> int:
        """The number of the tile that it is in; the last known one if it is in a wall."""
        x, y = np.round(self.data.qpos[:2] / TILE).astype(int).tolist()
        return self._numbers.get((x, y), self._furthest)

    def render(self) -> Any:
        """The picture of the camera, or a window that shows it."""
        if self.render_mode == "human":
            self._show()
            return None
        return self._picture

    def _show(self) -> None:
        if self._viewer is None:
            from mujoco import viewer

            self._viewer = viewer.launch_passive(self.model, self.data)
        self._viewer.sync()

    def close(self) -> None:
        """Give back the camera and the window."""
        self._camera.close()
        if self._viewer is not None:
            self._viewer.close()
