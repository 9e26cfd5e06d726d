"""The arena: it is what it says, the robot drives as it is told, and gets free of what it hits."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from taskfree.robots import Arena, ArenaEnv
from taskfree.robots.arena import AWAY, RADIUS
from taskfree.robots.robot import SPEED, TURN


class Shut:
    """A camera that sees nothing, for tests of how it drives."""

    def picture(self, data):
        return np.zeros((128, 128, 3), np.uint8)

    def close(self):
        pass


@pytest.fixture
def env():
    env = ArenaEnv()
    env.simulated.camera = Shut()
    env.reset(seed=0)
    return env


def drive(env, policy, frames, seed=0):
    """Places and collisions of a drive."""
    _, info = env.reset(seed=seed)
    places, collisions = [], 0
    for _ in range(frames):
        _, _, _, _, info = env.step(policy(info))
        places.append(info["place"])
        if info["collision"]:
            collisions += 1
            _, info = env.recover()
    return places, collisions


@pytest.mark.filterwarnings("ignore:.*render.*")
def test_it_is_an_environment():
    env = gymnasium.make("taskfree/Arena-v0", arena="lab", render_mode="rgb_array")
    check_env(env.unwrapped, skip_render_check=False)
    picture, info = env.reset(seed=3)
    assert picture.shape == (128, 128, 3)
    assert np.array_equal(env.render(), picture)
    again, same = env.reset(seed=3)
    assert np.array_equal(picture, again)
    assert info["place"] == same["place"]
    env.close()


def test_it_drives_as_it_is_told(env):
    env.step(0)  # it takes a moment to be fast
    x, y, heading = env._look()[1]["place"]
    for _ in range(5):
        *_, info = env.step(0)
    assert info["place"][2] - heading == pytest.approx(5 * 0.2 * TURN, rel=0.05)
    chord = 2 * SPEED / TURN * np.sin(5 * 0.2 * TURN / 2)
    assert np.hypot(info["place"][0] - x, info["place"][1] - y) == pytest.approx(chord, rel=0.05)
    env.step(1)
    a, b, heading = env._look()[1]["place"]
    *_, info = env.step(1)
    way = np.array(info["place"][:2]) - (a, b)
    assert np.linalg.norm(way) == pytest.approx(0.2 * SPEED, rel=0.05)
    assert way @ (np.cos(heading), np.sin(heading)) > 0.99 * np.linalg.norm(way)


@pytest.mark.parametrize("seed", range(3))
def test_driving_straight_on_collides_and_the_expert_does_not(env, seed):
    places, straight = drive(env, lambda info: 1, 150, seed)
    assert 5 <= straight <= 16, "about 0.6 in 10 frames, as in the paper"
    away = [np.hypot(x, y) for x, y, _ in places]
    assert min(away) > RADIUS
    assert max(away) < AWAY / np.cos(np.pi / 7)
    _, expert = drive(env, lambda info: info["expert"], 150, seed)
    assert expert == 0


def test_it_never_tips_over(env):
    chance = np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(200):
        *_, info = env.step(int(chance.integers(3)))
        assert env.simulated.data.body("robot").xmat[8] > 0.98
        if info["collision"]:
            env.recover()


@pytest.mark.parametrize("seed", range(4))
def test_after_recovery_what_it_hit_is_behind(env, seed):
    _, info = env.reset(seed=seed)
    while not info["collision"]:
        *_, info = env.step(1)
    hit = info["place"][2] + np.radians(info["scan"].argmin())
    _, info = env.recover()
    assert not info["collision"]
    assert np.cos(hit - info["place"][2]) < 0


def test_the_arenas_look_different():
    pictures = [ArenaEnv(name).reset(seed=1)[0].astype(float) for name in ("simulated", "lab")]
    assert np.abs(pictures[0] - pictures[1]).mean() > 15


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Arena(friction=0), "friction must be above 0, got 0"),
        (lambda: Arena(grain=-1), "grain must be finite and at least 0"),
        (lambda: ArenaEnv("moon"), "arena must be 'simulated' or 'lab', got 'moon'"),
        (lambda: ArenaEnv(camera="film"), "camera must be 'ray' or 'gl', got 'film'"),
    ],
)
def test_what_makes_no_sense(make, message):
    with pytest.raises(ValueError, match=message):
        make()
