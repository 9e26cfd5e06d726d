"""Driving in the arena: commands, collisions and recovery."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from taskfree.paper.arena import Arena, ArenaEnv, SimulatedRobot
from taskfree.paper.arena.world import OBSTACLE_RADIUS, WALL_DISTANCE
from taskfree.robot import SPEED, TURN


class BlindCamera:
    """A camera that sees nothing, for tests of how the robot drives."""

    def image(self, data):
        return np.zeros((128, 128, 3), np.uint8)

    def close(self):
        pass


@pytest.fixture
def env():
    env = ArenaEnv()
    env.simulated.camera = BlindCamera()
    env.reset(seed=0)
    return env


def drive(env, policy, frames, seed=0):
    """The poses and the number of collisions of a drive."""
    _, info = env.reset(seed=seed)
    poses, collisions = [], 0
    for _ in range(frames):
        _, _, _, _, info = env.step(policy(info))
        poses.append(info["pose"])
        if info["collision"]:
            collisions += 1
            _, info = env.recover()
    return poses, collisions


@pytest.mark.filterwarnings("ignore:.*render.*")
def test_the_environment_passes_gymnasiums_checks():
    env = gymnasium.make("taskfree/Arena-v0", arena="lab", render_mode="rgb_array")
    check_env(env.unwrapped, skip_render_check=False)
    image, info = env.reset(seed=3)
    assert image.shape == (128, 128, 3)
    assert np.array_equal(env.render(), image)
    again, same = env.reset(seed=3)
    assert np.array_equal(image, again)
    assert info["pose"] == same["pose"]
    env.close()


def test_the_robot_follows_its_commands(env):
    env.step(0)  # it needs a moment to reach its speed
    x, y, heading = env.simulated.pose
    for _ in range(5):
        *_, info = env.step(0)
    assert info["pose"][2] - heading == pytest.approx(5 * 0.2 * TURN, rel=0.05)
    chord = 2 * SPEED / TURN * np.sin(5 * 0.2 * TURN / 2)
    assert np.hypot(info["pose"][0] - x, info["pose"][1] - y) == pytest.approx(chord, rel=0.05)
    env.step(1)
    x, y, heading = env.simulated.pose
    *_, info = env.step(1)
    path = np.array(info["pose"][:2]) - (x, y)
    assert np.linalg.norm(path) == pytest.approx(0.2 * SPEED, rel=0.05)
    assert path @ (np.cos(heading), np.sin(heading)) > 0.99 * np.linalg.norm(path)


@pytest.mark.parametrize("seed", range(3))
def test_driving_straight_on_collides_and_the_expert_does_not(env, seed):
    poses, straight = drive(env, lambda info: 1, 150, seed)
    assert 5 <= straight <= 16, "about 0.6 in 10 frames, as in the paper"
    distances = [np.hypot(x, y) for x, y, _ in poses]
    assert min(distances) > OBSTACLE_RADIUS
    assert max(distances) < WALL_DISTANCE / np.cos(np.pi / 7)
    _, expert = drive(env, lambda info: info["expert"], 150, seed)
    assert expert == 0


def test_the_robot_never_tips_over(env):
    generator = np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(200):
        *_, info = env.step(int(generator.integers(3)))
        assert env.simulated.data.body("robot").xmat[8] > 0.98
        if info["collision"]:
            env.recover()


@pytest.mark.parametrize("seed", range(4))
def test_after_recovery_the_obstacle_is_behind(env, seed):
    _, info = env.reset(seed=seed)
    while not info["collision"]:
        *_, info = env.step(1)
    hit = info["pose"][2] + np.radians(info["scan"].argmin())
    _, info = env.recover()
    assert not info["collision"]
    assert np.cos(hit - info["pose"][2]) < 0


def test_a_robot_is_put_at_a_pose_at_rest():
    robot = SimulatedRobot(Arena())
    robot.drive(SPEED, TURN)
    robot.put(0.5, -0.2, 1.5)
    assert robot.pose == pytest.approx((0.5, -0.2, 1.5))
    assert not robot.data.qvel.any()


def test_the_noise_of_images_is_the_arenas():
    def pixels(noise):
        robot = SimulatedRobot(Arena(noise=noise))
        robot.put(0.5, 0.0, 1.5)
        return np.stack([robot.image().astype(float) for _ in range(8)])

    assert pixels(0.0).std(0).max() == 0
    grey = pixels(0.03)
    middle = (grey.mean(0) > 60) & (grey.mean(0) < 190)  # where no value is clipped
    assert grey.std(0, ddof=1)[middle].mean() == pytest.approx(255 * 0.03, rel=0.1)
