"""A ROS 2 robot (a TurtleBot 3, say) as a `taskfree.robots.Robot`: run it where rclpy is installed.

python examples/ros2.py            # drives for ten minutes by its own network, learning
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
    """Frame and scan in, command out.

    Args:
        hertz: control steps a second.
    """

    def __init__(self, hertz: float = 5.0) -> None:
        super().__init__("taskfree")
        self._period, self._next = 1 / hertz, time.monotonic()
        self._newest: dict[str, Any] = {}
        self._arrived = threading.Condition()
        self._commands = self.create_publisher(Twist, "cmd_vel", 1)
        self.create_subscription(Image, "image_raw", lambda m: self._keep("image", m), 1)
        self.create_subscription(LaserScan, "scan", lambda m: self._keep("scan", m), 1)

    def _keep(self, name: str, message: Any) -> None:
        with self._arrived:
            self._newest[name] = message
            self._arrived.notify_all()

    def _latest(self, name: str) -> Any:
        with self._arrived:
            if not self._arrived.wait_for(lambda: name in self._newest, timeout=5):
                raise EOFError(f"no {name} came in five seconds")
            return self._newest[name]

    def picture(self) -> np.ndarray:
        """The newest image, red first."""
        image = self._latest("image")
        rows = np.frombuffer(image.data, np.uint8).reshape(image.height, image.step)
        picture = rows[:, : 3 * image.width].reshape(image.height, image.width, 3)
        return picture[..., ::-1].copy() if image.encoding == "bgr8" else picture.copy()

    def scan(self) -> np.ndarray:
        """The newest scan, one beam a degree from straight ahead to the left."""
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
