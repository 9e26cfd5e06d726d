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

from taskfree._core import validation
from taskfree.paper.corridors import drone
from taskfree.paper.corridors.themes import corridor as named_corridor
from taskfree.paper.corridors.world import TILE, Corridor, build
from taskfree.paper.simulation.camera import Kind
from taskfree.paper.simulation.camera import make as make_camera
from taskfree.paper.simulation.laser import Laser
from taskfree.robot import SIZE, Action, Image, expert

SPEED, TURN = 0.8, 1.0
"""Metres per second in every action, radians per second in turns: the authors' later code."""


class CorridorEnv(gymnasium.Env[NDArray[np.uint8], Any]):
    """A drone flies through a corridor: it observes an image and flies left, straight on or right.

    `info` has `scan` (360 distances in metres), `expert` (the expert's action, from the scan),
    `collision`, `tile` (the number of the current tile) and `distance` (metres flown). An episode
    ends at the end of the corridor or at a collision. The reward is the number of new tiles.

    Args:
        corridor: one of A to J, or any `Corridor`.
        camera: `"ray"`, which needs no system package, or `"gl"`: see
            `taskfree.paper.simulation.camera`.
        world_seed: the seed of a named corridor: its path and obstacles.
        render_mode: `"rgb_array"`, or `"human"`, which needs a screen.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium declares it
        "render_modes": ["rgb_array", "human"],
        "render_fps": 10,
    }

    def __init__(
        self,
        corridor: str | Corridor = "A",
        *,
        camera: Kind = "ray",
        world_seed: int = 0,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None:
            validation.choice("render_mode", render_mode, ("rgb_array", "human"))
        screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        if render_mode == "human" and sys.platform == "linux" and not screen:
            raise RuntimeError(
                "render_mode='human' needs a screen, but neither DISPLAY nor WAYLAND_DISPLAY is "
                "set; use render_mode='rgb_array' and show or save the images"
            )
        if not isinstance(corridor, str | Corridor):
            raise TypeError(
                "corridor must be one of A to J, or a taskfree.paper.corridors.Corridor, "
                f"got {corridor!r}"
            )
        if isinstance(corridor, str):
            corridor = named_corridor(corridor, world_seed)
        self.corridor = corridor
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8)
        self.action_space = spaces.Discrete(len(Action))
        first = self.corridor.tiles[0]
        heading = float(np.arctan2(first.entry[1], first.entry[0]))
        self.model = build(self.corridor, drone.body(first.centre, heading))
        self.data = mujoco.MjData(self.model)
        haze = (self.corridor.haze, self.corridor.haze_colour)
        self._camera = make_camera(camera, self.model, haze)
        self._pilot, self._laser = drone.Pilot(self.model), Laser(self.model, "drone")
        self._numbers = {tile.cell: number for number, tile in enumerate(self.corridor.tiles)}
        self._image: Image | None = None
        self._viewer: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Image, dict[str, Any]]:
        """Start at the first tile, or at `options["tile"]`; the seed is for the laser's noise."""
        super().reset(seed=seed, options=options)
        if unknown := set(options or {}) - {"tile"}:
            raise ValueError(
                f"options may only have the key tile, got {', '.join(map(str, unknown))}"
            )
        start = validation.integer("tile", (options or {}).get("tile", 0), least=0)
        if start >= len(self.corridor.tiles):
            raise ValueError(f"tile must be below {len(self.corridor.tiles)}, got {start}")
        self.distance, self._furthest = 0.0, start
        return self._place(start)

    def recover(self) -> tuple[Image, dict[str, Any]]:
        """After a collision: put the drone at the centre of its tile, facing the tile's exit."""
        return self._place(self._tile())

    def _place(self, number: int) -> tuple[Image, dict[str, Any]]:
        tile = self.corridor.tiles[number]
        heading = np.arctan2(tile.exit[1], tile.exit[0])
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:2] = tile.centre
        self.data.qpos[3:7] = (np.cos(heading / 2), 0, 0, np.sin(heading / 2))
        mujoco.mj_forward(self.model, self.data)
        return self._observe()

    def step(self, action: int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        """Fly for a tenth of a second."""
        turn = {Action.LEFT: TURN, Action.STRAIGHT: 0.0, Action.RIGHT: -TURN}[Action(action)]
        before = self.data.qpos[:2].copy()
        self._pilot.fly(self.data, SPEED, turn)
        self.distance += float(np.linalg.norm(self.data.qpos[:2] - before))
        image, info = self._observe()
        new = max(0, info["tile"] - self._furthest)
        self._furthest += new
        ended = info["collision"] or info["tile"] == len(self.corridor.path) - 1
        if self.render_mode == "human":
            self.render()
        return image, float(new), ended, False, info

    def _observe(self) -> tuple[Image, dict[str, Any]]:
        self._image = self._camera.image(self.data)
        heading = self._pilot.heading(self.data)
        scan = self._laser.scan(self.data, heading, self.np_random)
        return self._image, {
            "scan": scan,
            "expert": int(expert(scan)),
            "collision": self._pilot.touches(self.data),
            "tile": self._tile(),
            "distance": self.distance,
        }

    def _tile(self) -> int:
        """The number of the current tile; inside a wall, that of the furthest tile reached."""
        x, y = np.round(self.data.qpos[:2] / TILE).astype(int).tolist()
        return self._numbers.get((x, y), self._furthest)

    def render(self) -> Any:
        """The camera image, or a window that shows the world."""
        if self.render_mode == "human":
            self._show()
            return None
        return self._image

    def _show(self) -> None:
        if self._viewer is None:
            from mujoco import viewer

            self._viewer = viewer.launch_passive(self.model, self.data)
        self._viewer.sync()

    def close(self) -> None:
        """Release the camera and the window."""
        self._camera.close()
        if self._viewer is not None:
            self._viewer.close()
