"""The drone: a rigid body with four rotors, and the controller that flies it.

Mass and inertia are those of the Hector quadrotor that the authors flew. The controller holds the
height and follows a command: a forward speed and a turning rate.
"""

from __future__ import annotations

from xml.etree import ElementTree as Xml

import mujoco
import numpy as np
from numpy.typing import NDArray

from taskfree.paper.simulation import camera

MASS, HEIGHT, GRAVITY = 1.477, 1.0, 9.81
INERTIA = (0.01152, 0.01152, 0.0218)
ARM, DRAG = 0.18, 0.02
"""Offset of the rotors in metres, forward and sideways; drag torque per newton of thrust."""
SUBSTEPS = 20
"""Physics steps of 5 ms per control step: 10 Hz."""
FIELD_OF_VIEW = (80, 50)
"""Of the camera, in degrees, as for the authors' camera: 640x360 pixels, squashed to a square."""


def body(position: tuple[float, float], heading: float) -> Xml.Element:
    """The drone's body and its rotors, to be added to a scene."""
    root = Xml.Element("robot")
    turn = f"{np.cos(heading / 2):.6g} 0 0 {np.sin(heading / 2):.6g}"
    drone = Xml.SubElement(
        root, "body", name="drone", pos=f"{position[0]:.6g} {position[1]:.6g} {HEIGHT}", quat=turn
    )
    Xml.SubElement(drone, "freejoint")
    Xml.SubElement(
        drone, "inertial", pos="0 0 0", mass=f"{MASS}", diaginertia=" ".join(map(str, INERTIA))
    )
    Xml.SubElement(
        drone, "geom", type="box", size="0.09 0.09 0.04", rgba="0.15 0.15 0.15 1", mass="0"
    )
    camera.mount(drone, "0.1 0 0.02", FIELD_OF_VIEW)
    actuators = Xml.SubElement(root, "actuator")
    for number, (x, y, spin) in enumerate(ROTORS):
        Xml.SubElement(
            drone, "geom", type="cylinder", pos=f"{x} {y} 0", size="0.1 0.015",
            rgba="0.3 0.3 0.3 1", mass="0",
        )  # fmt: skip
        Xml.SubElement(drone, "site", name=f"rotor{number}", pos=f"{x} {y} 0", size="0.01")
        Xml.SubElement(
            actuators, "general", name=f"rotor{number}", site=f"rotor{number}",
            gear=f"0 0 1 0 0 {spin * DRAG}", ctrlrange="0 12", ctrllimited="true",
        )  # fmt: skip
    return root


ROTORS = ((ARM, ARM, 1), (-ARM, ARM, -1), (-ARM, -ARM, 1), (ARM, -ARM, -1))
"""The position of each rotor, forward and to the left, and its direction of rotation."""

_MIX = np.linalg.inv(
    np.array(
        [
            [1.0] * 4,
            [y for _, y, _ in ROTORS],
            [-x for x, _, _ in ROTORS],
            [DRAG * spin for *_, spin in ROTORS],
        ]
    )
)
"""Maps total thrust and torques to the thrust of each rotor."""


class Pilot:
    """Flies the drone of a model at a forward speed and a turning rate."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self.model = model
        self._body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, "drone")

    def fly(self, data: mujoco.MjData, speed: float, turn: float) -> None:
        """One control step of 0.1 s: metres per second forward, radians per second to the left."""
        for _ in range(SUBSTEPS):
            data.ctrl[:] = self._thrusts(data, speed, turn)
            mujoco.mj_step(self.model, data)

    def _thrusts(self, data: mujoco.MjData, speed: float, turn: float) -> NDArray[np.float64]:
        axes = data.xmat[self._body].reshape(3, 3)
        velocity, spin = data.qvel[:3], data.qvel[3:6]
        heading = np.arctan2(axes[1, 0], axes[0, 0])
        acceleration = np.empty(3)  # desired
        acceleration[0] = 3.0 * (speed * np.cos(heading) - velocity[0])
        acceleration[1] = 3.0 * (speed * np.sin(heading) - velocity[1])
        acceleration[2] = GRAVITY + 8.0 * (HEIGHT - data.qpos[2]) - 5.0 * velocity[2]
        acceleration[:2] = np.clip(acceleration[:2], -4.0, 4.0)
        up = axes.T @ (acceleration / np.linalg.norm(acceleration))  # desired, in the drone's frame
        torques = (
            INERTIA[0] * (-120.0 * up[1] - 20.0 * spin[0]),
            INERTIA[1] * (120.0 * up[0] - 20.0 * spin[1]),
            INERTIA[2] * 12.0 * (turn - spin[2]),
        )
        thrust = MASS * float(acceleration @ axes[:, 2])
        thrusts: NDArray[np.float64] = np.clip(_MIX @ (thrust, *torques), 0.0, 12.0)
        return thrusts

    def heading(self, data: mujoco.MjData) -> float:
        """Its heading, in radians counter-clockwise from east."""
        axes = data.xmat[self._body].reshape(3, 3)
        return float(np.arctan2(axes[1, 0], axes[0, 0]))

    def touches(self, data: mujoco.MjData) -> bool:
        """Whether it is in contact with anything."""
        return bool(data.ncon)
