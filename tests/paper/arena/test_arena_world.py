"""Specifications of arenas, and their models."""

import mujoco
import numpy as np
import pytest

from taskfree.paper.arena import Arena, ArenaEnv
from taskfree.paper.arena.world import OBSTACLE_RADIUS, PANELS, WALL_DISTANCE, build


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Arena(friction=0), "friction must be above 0, got 0"),
        (lambda: Arena(noise=-1), "noise must be finite and at least 0"),
        (lambda: Arena(headlight=-1), "headlight must be finite and at least 0"),
        (lambda: Arena(seed=-1), "seed must be an integer of at least 0"),
        (lambda: ArenaEnv("moon"), "arena must be 'simulated' or 'lab', got 'moon'"),
        (lambda: ArenaEnv(camera="film"), "camera must be 'ray' or 'gl', got 'film'"),
    ],
)
def test_an_invalid_arena_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_walls_surround_the_obstacle():
    model = build(Arena())
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    geom = np.zeros(1, np.int32)

    def distance(start, angle):
        direction = np.array([np.cos(angle), np.sin(angle), 0.0])
        return mujoco.mj_ray(
            model, data, np.array([*start, 0.2]), direction, None, True, -1, geom, None
        )

    outside = OBSTACLE_RADIUS + 0.1
    for number in range(PANELS):
        angle = 2 * np.pi * number / PANELS
        start = outside * np.cos(angle), outside * np.sin(angle)
        assert distance(start, angle) == pytest.approx(WALL_DISTANCE - outside, abs=0.02)
        assert distance(start, angle + np.pi) == pytest.approx(0.1, abs=1e-6)


def test_the_arenas_look_different():
    images = [ArenaEnv(name).reset(seed=1)[0].astype(float) for name in ("simulated", "lab")]
    assert np.abs(images[0] - images[1]).mean() > 15
