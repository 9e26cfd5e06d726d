"""The wheeled robot: two driven wheels and two casters, of a TurtleBot's size."""

from __future__ import annotations

from math import cos, sin
from xml.etree import ElementTree as Xml

import mujoco
import numpy as np

from taskfree.robots import camera
from taskfree.robots.scene import words

APART, RADIUS, BODY = 0.16, 0.033, 0.07
"""Metres: between the wheels, of a wheel, of the body."""
ACROSS, DOWN = 106, 90
"""What its camera sees in degrees, as the authors' did: 410x308 pixels."""
SUBSTEPS = 40
"""Physics steps of 5 ms in a control step: 5 Hz."""


def body(place: tuple[float, float], heading: float) -> Xml.Element:
    """The robot's body and its motors, to be put into a world."""
    root = Xml.Element("robot")
    turn = words([cos(heading / 2), 0, 0, sin(heading / 2)])
    robot = Xml.SubElement(root, "body", name="robot", pos=words([*place, RADIUS]), quat=turn)
    Xml.SubElement(robot, "freejoint")
    dark = "0.15 0.15 0.17 1"
    Xml.SubElement(robot, "geom", type="cylinder", pos="-0.03 0 0.06", size=words([BODY, 0.05]),
                   rgba=dark, mass="0.9")  # fmt: skip
    # MuJoCo takes the larger friction of two: only a higher priority lets the casters slide.
    for x in (-0.08, 0.04):
        Xml.SubElement(robot, "geom", type="sphere", pos=words([x, 0, 0.0125 - RADIUS]),
                       size="0.012", rgba=dark, mass="0.01", friction="0.001 0 0",
                       priority="1")  # fmt: skip
    camera.mounted(robot, "0.05 0 0.1", ACROSS, DOWN)
    motors = Xml.SubElement(root, "actuator")
    for name, side in (("left", 1), ("right", -1)):
        wheel = Xml.SubElement(robot, "body", name=name, pos=words([0, side * APART / 2, 0]))
        Xml.SubElement(wheel, "joint", name=name, axis="0 1 0", armature="0.0005")
        Xml.SubElement(
            wheel, "geom", type="cylinder", size=words([RADIUS, 0.009]), euler="90 0 0",
            rgba="0.05 0.05 0.05 1", mass="0.03",
        )  # fmt: skip
        Xml.SubElement(motors, "velocity", name=name, joint=name, kv="0.3")
    return root


class Driver:
    """Drives the robot of a model at a forward speed and a turning rate."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self.model = model
        self._body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, "robot")

    def drive(self, data: mujoco.MjData, speed: float, turn: float) -> None:
        """One control step of 0.2 s: metres a second forward, radians a second to the left."""
        data.ctrl[:] = [(speed - side * turn * APART / 2) / RADIUS for side in (1, -1)]
        for _ in range(SUBSTEPS):
            mujoco.mj_step(self.model, data)

    def heading(self, data: mujoco.MjData) -> float:
        """Where it looks, in radians to the left of east."""
        axes = data.xmat[self._body].reshape(3, 3)
        return float(np.arctan2(axes[1, 0], axes[0, 0]))
