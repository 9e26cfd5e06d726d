"""The examples run. ROS 2 is not installed: stubs replace its messages, and the node's code runs."""

import importlib.util
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from taskfree.paper.streams import fashion
from unavailable import unavailable

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_your_own_robot(tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import torch; torch.set_num_threads(1);"
        "import robot; from pathlib import Path;"
        "from taskfree.paper.arena import Arena, SimulatedRobot; from taskfree.robot import Player;"
        "simulated = SimulatedRobot(Arena()); simulated.put(0.5, 0.0, 1.5);"
        f"log = Path({str(tmp_path)!r}) / 'log'; robot.record(simulated, log, 100);"
        "done = robot.learn(Player(log), 100); print(done.frames, done.learner.step)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    assert first.startswith("step 100: agreed with the expert")
    assert last == "100 10"


def test_a_run_to_watch(tmp_path):
    try:
        fashion.find()
    except (OSError, ValueError) as error:
        unavailable(str(error))
    command = [sys.executable, "-W", "ignore", str(EXAMPLES / "watch.py"), "20"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "20 steps logged in run\n", done.stderr
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


def test_the_ros2_robot_converts_messages_to_images_and_scans(ros2):
    robot = ros2.Ros2Robot(hertz=50)
    image = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    padded = np.concatenate([image[..., ::-1].reshape(4, 18), np.zeros((4, 2), np.uint8)], 1)
    robot.subscribed["image_raw"](
        types.SimpleNamespace(data=padded.tobytes(), height=4, width=6, step=20, encoding="bgr8")
    )
    assert np.array_equal(robot.image(), image)
    # a scanner of 720 beams that starts behind: the beam straight ahead is in the middle
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


class Clock:
    """Stands in for the module `time`: time passes only in sleep."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        assert seconds >= 0
        self.now += seconds


def test_the_ros2_robot_drives_at_its_rate(ros2, monkeypatch):
    monkeypatch.setattr(ros2, "time", clock := Clock())
    robot = ros2.Ros2Robot(hertz=50)
    moments = []
    for late in (0, 0.015, 0, 0.1, 0):  # seconds that the loop takes before the command
        clock.now += late
        robot.drive(0.2, -0.5)
        moments.append(clock.now - 100)
    # it waits for the next period; a command that is too late moves the periods after it
    assert moments == pytest.approx([0.02, 0.04, 0.06, 0.16, 0.18])
    assert [(m.linear.x, m.angular.z) for m in robot.published] == [(0.2, -0.5)] * 5


def test_the_ros2_robot_raises_if_nothing_arrives(ros2, monkeypatch):
    robot = ros2.Ros2Robot()
    monkeypatch.setattr(robot._arrived, "wait_for", lambda *_, timeout: False)
    with pytest.raises(EOFError, match="no image arrived within five seconds"):
        robot.image()
