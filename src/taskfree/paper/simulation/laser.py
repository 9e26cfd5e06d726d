"""A simulated laser scanner."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

from taskfree.robot import BEAMS, MISS

NEAR, FAR = 0.12, 3.5
"""The range in metres."""
NOISE = 0.01
"""The standard deviation of a measured distance, in metres."""

_ANGLES = np.radians(np.arange(BEAMS))


class Laser:
    """A scanner with 360 horizontal beams.

    Args:
        model: the MuJoCo model.
        body: the name of the robot's body, which the beams pass through.
        height: metres above the body's centre.
    """

    def __init__(self, model: mujoco.MjModel, body: str, height: float = 0.0) -> None:
        self.model, self._offset = model, np.array([0.0, 0.0, height])
        self._body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, body)
        self._geoms = np.zeros(BEAMS, dtype=np.int32)
        self._distances = np.zeros(BEAMS)

    def scan(
        self, data: mujoco.MjData, heading: float, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """The distance in every direction, in metres, from straight ahead counter-clockwise."""
        angles = _ANGLES + heading
        rays = np.stack([np.cos(angles), np.sin(angles), np.zeros(BEAMS)], axis=1)
        mujoco.mj_multiRay(
            self.model, data, data.xpos[self._body] + self._offset, rays.ravel(), None, True,
            self._body, self._geoms, self._distances, None, BEAMS, FAR,
        )  # fmt: skip
        noisy = np.clip(self._distances + NOISE * rng.standard_normal(BEAMS), NEAR, FAR)
        return np.where((self._geoms >= 0) & (self._distances <= FAR), noisy, MISS)
