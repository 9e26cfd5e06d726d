import mujoco
import numpy as np
import pytest

from taskfree.paper.corridors import Corridor, CorridorEnv
from taskfree.paper.simulation.laser import FAR, Laser
from taskfree.robot import MISS


def test_the_laser_measures_the_distance_to_the_walls():
    env = CorridorEnv(Corridor("SSSSSS", "bricks", "parquet", "concrete"))
    env.reset(seed=0)
    env.data.qpos[:2] = (4.5, 0.3)
    mujoco.mj_forward(env.model, env.data)
    laser = Laser(env.model, "drone")
    scan = laser.scan(env.data, 0.0, np.random.default_rng(0))
    assert scan[90] == pytest.approx(1.4 - 0.3, abs=0.05)
    assert scan[270] == pytest.approx(1.4 + 0.3, abs=0.05)
    assert scan[0] == MISS, "the end is out of range"
    assert scan[scan < MISS].max() <= FAR
    turned = laser.scan(env.data, np.pi / 2, np.random.default_rng(0))
    assert turned[0] == pytest.approx(1.4 - 0.3, abs=0.05), "beams are relative to the heading"
    above = Laser(env.model, "drone", height=10.0).scan(env.data, 0.0, np.random.default_rng(0))
    assert set(above) == {MISS}, "nothing is above the ceiling"
