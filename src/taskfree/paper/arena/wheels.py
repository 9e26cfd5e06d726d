"""The wheeled robot: differential drive with two casters, the size of a TurtleBot."""

from __future__ import annotations

from math import cos, sin
from xml.etree import ElementTree as Xml

import mujoco
import numpy as np

from taskfree.paper.simulation import camera
from taskfree.paper.simulation.scene import join_numbers

WHEEL_DISTANCE, WHEEL_RADIUS, BODY_RADIUS = 0.16, 0.033, 0.07
"""Metres."""
FIELD_OF_VIEW = (106, 90)
"""Of the camera, in degrees, as for the authors' camera: 410x308 pixels."""
SUBSTEPS = 40
"""Physics steps of 5 ms per control step: 5 Hz."""


def body(position: tuple[float, float], heading: float) -> Xml.Element:
    """The robot's body and its motors, to be added to a scene."""
    root = Xml.Element("robot")
    pos, turn = [*position, WHEEL_RADIUS], [cos(heading / 2), 0, 0, sin(heading / 2)]
    robot = Xml.SubElement(
        root, "body", name="robot", pos=join_numbers(pos), quat=join_numbers(turn)
    )
    Xml.SubElement(robot, "freejoint")
    dark = "0.15 0.15 0.17 1"
    Xml.SubElement(robot, "geom", type="cylinder", pos="-0.03 0 0.06",
                   size=join_numbers([BODY_RADIUS, 0.05]), rgba=dark, mass="0.9")  # fmt: skip
    # MuJoCo uses the larger friction of two geoms: only a higher priority lets the casters slide.
    for x in (-0.08, 0.04):
        pos = [x, 0, 0.0125 - WHEEL_RADIUS]
        Xml.SubElement(robot, "geom", type="sphere", pos=join_numbers(pos), size="0.012",
                       rgba=dark, mass="0.01", friction="0.001 0 0", priority="1")  # fmt: skip
    camera.mount(robot, "0.05 0 0.1", FIELD_OF_VIEW)
    motors = Xml.SubElement(root, "actuator")
    for name, side in (("left", 1), ("right", -1)):
        pos = [0, side * WHEEL_DISTANCE / 2, 0]
        wheel = Xml.SubElement(robot, "body", name=name, pos=join_numbers(pos))
        Xml.SubElement(wheel, "joint", name=name, axis="0 1 0", armature="0.0005")
        Xml.SubElement(
            wheel, "geom", type="cylinder", size=join_numbers([WHEEL_RADIUS, 0.009]),
            euler="90 0 0", rgba="0.05 0.05 0.05 1", mass="0.03",
        )  # fmt: skip
        Xml.SubElement(motors, "velocity", name=name, joint=name, kv="0.3")
    return root


class Driver:
    """Drives the robot of a model at a forward speed and a turning rate."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self.model = model
        self._body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, "robot")

    def drive(self, data: mujoco.MjData, speed: float, turn: float) -> None:
        """One control step of 0.2 s: metres per second forward, radians per second to the left."""
        data.ctrl[:] = [
            (speed - side * turn * WHEEL_DISTANCE / 2) / WHEEL_RADIUS for side in (1, -1)
        ]
        for _ in range(SUBSTEPS):
            mujoco.mj_step(self.model, data)

    def heading(self, data: mujoco.MjData) -> float:
        """Its heading, in radians counter-clockwise from east."""
        axes = data.xmat[self._body].reshape(3, 3)
        return float(np.arctan2(axes[1, 0], axes[0, 0]))
