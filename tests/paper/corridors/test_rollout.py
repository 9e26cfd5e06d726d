"""Rollouts: where they start, and what is counted."""

import numpy as np
import pytest

from taskfree.paper.corridors import Corridor, CorridorEnv, rollout
from taskfree.paper.corridors.themes import THEMES, corridor


@pytest.fixture
def blind(monkeypatch):
    """Without camera images, for policies that do not use them."""
    monkeypatch.setattr(
        "taskfree.paper.simulation.camera.RayCamera.image",
        lambda self, data: np.zeros((128, 128, 3), np.uint8),
    )


@pytest.mark.usefixtures("blind")
def test_flying_straight_on_hits_the_wall_of_a_bend():
    env = CorridorEnv(Corridor("SSLSS", "bricks", "sand", "sky"))
    flown = rollout.fly(env, lambda *_: 1, seconds=20)
    assert flown.collisions == 1, "it then continues from the centre of the bend, facing the exit"
    assert 6.5 < flown.first < 7.5, "half a tile further it would be in the wall"
    assert flown.metres > flown.first
    assert flown.seconds < 20, "it reached the end of the corridor"


@pytest.mark.usefixtures("blind")
def test_the_expert_flies_from_another_tile():
    env = CorridorEnv(corridor("A"))
    flown = rollout.fly(env, lambda _, info: info["expert"], seconds=5, tile=11, seed=1)
    assert (flown.seconds, flown.collisions) == (5.0, 0)
    assert flown.first == flown.metres > 3


def test_the_policy_gets_the_image():
    env = CorridorEnv(Corridor("SSS", "bricks", "sand", "sky"))
    images = []
    rollout.fly(env, lambda image, _: images.append(image) or 1, seconds=0.3)
    assert [image.shape for image in images] == [(128, 128, 3)] * 3
    assert images[0].std() > 5


@pytest.mark.usefixtures("blind")
@pytest.mark.parametrize("name", THEMES)
def test_no_tile_starts_inside_an_obstacle(name):
    env = CorridorEnv(corridor(name))
    for tile in range(len(env.corridor.tiles)):
        _, info = env.reset(options={"tile": tile})
        assert info["tile"] == tile
        assert not info["collision"]
