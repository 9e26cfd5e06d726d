"""A robot as an environment, and logs that replay it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from torch import nn

from taskfree import Learner
from taskfree import robot as robots
from taskfree.onpolicy import OnPolicy
from taskfree.paper.arena import Arena
from taskfree.paper.arena.env import SimulatedRobot
from taskfree.paper.simulation import tiny_v2
from taskfree.robot import MISS, NEAR, Action, Player, Recorder, Robot, RobotEnv, expert
from taskfree.which import Hardest


class Still:
    """A robot that does not move, and records its commands."""

    def __init__(self, image=None, scan=None):
        self.frame = np.zeros((128, 128, 3), np.uint8) if image is None else image
        self.beams = np.full(360, 2.0) if scan is None else scan
        self.commands = []

    def image(self):
        return self.frame

    def scan(self):
        return self.beams

    def drive(self, speed, turn):
        self.commands.append((speed, turn))


def learner():
    model = tiny_v2.network(seed=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = nn.CrossEntropyLoss(reduction="none")
    return Learner(model, optimizer, loss=loss, which=Hardest(20))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The log of a robot that learned while it drove, what acted, and its learner."""
    torch.set_num_threads(1)
    file = tmp_path_factory.mktemp("log") / "log.safetensors"
    robot = SimulatedRobot(Arena())
    robot.put(0.5, 0.0, 1.0)
    recorder, learned = Recorder(robot), learner()
    acting = OnPolicy(RobotEnv(recorder), learned, prepare=tiny_v2.standardize, seed=3)
    for _ in range(90):
        acting.step()
    assert acting.collisions > 0, "the log must hold a recovery"
    recorder.save(file)
    return file, acting, learned


def test_actions_are_converted_to_commands():
    robot = Still()
    env = RobotEnv(robot, speed=0.5, turn=0.25)
    env.reset()
    for action in (0, 1, 2):
        env.step(action)
    assert robot.commands == [(0.5, 0.25), (0.5, 0.0), (0.5, -0.25)]


def test_beams_that_met_nothing_are_at_the_distance_of_a_miss():
    scan = np.full(360, 1.0)
    scan[:4] = 0, np.inf, np.nan, -1
    _, info = RobotEnv(Still(scan=scan)).reset()
    assert info["scan"][:4].tolist() == [MISS] * 4
    assert (info["scan"][4:] == 1).all()


def test_images_of_another_size_are_resized():
    image = np.zeros((308, 410, 3), np.uint8)
    image[:, :205] = 200
    env = RobotEnv(Still(image), size=64)
    observed, _ = env.reset()
    assert observed.shape == env.observation_space.shape == (64, 64, 3)
    assert observed[30, 10, 0] == 200
    assert observed[30, 50, 0] == 0


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


def test_a_robot_that_stays_blocked_stops_turning():
    robot = Still(scan=np.full(360, 0.1))
    _, info = RobotEnv(robot).recover()
    assert info["collision"]
    assert robot.commands[0][0] < 0, "it backs off first"
    assert len(robot.commands) == 61
    assert all(speed == 0 and abs(turn) == 1 for speed, turn in robot.commands[1:])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: RobotEnv(object()), TypeError, "robot must have image.*got object"),
        (
            lambda: RobotEnv(Still(), size=0),
            ValueError,
            "size must be an integer of at least 1",
        ),
        (lambda: RobotEnv(Still(), turn=0), ValueError, "turn must be above 0"),
        (lambda: RobotEnv(Still(), render_mode="film"), ValueError, "render_mode must be"),
        (lambda: RobotEnv(Still(scan=np.ones(720))).reset(), ValueError, r"got shape \(720,\)"),
        (
            lambda: RobotEnv(Still(np.zeros((4, 4), np.uint8))).reset(),
            ValueError,
            r"image\(\) must return bytes.*got uint8 of shape \(4, 4\)",
        ),
        (lambda: RobotEnv(Still(np.zeros((4, 4, 3)))).reset(), ValueError, "got float64"),
        (lambda: Recorder(Still()).save("log"), ValueError, "nothing to save"),
    ],
)
def test_invalid_robots_and_settings(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_robot_is_anything_with_its_methods(recorded):
    for robot in (Still(), SimulatedRobot(Arena()), Recorder(Still()), Player(recorded[0])):
        assert isinstance(robot, Robot)


def test_a_replayed_log_teaches_the_same_bit_for_bit(recorded):
    file, acted, learned = recorded
    player, again = Player(file), learner()
    acting = OnPolicy(RobotEnv(player), again, prepare=tiny_v2.standardize, seed=3)
    for _ in range(90):
        acting.step()
    assert player.given == [tuple(command) for command in player.commands.tolist()]
    assert acting.collisions == acted.collisions
    for one, other in zip(again.model.parameters(), learned.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_log_ignores_and_records_commands(recorded):
    player = Player(recorded[0])
    env = RobotEnv(player)
    env.reset()
    for _ in range(5):
        env.step(2)
    assert player.given == [(0.22, -0.6)] * 5
    assert player.given != [tuple(command) for command in player.commands[:5].tolist()]


def test_a_log_that_has_ended_starts_over(recorded):
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
def test_a_replayed_log_passes_the_environment_checker(recorded):
    check_env(RobotEnv(Player(recorded[0])))


def test_a_file_that_is_not_a_log_is_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"scans": np.zeros((2, 360))}, tmp_path / "other")
    with pytest.raises(ValueError, match="not a robot's log: it has no images, commands"):
        Player(tmp_path / "other")


def test_a_log_that_cannot_be_saved_leaves_the_old_one(tmp_path, monkeypatch):
    def fails(_, file):
        Path(file).write_bytes(b"half")
        raise OSError("no space left")

    file = tmp_path / "log.safetensors"
    recorder = Recorder(Still())
    recorder.drive(0.2, 0.0)
    recorder.save(file)
    before = file.read_bytes()
    monkeypatch.setattr(robots, "save_file", fails)
    with pytest.raises(OSError, match="no space left"):
        recorder.save(file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("blocked", "action"),
    [((), Action.STRAIGHT), (("ahead", "right"), Action.LEFT), (("ahead", "left"), Action.RIGHT),
     (("left", "right"), Action.STRAIGHT), (("ahead", "left", "right"), Action.STRAIGHT)],
)  # fmt: skip
def test_the_expert_turns_to_the_greatest_depth(blocked, action):
    scan = np.full(360, 5.0)
    parts = {
        "ahead": [*range(20), *range(340, 360)],
        "left": range(20, 50),
        "right": range(310, 340),
    }
    for part in blocked:
        scan[parts[part]] = 0.5
    assert expert(scan) == action
