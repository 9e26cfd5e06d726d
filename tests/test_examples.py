"""The examples run. ROS 2 is not here: its messages are stood in for, and the node's own code runs."""

import importlib.util
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest

from taskfree.streams import fashion

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_a_robot_of_ones_own(tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import torch; torch.set_num_threads(1);"
        "import robot; from pathlib import Path;"
        "from taskfree.robots import Arena, Player; from taskfree.robots.drive import SimulatedRobot;"
        "simulated = SimulatedRobot(Arena()); simulated.put(0.5, 0.0, 1.5);"
        f"log = Path({str(tmp_path)!r}) / 'log'; robot.record(simulated, log, 100);"
        "done = robot.learn(Player(log), 100); print(done.frames, done.learner.step)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    assert first.startswith("step 100: acted as the expert would")
    assert last == "100 10"


def test_a_run_to_be_watched(tmp_path):
    try:
        fashion.find()
    except (OSError, ValueError) as error:
        pytest.skip(str(error))
    command = [sys.executable, "-W", "ignore", str(EXAMPLES / "watch.py"), "20"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "20 steps kept in run\n", done.stderr
    assert (tmp_path / "run" / "losses.f32").stat().st_size == 80


class Node:
    def __init__(self, name):
        self.subscribed, self.published = {}, []

    def create_publisher(self, kind, topic, depth):
        return types.SimpleNamespace(publish=self.published.append)

    def create_subscription(self, kind, topic, callback, depth):
        self.subscribed[topic] = callback


class Twist:
    def __init__(self):
        self.linear, self.angular = types.SimpleNamespace(x=0.0), types.SimpleNamespace(z=0.0)


@pytest.fixture
def ros2(monkeypatch):
    for name, content in {
        "rclpy": {}, "rclpy.node": {"Node": Node}, "geometry_msgs": {},
        "geometry_msgs.msg": {"Twist": Twist}, "sensor_msgs": {},
        "sensor_msgs.msg": {"Image": object, "LaserScan": object},
    }.items():  # fmt: skip
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location("ros2_example", EXAMPLES / "ros2.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_ros2_robot_turns_messages_into_pictures_and_scans(ros2):
    robot = ros2.Ros2Robot(hertz=50)
    picture = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    padded = np.concatenate([picture[..., ::-1].reshape(4, 18), np.zeros((4, 2), np.uint8)], 1)
    robot.subscribed["image_raw"](
        types.SimpleNamespace(data=padded.tobytes(), height=4, width=6, step=20, encoding="bgr8")
    )
    assert np.array_equal(robot.picture(), picture)
    # a scanner of 720 beams that begins behind: the beam straight ahead is in the middle
    beams = np.arange(720) / 100
    robot.subscribed["scan"](
        types.SimpleNamespace(ranges=beams, angle_min=-np.pi, angle_increment=np.pi / 360)
    )
    scan = robot.scan()
    assert scan.shape == (360,)
    assert scan[0] == 3.60
    assert scan[90] == 5.40, "to the left"
    assert scan[270] == 1.80
    assert scan[180] == 0.0


def test_the_ros2_robot_drives_at_its_rate(ros2):
    robot = ros2.Ros2Robot(hertz=50)
    started = time.monotonic()
    for _ in range(5):
        robot.drive(0.2, -0.5)
    assert time.monotonic() - started > 0.08
    assert [(m.linear.x, m.angular.z) for m in robot.published] == [(0.2, -0.5)] * 5


def test_the_ros2_robot_says_when_nothing_comes(ros2, monkeypatch):
    robot = ros2.Ros2Robot()
    monkeypatch.setattr(robot._arrived, "wait_for", lambda *_, timeout: False)
    with pytest.raises(EOFError, match="no image came in five seconds"):
        robot.picture()
