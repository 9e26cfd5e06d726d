"""Two cameras: ray casting, which needs only MuJoCo, and OpenGL. Their images differ.

The ray camera casts a ray through every pixel and looks up the texture at the point it hits. It
needs no system package and gives the same image on every machine. OpenGL is several times faster
and needs EGL or OSMesa (Debian: libegl1 and libgl1, or libosmesa6). The user chooses between them.
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

from taskfree._core import validation
from taskfree.robot import SIZE, Image

Kind: TypeAlias = Literal["ray", "gl"]
Floats: TypeAlias = NDArray[np.float64]
Haze: TypeAlias = tuple[float, Any]
"""Density, as in `Corridor`, and colour."""

CLEAR: Haze = (0.0, 0.0)
RANGE = 60.0
"""How far the ray camera sees, in metres."""
FOCAL = 0.01
"""Focal length in metres."""
NAME = "camera"
"""The name of a robot's camera in its MuJoCo model."""


class Camera(Protocol):
    """Takes images of the world in its current state."""

    def image(self, data: mujoco.MjData) -> Image:
        """The current image, of shape [128, 128, 3]."""

    def close(self) -> None:
        """Release its resources."""


def make(kind: Kind, model: mujoco.MjModel, haze: Haze = CLEAR) -> Camera:
    """A camera of this kind, at the position of the robot's camera in the model."""
    validation.choice("camera", kind, ("ray", "gl"))
    return RayCamera(model, haze) if kind == "ray" else GLCamera(model, haze)


def mount(body: Xml.Element, pos: str, field_of_view: tuple[float, float]) -> None:
    """Mount a camera on a body, looking forward; the field of view is in degrees, width first."""
    sides = [2 * FOCAL * np.tan(np.radians(angle) / 2) for angle in field_of_view]
    Xml.SubElement(
        body, "camera", name=NAME, pos=pos, xyaxes="0 -1 0 0 0 1", resolution=f"{SIZE} {SIZE}",
        sensorsize=f"{sides[0]:.6g} {sides[1]:.6g}", focal=f"{FOCAL} {FOCAL}",
    )  # fmt: skip


def pixel_rays(half_width: float, half_height: float) -> Floats:
    """The direction of every pixel in the camera's frame: x right, y up, z backwards.

    Args:
        half_width: half the width of the view at a distance of 1.
        half_height: half its height.
    """
    step = (np.arange(SIZE) + 0.5) / SIZE * 2 - 1
    x, y = np.meshgrid(step * half_width, -step * half_height)
    directions = np.stack([x, y, -np.ones_like(x)], axis=-1).reshape(-1, 3)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions


def _mipmaps(texture: Image) -> list[Floats]:
    """A texture from 0 to 1, and its means over squares of 2, 4, 8 and 16 pixels."""
    levels = [texture / 255]
    while len(levels) < 5:
        old = levels[-1]
        levels.append((old[::2, ::2] + old[1::2, ::2] + old[::2, 1::2] + old[1::2, 1::2]) / 4)
    return levels


class RayCamera:
    """A ray-casting camera: no OpenGL, the same image on every machine."""

    def __init__(self, model: mujoco.MjModel, haze: Haze = CLEAR) -> None:
        self.model = model
        self._camera = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, NAME)
        self._body = int(model.cam_bodyid[self._camera])
        focal = model.cam_intrinsic[self._camera][:2]
        half_width, half_height = model.cam_sensorsize[self._camera] / focal / 2
        self._rays = pixel_rays(half_width, half_height)
        self._pixel_angle = 2 * np.arctan(half_width) / SIZE  # approximately
        self._haze, self._haze_colour = haze[0], np.asarray(haze[1], dtype=float)
        self._ambient = model.vis.headlight.ambient[0]
        self._diffuse = model.vis.headlight.diffuse[0]
        self._mipmaps = [_mipmaps(self._texture(number)) for number in range(model.ntex)]
        self._texture_ids = np.array([self._texture_of(geom) for geom in range(model.ngeom)])
        repeat = np.ones((model.ngeom, 2))
        for geom, material in enumerate(model.geom_matid):
            if material >= 0:
                repeat[geom] = model.mat_texrepeat[material] / 2  # as OpenGL does with half sizes
        self._repeat = repeat
        count = len(self._rays)
        self._geoms = np.zeros(count, dtype=np.int32)
        self._distances, self._normals = np.zeros(count), np.zeros(3 * count)

    def _texture(self, number: int) -> Image:
        start, height = self.model.tex_adr[number], self.model.tex_height[number]
        width, channels = self.model.tex_width[number], self.model.tex_nchannel[number]
        pixels = self.model.tex_data[start : start + height * width * channels]
        return np.asarray(pixels.reshape(height, width, channels)[..., :3], dtype=np.uint8)

    def _texture_of(self, geom: int) -> int:
        """The number of a geom's texture, or -1."""
        material = self.model.geom_matid[geom]
        if material < 0:
            return -1
        return int(max(self.model.mat_texid[material]))

    def image(self, data: mujoco.MjData) -> Image:
        """The current image, of shape [128, 128, 3]."""
        origin = data.cam_xpos[self._camera]
        rotation = data.cam_xmat[self._camera].reshape(3, 3)
        directions = self._rays @ rotation.T
        mujoco.mj_multiRay(
            self.model, data, origin, directions.ravel(), None, True, self._body, self._geoms,
            self._distances, self._normals, len(directions), RANGE,
        )  # fmt: skip
        hit = self._geoms >= 0
        geoms, distances = np.where(hit, self._geoms, 0), np.where(hit, self._distances, RANGE)
        points = origin + directions * distances[:, None]
        colours = self._colours(data, geoms, points, distances)
        facing = np.abs(np.einsum("ij,ij->i", directions, self._normals.reshape(-1, 3)))
        shade = np.minimum(self._ambient + self._diffuse * facing, 1.0)
        colours = colours * shade[:, None]
        haze = (1 - np.exp(-self._haze * distances / 10))[:, None]
        colours = (1 - haze) * colours + haze * self._haze_colour
        colours[~hit] = self._haze_colour
        image: Image = (255 * np.clip(colours, 0, 1)).astype(np.uint8).reshape(SIZE, SIZE, 3)
        return image

    def _colours(
        self, data: mujoco.MjData, geoms: NDArray[np.int32], points: Floats, distances: Floats
    ) -> Floats:
        """The colour of a geom at each point: its own, or its texture's."""
        colours: Floats = self.model.geom_rgba[geoms][:, :3].astype(float)
        textured = self._texture_ids[geoms]
        for number in np.unique(textured[textured >= 0]):
            rows = np.flatnonzero(textured == number)
            own = geoms[rows]
            rotations = data.geom_xmat[own].reshape(-1, 3, 3)
            local = np.einsum("nij,ni->nj", rotations, points[rows] - data.geom_xpos[own])
            u, v = (local[:, :2] * self._repeat[own] * (1, -1) % 1).T
            # Far away, one pixel of the image covers many of the texture: use their mean.
            levels = self._mipmaps[number]
            width = distances[rows] * self._pixel_angle
            texels = width * self._repeat[own, 0] * levels[0].shape[1]
            level = np.clip(np.round(np.log2(np.maximum(texels, 1))), 0, len(levels) - 1)
            for index in np.unique(level.astype(int)):
                at, texture = level == index, levels[index]
                row, column = ((c[at] * texture.shape[0]).astype(int) for c in (v, u))
                colours[rows[at]] = texture[row % len(texture), column % len(texture)]
        return colours

    def close(self) -> None:
        """Nothing to release."""


class GLCamera:
    """An OpenGL camera, through EGL or OSMesa: fast, but needs a system package."""

    def __init__(self, model: mujoco.MjModel, haze: Haze = CLEAR) -> None:
        chosen = sys.platform != "linux" or "MUJOCO_GL" in os.environ
        try:
            if not chosen:
                os.environ["MUJOCO_GL"] = "egl"  # MuJoCo reads it only when it is imported
                importlib.reload(sys.modules[mujoco.Renderer.__module__].gl_context)
            if haze[0]:  # OpenGL's haze is linear in the distance: make it equal at ten metres
                opaque = 10 / (1 - np.exp(-haze[0]))
                model.vis.map.fogstart, model.vis.map.fogend = 0.0, opaque / model.stat.extent
                model.vis.rgba.fog[:3] = haze[1]
            self._renderer = mujoco.Renderer(model, SIZE, SIZE)
            self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_FOG] = bool(haze[0])
        except Exception as error:
            if not chosen:
                os.environ.pop("MUJOCO_GL", None)
            raise OSError(
                "camera='gl' needs OpenGL: install EGL (Debian: libegl1 and libgl1) or OSMesa "
                "(libosmesa6, with MUJOCO_GL=osmesa), or use camera='ray', which needs no package"
            ) from error

    def image(self, data: mujoco.MjData) -> Image:
        """The current image, of shape [128, 128, 3]."""
        self._renderer.update_scene(data, camera=NAME)
        return np.asarray(self._renderer.render())

    def close(self) -> None:
        """Release the OpenGL context."""
        self._renderer.close()
