"""The laser scanner, and the expert that steers by it."""

from __future__ import annotations

from enum import IntEnum

import mujoco
import numpy as np
from numpy.typing import NDArray

BEAMS = 360
"""One a degree, the first straight ahead, to the left."""
NEAR, FAR, MISS = 0.12, 3.5, 5.0
"""Metres: what it can see, and what it says where it sees nothing."""
NOISE = 0.01
"""The standard deviation of a beam's length in metres."""

_ANGLES = np.radians(np.arange(BEAMS))


class Action(IntEnum):
    """What the expert and the network choose from."""

    LEFT = 0
    STRAIGHT = 1
    RIGHT = 2


class Laser:
    """A scanner of 360 beams in the plane around a body, or so many metres above its middle."""

    def __init__(self, model: mujoco.MjModel, body: str, above: float = 0.0) -> None:
        self.model, self._above = model, np.array([0.0, 0.0, above])
        self._body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, body)
        self._geoms = np.zeros(BEAMS, dtype=np.int32)
        self._found = np.zeros(BEAMS)

    def scan(
        self, data: mujoco.MjData, heading: float, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """How far it is in every direction, in metres."""
        angles = _ANGLES + heading
        rays = np.stack([np.cos(angles), np.sin(angles), np.zeros(BEAMS)], axis=1)
        mujoco.mj_multiRay(
            self.model, data, data.xpos[self._body] + self._above, rays.ravel(), None, True,
            self._body, self._geoms, self._found, None, BEAMS, FAR,
        )  # fmt: skip
        noisy = np.clip(self._found + NOISE * rng.standard_normal(BEAMS), NEAR, FAR)
        return np.where((self._geoms >= 0) & (self._found <= FAR), noisy, MISS)


VIEW, FRONT = 100, 40
"""Degrees: what the expert looks at, and how much of that is straight ahead."""


def expert(scan: NDArray[np.float64], view: int = VIEW, front: int = FRONT) -> Action:
    """Where the expert goes: to the furthest depth, straight on if it does not matter.

    As the authors' does, it looks at 100 degrees in three parts of 30, 40 and 30, takes the least
    depth in each, and turns to the part where that is the largest. It remembers nothing.

    >>> free = np.full(360, 5.0)
    >>> expert(free).name
    'STRAIGHT'
    >>> blocked = free.copy()
    >>> blocked[:20] = blocked[-60:] = 0.5
    >>> expert(blocked).name
    'LEFT'
    """
    side, half = (view - front) // 2, front // 2
    ahead = min(scan[:half].min(), scan[-half:].min())
    left, right = scan[half : half + side].min(), scan[-half - side : -half].min()
    if ahead >= max(left, right):
        return Action.STRAIGHT
    return Action.LEFT if left > right else Action.RIGHT
