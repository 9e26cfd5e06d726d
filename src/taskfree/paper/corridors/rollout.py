"""Rollouts: a trained policy flies by itself, and its collisions are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from taskfree.paper.corridors.env import CorridorEnv
from taskfree.robot import Image

__all__ = ["Rollout", "fly"]


class Rollout(NamedTuple):
    """The outcome of a flight."""

    seconds: float
    metres: float
    collisions: int
    first: float
    """Metres before the first collision, or of the whole flight."""


def fly(
    env: CorridorEnv,
    policy: Callable[[Image, dict[str, Any]], int],
    *,
    seconds: float = 40.0,
    tile: int = 0,
    seed: int = 0,
) -> Rollout:
    """Fly from a tile until the time is up or the corridor ends; collisions do not end the flight.

    The policy gets the image and the environment's `info`, and returns an action.

    >>> from taskfree.paper.corridors import Corridor
    >>> fly(CorridorEnv(Corridor("SSSS", "bricks", "sand", "sky")), lambda *_: 1, seconds=1.0)
    Rollout(seconds=1.0, metres=0.53, collisions=0, first=0.53)
    """
    image, info = env.reset(seed=seed, options={"tile": tile})
    steps, collisions, first = 0, 0, None
    while steps < 10 * seconds:
        image, _, ended, _, info = env.step(policy(image, info))
        steps += 1
        if info["collision"]:
            collisions += 1
            first = env.distance if first is None else first
            image, info = env.recover()
        elif ended:
            break
    metres = round(env.distance, 2)
    return Rollout(steps / 10, metres, collisions, metres if first is None else round(first, 2))
