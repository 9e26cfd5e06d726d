"""Builds MuJoCo models: light, textures, geoms and a robot."""

from __future__ import annotations

import io
from functools import lru_cache
from xml.etree import ElementTree as Xml

import mujoco
import numpy as np
from PIL import Image as Pillow

from taskfree.paper.simulation import textures

TIMESTEP = 0.005
"""Seconds per physics step."""

Triple = tuple[float, float, float]


class Scene:
    """A MuJoCo model under construction.

    Args:
        name: of the model.
        light: ambient brightness, from 0 to 1.
        headlight: additional brightness of surfaces that face the camera.

    >>> scene = Scene("room", light=0.5, headlight=0.4)
    >>> scene.add_texture("bricks")
    >>> scene.add_geom(panel((0, 0, 0), (0, 0, 1), "bricks", (1, 1), 0.1))
    >>> scene.model().ngeom
    1
    """

    def __init__(self, name: str, *, light: float, headlight: float) -> None:
        self._root = Xml.Element("mujoco", model=name)
        Xml.SubElement(
            self._root, "option", timestep=f"{TIMESTEP}", integrator="implicitfast",
            cone="elliptic", impratio="10",
        )  # fmt: skip
        visual = Xml.SubElement(self._root, "visual")
        Xml.SubElement(visual, "global", offwidth="640", offheight="480")
        Xml.SubElement(
            visual, "headlight", ambient=join_numbers([light] * 3),
            diffuse=join_numbers([headlight] * 3), specular="0 0 0",
        )  # fmt: skip
        Xml.SubElement(visual, "map", znear="0.01", zfar="60", haze="0.5")
        self._assets = Xml.SubElement(self._root, "asset")
        self._world = Xml.SubElement(self._root, "worldbody")
        self._images: dict[str, bytes] = {}

    def add_texture(self, name: str, seed: int = 0, repeat: float = 0.5) -> None:
        """Add a texture and its material of the same name; it repeats `repeat` times per metre."""
        self._images[f"{name}.png"] = _png(name, seed)
        Xml.SubElement(self._assets, "texture", name=name, type="2d", file=f"{name}.png")
        Xml.SubElement(
            self._assets, "material", name=name, texture=name, texuniform="true",
            texrepeat=join_numbers([2 * repeat] * 2),  # MuJoCo counts in half sizes
            specular="0", shininess="0",
        )  # fmt: skip

    def add_geom(self, attributes: dict[str, str]) -> None:
        """Add a geom."""
        Xml.SubElement(self._world, "geom", attributes)

    def add_robot(self, robot: Xml.Element) -> None:
        """Add a robot: an element that holds its body and its actuators."""
        for element in robot:
            (self._world if element.tag == "body" else self._root).append(element)

    def model(self) -> mujoco.MjModel:
        """Compile the model."""
        text = Xml.tostring(self._root, encoding="unicode")
        return mujoco.MjModel.from_xml_string(text, self._images)


def join_numbers(numbers: object) -> str:
    """Numbers as MuJoCo's XML expects them.

    >>> join_numbers([1, 0.25])
    '1 0.25'
    """
    return " ".join(f"{number:.6g}" for number in np.ravel(np.asarray(numbers, dtype=float)))


def panel(
    centre: Triple,
    normal: Triple,
    material: str,
    half_size: tuple[float, float],
    half_thickness: float,
) -> dict[str, str]:
    """A flat box with a texture on its large sides, which are those along its own z axis."""
    facing = np.asarray(normal)
    up = np.array([0.0, 0.0, 1.0]) if abs(facing[2]) < 0.5 else np.array([0.0, 1.0, 0.0])
    right = np.cross(up, facing)
    return {
        "type": "box",
        "pos": join_numbers(centre),
        "size": join_numbers([*half_size, half_thickness]),
        "material": material,
        "xyaxes": join_numbers([*right, *up]),
    }


@lru_cache(maxsize=100)
def _png(texture: str, seed: int) -> bytes:
    out = io.BytesIO()
    Pillow.fromarray(textures.make(texture, seed)).save(out, "PNG", compress_level=1)
    return out.getvalue()
