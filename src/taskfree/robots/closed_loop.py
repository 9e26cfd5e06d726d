"""Closed loop: who has learned to fly flies, and it is counted how often that ends in a wall."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from taskfree.robots.flight import CorridorEnv
from taskfree.robots.textures import Picture

__all__ = ["Flown", "fly"]


class Flown(NamedTuple):
    """How a flight went."""

    seconds: float
    metres: float
    collisions: int
    first: float
    """Metres before the first collision; all of them if there was none."""


def fly(
    env: CorridorEnv,
    policy: Callable[[Picture, dict[str, Any]], int],
    *,
    seconds: float = 40.0,
    tile: int = 0,
    seed: int = 0,
) -> Flown:
    """Fly from a tile on for so long, or to the corridor's end; after a collision it goes on.

    The policy is shown the picture and the environment's `info`, and says where to go.

    >>> from taskfree.robots import Corridor
    >>> fly(CorridorEnv(Corridor("SSSS", "bricks", "sand", "sky")), lambda *_: 1, seconds=1.0)
    Flown(seconds=1.0, metres=0.53, collisions=0, first=0.53)
    """
    picture, info = env.reset(seed=seed, options={"tile": tile})
    steps, collisions, first = 0, 0, None
    while steps < 10 * seconds:
        picture, _, ended, _, info = env.step(policy(picture, info))
        steps += 1
        if info["collision"]:
            collisions += 1
            first = env.distance if first is None else first
            picture, info = env.carry_on()
        elif ended:
            break
    metres = round(env.distance, 2)
    return Flown(steps / 10, metres, collisions, metres if first is None else round(first, 2))
