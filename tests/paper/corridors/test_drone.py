import pytest

from taskfree.paper.corridors import Corridor, CorridorEnv
from taskfree.robot import Action


def test_the_drone_holds_its_height_and_follows_speed_and_turning_rate():
    env = CorridorEnv(Corridor("SSSSSS", "bricks", "parquet", "concrete"))
    env.reset(seed=0)
    for _ in range(15):
        env.step(Action.STRAIGHT)
    assert env.data.qpos[2] == pytest.approx(1.0, abs=0.03)
    assert env.data.qvel[0] == pytest.approx(0.8, abs=0.05)
    before = env._pilot.heading(env.data)
    for _ in range(5):
        env.step(Action.LEFT)
    assert env._pilot.heading(env.data) - before == pytest.approx(0.5, abs=0.12)
