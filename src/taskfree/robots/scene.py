"""A world in the making: light, textures, things and a robot, as a MuJoCo model."""

from __future__ import annotations

import io
from xml.etree import ElementTree as Xml

import mujoco
import numpy as np
from PIL import Image

from taskfree.robots import textures

TIMESTEP = 0.005
"""Seconds of a step of the physics."""

Triple = tuple[float, float, float]


class Scene:
    """What is put into it becomes a model.

    >>> scene = Scene("room", light=0.5, lamp=0.4)
    >>> scene.texture("bricks")
    >>> scene.add(panel((0, 0, 0), (0, 0, 1), "bricks", (1, 1), 0.1))
    >>> scene.model().ngeom
    1
    """

    def __init__(self, name: str, *, light: float, lamp: float) -> None:
        self._root = Xml.Element("mujoco", model=name)
        Xml.SubElement(
            self._root, "option", timestep=f"{TIMESTEP}", integrator="implicitfast",
            cone="elliptic", impratio="10",
        )  # fmt: skip
        visual = Xml.SubElement(self._root, "visual")
        Xml.SubElement(visual, "global", offwidth="640", offheight="480")
        Xml.SubElement(visual, "headlight", ambient=words([light] * 3), diffuse=words([lamp] * 3),
                       specular="0 0 0")  # fmt: skip
        Xml.SubElement(visual, "map", znear="0.01", zfar="60", haze="0.5")
        self._assets = Xml.SubElement(self._root, "asset")
        self._world = Xml.SubElement(self._root, "worldbody")
        self._pictures: dict[str, bytes] = {}

    def texture(self, name: str, seed: int = 0, repeat: float = 0.5) -> None:
        """Make a material of this name, of a texture that repeats so many times a metre."""
        self._pictures[f"{name}.png"] = _png(textures.make(name, seed))
        Xml.SubElement(self._assets, "texture", name=name, type="2d", file=f"{name}.png")
        Xml.SubElement(
            self._assets, "material", name=name, texture=name, texuniform="true",
            texrepeat=words([2 * repeat] * 2),  # MuJoCo counts in half sizes
            specular="0", shininess="0",
        )  # fmt: skip

    def add(self, attributes: dict[str, str]) -> None:
        """Add a geom."""
        Xml.SubElement(self._world, "geom", attributes)

    def put(self, robot: Xml.Element) -> None:
        """Put in a robot: a body, with its actuators in an element of that name beside it."""
        for element in robot:
            (self._world if element.tag == "body" else self._root).append(element)

    def model(self) -> mujoco.MjModel:
        """The model of all that is in it."""
        text = Xml.tostring(self._root, encoding="unicode")
        return mujoco.MjModel.from_xml_string(text, self._pictures)


def words(numbers: object) -> str:
    """Numbers as MuJoCo reads them."""
    return " ".join(f"{number:.6g}" for number in np.ravel(np.asarray(numbers, dtype=float)))


def panel(
    centre: Triple, normal: Triple, material: str, half: tuple[float, float], thick: float
) -> dict[str, str]:
    """A box whose flat sides carry a texture: they are the ones along its own z axis."""
    facing = np.asarray(normal)
    up = np.array([0.0, 0.0, 1.0]) if abs(facing[2]) < 0.5 else np.array([0.0, 1.0, 0.0])
    right = np.cross(up, facing)
    return {
        "type": "box", "pos": words(centre), "size": words([*half, thick]), "material": material,
        "xyaxes": words([*right, *up]),
    }  # fmt: skip


def _png(picture: textures.Picture) -> bytes:
    out = io.BytesIO()
    Image.fromarray(picture).save(out, "PNG", compress_level=1)
    return out.getvalue()
