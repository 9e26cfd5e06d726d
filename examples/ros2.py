"""A ROS 2 robot, for example a TurtleBot 3, as a `taskfree.robot.Robot`. It needs rclpy.

`python examples/ros2.py`: its network drives for ten minutes, and learns.
"""

import threading
import time
from typing import Any

import numpy as np
import rclpy
from geometry_msgs.msg import Twist
from rclpy.node import Node
from robot import learn
from sensor_msgs.msg import Image, LaserScan


class Ros2Robot(Node):
    """Receives images and scans, sends commands.

    Args:
        hertz: control steps per second.
    """

    def __init__(self, hertz: float = 5.0) -> None:
        super().__init__("taskfree")
        self._period, self._next = 1 / hertz, time.monotonic()
        self._newest: dict[str, Any] = {}
        self._arrived = threading.Condition()
        self._commands = self.create_publisher(Twist, "cmd_vel", 1)
        self.create_subscription(Image, "image_raw", lambda m: self._receive("image", m), 1)
        self.create_subscription(LaserScan, "scan", lambda m: self._receive("scan", m), 1)

    def _receive(self, name: str, message: Any) -> None:
        with self._arrived:
            self._newest[name] = message
            self._arrived.notify_all()

    def _latest(self, name: str) -> Any:
        with self._arrived:
            if not self._arrived.wait_for(lambda: name in self._newest, timeout=5):
                raise EOFError(f"no {name} arrived within five seconds")
            return self._newest[name]

    def image(self) -> np.ndarray:
        """The newest image, as RGB."""
        message = self._latest("image")
        rows = np.frombuffer(message.data, np.uint8).reshape(message.height, message.step)
        image = rows[:, : 3 * message.width].reshape(message.height, message.width, 3)
        return image[..., ::-1].copy() if message.encoding == "bgr8" else image.copy()

    def scan(self) -> np.ndarray:
        """The newest scan: one beam per degree, counterclockwise from straight ahead."""
        message = self._latest("scan")
        beams = np.asarray(message.ranges, dtype=np.float64)
        angles = np.degrees(message.angle_min + message.angle_increment * np.arange(len(beams)))
        off = (np.arange(360)[:, None] - angles + 180) % 360 - 180
        return beams[np.abs(off).argmin(axis=1)]

    def drive(self, speed: float, turn: float) -> None:
        """Send a command, and wait until the next control step."""
        command = Twist()
        command.linear.x, command.angular.z = float(speed), float(turn)
        self._commands.publish(command)
        self._next = max(self._next + self._period, time.monotonic())
        time.sleep(max(0.0, self._next - time.monotonic()))


if __name__ == "__main__":
    rclpy.init()
    node = Ros2Robot()
    threading.Thread(target=rclpy.spin, args=(node,), daemon=True).start()
    try:
        learn(node, steps=3000, budget=0.2)
    finally:
        node.drive(0.0, 0.0)
        rclpy.shutdown()
