"""The ten corridors."""

import numpy as np
import pytest

from taskfree.paper.corridors import CorridorEnv
from taskfree.paper.corridors.themes import THEMES, corridor


@pytest.mark.parametrize("name", THEMES)
def test_the_seed_determines_path_and_obstacles(name):
    made = corridor(name)
    assert made == corridor(name)
    assert made.path != corridor(name, seed=1).path
    assert (len(made.path), made.bends) == (34, 17)
    assert 7 <= len(made.obstacles) <= 12
    assert all(made.path[number] == "S" for number, _ in made.obstacles)
    assert {kind for _, kind in made.obstacles} <= set(THEMES[name][1])


def test_a_shorter_corridor_with_fewer_bends_and_obstacles():
    made = corridor("A", tiles=8, bends=2, obstacles=1)
    assert (len(made.path), made.bends, len(made.obstacles)) == (8, 2, 1)


def test_they_look_nothing_like_each_other():
    means = []
    for name in THEMES:
        env = CorridorEnv(corridor(name, tiles=4, bends=1, obstacles=0))
        means.append(env.reset(seed=0)[0].mean(axis=(0, 1)))
        env.close()
    distances = np.linalg.norm(np.array(means)[:, None] - np.array(means), axis=-1)
    assert distances[~np.eye(10, dtype=bool)].min() > 3
