"""Two cameras: rays that need nothing but MuJoCo, and OpenGL. Their pictures differ.

The ray camera shoots a ray through every pixel and looks up the texture that it meets. It needs no
system package and gives the same picture everywhere. OpenGL is several times faster and needs EGL
or OSMesa (Debian: libegl1 and libgl1, or libosmesa6). Which one it is, the user says.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Literal, Protocol, TypeAlias
from xml.etree import ElementTree as Xml

import mujoco
import numpy as np
from numpy.typing import NDArray

from taskfree import arguments
from taskfree.robots.textures import Picture

Kind: TypeAlias = Literal["ray", "gl"]
SIZE = 128
"""Pictures are squares of as many pixels."""


class Camera(Protocol):
    """Takes pictures of the world as it is."""

    def picture(self, data: mujoco.MjData) -> Picture:
        """What the camera sees now, of shape [128, 128, 3]."""

    def close(self) -> None:
        """Give back what it holds."""


def make(kind: Kind, model: mujoco.MjModel, haze: tuple[float, Any] = (0.0, 0.0)) -> Camera:
    """A camera of this kind, at the model's camera called "eye"."""
    arguments.one_of("camera", kind, ("ray", "gl"))
    return Ray(model, haze) if kind == "ray" else GL(model, haze)


Floats: TypeAlias = NDArray[np.float64]


def _levels(texture: Picture) -> list[Floats]:
    """A texture from 0 to 1, and its means over squares of 2, 4, 8 and 16 pixels."""
    levels = [texture / 255]
    while len(levels) < 5:
        old = levels[-1]
        levels.append((old[::2, ::2] + old[1::2, ::2] + old[::2, 1::2] + old[1::2, 1::2]) / 4)
    return levels


_FOCAL = 0.01


def mounted(body: Xml.Element, pos: str, across: float, down: float) -> None:
    """Put the eye on a body: it looks forward, and sees so many degrees across and down."""
    sides = [2 * _FOCAL * np.tan(np.radians(angle) / 2) for angle in (across, down)]
    Xml.SubElement(
        body, "camera", name="eye", pos=pos, xyaxes="0 -1 0 0 0 1", resolution=f"{SIZE} {SIZE}",
        sensorsize=f"{sides[0]:.6g} {sides[1]:.6g}", focal=f"{_FOCAL} {_FOCAL}",
    )  # fmt: skip


def rays(across: float, down: float) -> Floats:
    """A direction for every pixel in the camera's own frame: x right, y up, z backwards.

    `across` and `down` are how far it sees to the sides at a distance of 1.
    """
    step = (np.arange(SIZE) + 0.5) / SIZE * 2 - 1
    x, y = np.meshgrid(step * across, -step * down)
    directions = np.stack([x, y, -np.ones_like(x)], axis=-1).reshape(-1, 3)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions


class Ray:
    """A camera of rays: no OpenGL, the same picture on every machine."""

    def __init__(self, model: mujoco.MjModel, haze: tuple[float, Any] = (0.0, 0.0)) -> None:
        self.model = model
        self._eye = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, "eye")
        self._body = int(model.cam_bodyid[self._eye])
        across, down = model.cam_sensorsize[self._eye] / model.cam_intrinsic[self._eye][:2] / 2
        self._rays = rays(across, down)
        self._pixel = 2 * np.arctan(across) / SIZE  # its angle, about
        self._haze, self._haze_colour = haze[0], np.asarray(haze[1], dtype=float)
        self._ambient = model.vis.headlight.ambient[0]
        self._diffuse = model.vis.headlight.diffuse[0]
        self._textures = [_levels(self._texture(number)) for number in range(model.ntex)]
        used = [self._texture_of(geom) for geom in range(model.ngeom)]
        self._used = np.array(used)
        repeat = np.ones((model.ngeom, 2))
        for geom, material in enumerate(model.geom_matid):
            if material >= 0:
                repeat[geom] = model.mat_texrepeat[material] / 2  # as OpenGL does with half sizes
        self._repeat = repeat
        count = len(self._rays)
        self._geoms = np.zeros(count, dtype=np.int32)
        self._away, self._normals = np.zeros(count), np.zeros(3 * count)

    def _texture(self, number: int) -> Picture:
        start, height = self.model.tex_adr[number], self.model.tex_height[number]
        width, channels = self.model.tex_width[number], self.model.tex_nchannel[number]
        pixels = self.model.tex_data[start : start + height * width * channels]
        return np.asarray(pixels.reshape(height, width, channels)[..., :3], dtype=np.uint8)

    def _texture_of(self, geom: int) -> int:
        material = self.model.geom_matid[geom]
        if material < 0:
            return -1
        return int(max(self.model.mat_texid[material]))

    def picture(self, data: mujoco.MjData) -> Picture:
        """What the camera sees now, of shape [128, 128, 3]."""
        place = data.cam_xpos[self._eye]
        turn = data.cam_xmat[self._eye].reshape(3, 3)
        directions = self._rays @ turn.T
        mujoco.mj_multiRay(
            self.model, data, place, directions.ravel(), None, True, self._body, self._geoms,
            self._away, self._normals, len(directions), 60.0,
        )  # fmt: skip
        met = self._geoms >= 0
        geoms, away = np.where(met, self._geoms, 0), np.where(met, self._away, 60.0)
        points = place + directions * away[:, None]
        colours = self._colours(data, geoms, points, away)
        facing = np.abs(np.einsum("ij,ij->i", directions, self._normals.reshape(-1, 3)))
        shade = np.minimum(self._ambient + self._diffuse * facing, 1.0)
        colours = colours * shade[:, None]
        veil = (1 - np.exp(-self._haze * away / 10))[:, None]
        colours = (1 - veil) * colours + veil * self._haze_colour
        colours[~met] = self._haze_colour
        picture: Picture = (255 * np.clip(colours, 0, 1)).astype(np.uint8).reshape(SIZE, SIZE, 3)
        return picture

    def _colours(
        self, data: mujoco.MjData, geoms: NDArray[np.int32], points: Floats, away: Floats
    ) -> Floats:
        """The colour of a geom at each point: its own, or its texture's."""
        colours: Floats = self.model.geom_rgba[geoms][:, :3].astype(float)
        textured = self._used[geoms]
        for number in np.unique(textured[textured >= 0]):
            rows = np.flatnonzero(textured == number)
            own = geoms[rows]
            turns = data.geom_xmat[own].reshape(-1, 3, 3)
            local = np.einsum("nij,ni->nj", turns, points[rows] - data.geom_xpos[own])
            u, v = (local[:, :2] * self._repeat[own] * (1, -1) % 1).T
            # Far away many pixels of a texture fall into one of the picture: take their mean.
            levels = self._textures[number]
            wide = away[rows] * self._pixel * self._repeat[own, 0] * levels[0].shape[1]
            level = np.clip(np.round(np.log2(np.maximum(wide, 1))), 0, len(levels) - 1).astype(int)
            for one in np.unique(level):
                at, texture = level == one, levels[one]
                down, across = ((c[at] * texture.shape[0]).astype(int) for c in (v, u))
                colours[rows[at]] = texture[down % len(texture), across % len(texture)]
        return colours

    def close(self) -> None:
        """There is nothing to give back."""


class GL:
    """A camera of OpenGL, through EGL or OSMesa: fast, and it needs a system package."""

    def __init__(self, model: mujoco.MjModel, haze: tuple[float, Any] = (0.0, 0.0)) -> None:
        chosen = sys.platform != "linux" or "MUJOCO_GL" in os.environ
        try:
            if not chosen:
                os.environ["MUJOCO_GL"] = "egl"  # MuJoCo looked at it when it was imported
                importlib.reload(sys.modules[mujoco.Renderer.__module__].gl_context)
            if haze[0]:  # OpenGL's grows evenly with the distance: as much of it at ten metres
                whole = 10 / (1 - np.exp(-haze[0]))
                model.vis.map.fogstart, model.vis.map.fogend = 0.0, whole / model.stat.extent
                model.vis.rgba.fog[:3] = haze[1]
            self._renderer = mujoco.Renderer(model, SIZE, SIZE)
            self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_FOG] = bool(haze[0])
        except Exception as error:
            if not chosen:
                os.environ.pop("MUJOCO_GL", None)
            raise OSError(
                "camera='gl' needs OpenGL: install EGL (Debian: libegl1 and libgl1) or OSMesa "
                "(libosmesa6, with MUJOCO_GL=osmesa), or use camera='ray', which needs nothing"
            ) from error

    def picture(self, data: mujoco.MjData) -> Picture:
        """What the camera sees now, of shape [128, 128, 3]."""
        self._renderer.update_scene(data, camera="eye")
        return np.asarray(self._renderer.render())

    def close(self) -> None:
        """Give back the context."""
        self._renderer.close()
