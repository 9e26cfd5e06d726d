"""A network's own flight: what is counted, and from where it starts."""

import pytest

from taskfree.robots import Corridor, CorridorEnv, closed_loop
from taskfree.robots.worlds import THEMES, corridor


def test_who_flies_straight_on_hits_the_wall_of_a_bend():
    env = CorridorEnv(Corridor("SSLSS", "bricks", "sand", "sky"))
    flown = closed_loop.fly(env, lambda *_: 1, seconds=20)
    assert flown.collisions == 1  # it is then put into the middle of the bend, looking along it
    assert 6.5 < flown.first < 7.5  # half a tile before it is in the wall
    assert flown.metres > flown.first
    assert flown.seconds < 20, "it came to the corridor's end"


def test_the_expert_flies_from_another_tile_on():
    env = CorridorEnv(corridor("A"))
    flown = closed_loop.fly(env, lambda _, info: info["expert"], seconds=5, tile=11, seed=1)
    assert (flown.seconds, flown.collisions) == (5.0, 0)
    assert flown.first == flown.metres > 3


@pytest.mark.parametrize("name", THEMES)
def test_no_tile_puts_it_into_a_thing(name):
    env = CorridorEnv(corridor(name))
    for tile in range(len(env.corridor.tiles)):
        _, info = env.reset(options={"tile": tile})
        assert info["tile"] == tile
        assert not info["collision"]


def test_a_tile_that_is_not_there():
    env = CorridorEnv(Corridor("SSS", "bricks", "sand", "sky"))
    with pytest.raises(ValueError, match="tile must be below 3, got 3"):
        env.reset(options={"tile": 3})
