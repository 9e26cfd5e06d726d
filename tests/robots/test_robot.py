"""A robot of one's own: what is asked of it, what is made of it, and logs that play again."""

import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from torch import nn

from taskfree import Learner
from taskfree.onpolicy import OnPolicy
from taskfree.robots import Arena, Player, Recorder, Robot, RobotEnv, tiny
from taskfree.robots.drive import SimulatedRobot
from taskfree.robots.laser import MISS
from taskfree.robots.robot import NEAR
from taskfree.which import Hardest


class Still:
    """A robot that goes nowhere, and remembers what it was told."""

    def __init__(self, picture=None, scan=None):
        self.seen = np.zeros((128, 128, 3), np.uint8) if picture is None else picture
        self.beams = np.full(360, 2.0) if scan is None else scan
        self.told = []

    def picture(self):
        return self.seen

    def scan(self):
        return self.beams

    def drive(self, speed, turn):
        self.told.append((speed, turn))


def learner():
    model = tiny.network(seed=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = nn.CrossEntropyLoss(reduction="none")
    return Learner(model, optimizer, loss=loss, which=Hardest(20))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A robot learned while it drove; its log, its commands and its weights."""
    torch.set_num_threads(1)
    file = tmp_path_factory.mktemp("log") / "log.safetensors"
    robot = SimulatedRobot(Arena())
    robot.put(0.5, 0.0, 1.0)
    recorder, mind = Recorder(robot), learner()
    acting = OnPolicy(RobotEnv(recorder), mind, prepare=tiny.scaled, seed=3)
    for _ in range(90):
        acting.step()
    assert acting.collisions > 0, "what recovering does is in the log"
    recorder.save(file)
    return file, acting, mind


def test_actions_become_commands():
    robot = Still()
    env = RobotEnv(robot, speed=0.5, turn=0.25)
    env.reset()
    for action in (0, 1, 2):
        env.step(action)
    assert robot.told == [(0.5, 0.25), (0.5, 0.0), (0.5, -0.25)]


def test_beams_that_met_nothing_are_far():
    scan = np.full(360, 1.0)
    scan[:4] = 0, np.inf, np.nan, -1
    _, info = RobotEnv(Still(scan=scan)).reset()
    assert info["scan"][:4].tolist() == [MISS] * 4
    assert (info["scan"][4:] == 1).all()


def test_pictures_of_another_size_are_resized():
    picture = np.zeros((308, 410, 3), np.uint8)
    picture[:, :205] = 200
    env = RobotEnv(Still(picture), size=64)
    seen, _ = env.reset()
    assert seen.shape == env.observation_space.shape == (64, 64, 3)
    assert seen[30, 10, 0] == 200
    assert seen[30, 50, 0] == 0


def test_what_counts_as_a_collision():
    env = RobotEnv(Still())
    scan = np.full(360, 3.0)
    assert not env._touches(scan)
    scan[176:184] = 0.1  # behind
    assert not env._touches(scan)
    scan[20] = 0.1  # one beam alone is noise
    assert not env._touches(scan)
    scan[16:24] = NEAR - 0.01
    assert env._touches(scan)


def test_a_robot_that_cannot_get_free_gives_up_turning():
    robot = Still(scan=np.full(360, 0.1))
    _, info = RobotEnv(robot).recover()
    assert info["collision"]
    assert robot.told[0][0] < 0, "it backs off first"
    assert len(robot.told) == 61
    assert all(speed == 0 and abs(turn) == 1 for speed, turn in robot.told[1:])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: RobotEnv(object()), TypeError, "robot must have picture.*got object"),
        (
            lambda: RobotEnv(Still(), size=0),
            ValueError,
            "size must be a whole number of at least 1",
        ),
        (lambda: RobotEnv(Still(), turn=0), ValueError, "turn must be above 0"),
        (lambda: RobotEnv(Still(), render_mode="film"), ValueError, "render_mode must be"),
        (lambda: RobotEnv(Still(scan=np.ones(720))).reset(), ValueError, r"got shape \(720,\)"),
        (
            lambda: RobotEnv(Still(np.zeros((4, 4), np.uint8))).reset(),
            ValueError,
            r"picture\(\) must give bytes.*got uint8 of shape \(4, 4\)",
        ),
        (lambda: RobotEnv(Still(np.zeros((4, 4, 3)))).reset(), ValueError, "got float64"),
        (lambda: Recorder(Still()).save("log"), ValueError, "nothing to save"),
    ],
)
def test_what_makes_no_sense(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_robots_are_known_by_what_they_can_do(recorded):
    for robot in (Still(), SimulatedRobot(Arena()), Recorder(Still()), Player(recorded[0])):
        assert isinstance(robot, Robot)


def test_a_log_plays_again_and_the_same_is_learned_bit_for_bit(recorded):
    file, acted, learned = recorded
    player, mind = Player(file), learner()
    acting = OnPolicy(RobotEnv(player), mind, prepare=tiny.scaled, seed=3)
    for _ in range(90):
        acting.step()
    assert player.given == [tuple(command) for command in player.commands.tolist()]
    assert acting.collisions == acted.collisions
    for one, other in zip(mind.model.parameters(), learned.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_log_does_not_follow_and_says_what_it_was_told(recorded):
    player = Player(recorded[0])
    env = RobotEnv(player)
    env.reset()
    for _ in range(5):
        env.step(2)
    assert player.given == [(0.22, -0.6)] * 5
    assert player.given != [tuple(command) for command in player.commands[:5].tolist()]


def test_at_its_end_a_log_begins_again(recorded):
    player = Player(recorded[0])
    env = RobotEnv(player)
    first, _ = env.reset()
    ends = [env.step(1)[3] for _ in range(len(player) + 1)]
    assert ends == [False] * len(player) + [True]
    again, _ = env.reset()
    assert np.array_equal(first, again)
    acting = OnPolicy(env, None, policy=lambda *_: 1)
    for _ in range(2 * len(player)):
        acting.step()


@pytest.mark.filterwarnings("ignore:.*render.*")
def test_a_log_is_an_environment(recorded):
    check_env(RobotEnv(Player(recorded[0])))


def test_a_file_that_is_no_log(tmp_path):
    from safetensors.numpy import save_file

    save_file({"scans": np.zeros((2, 360))}, tmp_path / "other")
    with pytest.raises(ValueError, match="not a robot's log: it has no pictures, commands"):
        Player(tmp_path / "other")
