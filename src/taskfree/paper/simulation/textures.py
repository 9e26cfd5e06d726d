"""Procedural textures: every surface of the simulated worlds, generated from a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from taskfree.robot import Image

SIZE = 256
"""Height and width of a texture, in pixels."""

Colour: TypeAlias = tuple[float, float, float]
"""Red, green and blue, each between 0 and 1."""


def make(name: str, seed: int = 0) -> Image:
    """A texture by name, of shape [256, 256, 3]; it tiles without seams.

    >>> make("bricks").shape
    (256, 256, 3)
    >>> len(TEXTURES) >= 20
    True
    """
    texture = TEXTURES[check(name)](np.random.default_rng([seed, *name.encode()]))
    return (255 * np.clip(texture, 0, 1)).astype(np.uint8)


def check(name: str) -> str:
    """Check that there is a texture of this name."""
    if name not in TEXTURES:
        raise ValueError(f"there is no texture {name!r}; there is {', '.join(sorted(TEXTURES))}")
    return name


Floats: TypeAlias = NDArray[np.float64]


def _noise(rng: np.random.Generator, *scales: int) -> Floats:
    """Smooth periodic noise of standard deviation 1: a sum of noise at these scales."""
    frequencies = np.fft.fftfreq(SIZE) * SIZE
    radius = np.hypot(*np.meshgrid(frequencies, frequencies))
    total = np.zeros((SIZE, SIZE))
    for scale in scales:
        spectrum = np.fft.fft2(rng.standard_normal((SIZE, SIZE)))
        waves = np.fft.ifft2(spectrum * np.exp(-((radius / scale) ** 2))).real
        total += waves / waves.std()
    smooth: Floats = total / total.std()
    return smooth


def _painted(colour: Colour, shade: Floats) -> Floats:
    """A colour, made lighter or darker pixel by pixel."""
    return np.asarray(colour) * (1 + shade[..., None])


def _grid(columns: int, rows: int, shift: float = 0.0) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """For every pixel: its position within its cell, x and y from 0 to 1, and the cell's number.

    Every other row is shifted by the fraction `shift` of a cell, like bricks.
    """
    y, x = np.mgrid[0:SIZE, 0:SIZE] / SIZE
    row = np.floor(y * rows).astype(np.int64)
    across = x * columns + shift * (row % 2)
    column = np.floor(across).astype(np.int64) % columns
    return across % 1, y * rows % 1, row * columns + column


def _tiled(
    rng: np.random.Generator, colours: list[Colour], joint: Colour, columns: int, rows: int,
    *, shift: float = 0.0, width: float = 0.04, spread: float = 0.08, noise: float = 0.05,
) -> Floats:  # fmt: skip
    """Tiles, bricks or boards with joints between them."""
    across, down, cell = _grid(columns, rows, shift)
    chosen = np.asarray(colours)[rng.integers(len(colours), size=columns * rows)]
    shades = 1 + spread * rng.standard_normal(columns * rows)
    image = (chosen * shades[:, None])[cell] * (1 + noise * _noise(rng, 60, 20))[..., None]
    edge = (np.minimum(across, 1 - across) * rows < width * columns) | (
        np.minimum(down, 1 - down) < width * rows / columns
    )
    image[edge] = np.asarray(joint) * (1 + noise * _noise(rng, 60)[edge])[:, None]
    return image


def _plaster(colour: Colour) -> Callable[[np.random.Generator], Floats]:
    return lambda rng: _painted(colour, 0.03 * _noise(rng, 4, 12) + 0.02 * _noise(rng, 80))


def _boards(
    colour: Colour, count: int, *, horizontal: bool = False
) -> Callable[[np.random.Generator], Floats]:
    """Boards with the grain of wood, vertical or horizontal."""

    def image(rng: np.random.Generator) -> Floats:
        across, _, board = _grid(count, 1)
        rings = np.zeros((SIZE, SIZE))
        for number in range(count):
            wood = _noise(rng, 5)
            stretched = np.repeat(wood[: SIZE // 8], 8, axis=0)
            waves = np.sin(12 * stretched + 40 * across)
            rings = np.where(board == number, waves, rings)
        shade = 0.12 * rng.standard_normal(count)[board] + 0.06 * rings
        boards = _painted(colour, shade + 0.03 * _noise(rng, 60))
        boards[np.minimum(across, 1 - across) < 0.03] *= 0.35
        return boards.transpose(1, 0, 2) if horizontal else boards

    return image


def _stripes(first: Colour, second: Colour, count: int) -> Callable[[np.random.Generator], Floats]:
    def image(rng: np.random.Generator) -> Floats:
        across, _, _ = _grid(count, 1)
        chosen = np.where(across[..., None] < 0.5, first, second)
        return chosen * (1 + 0.02 * _noise(rng, 40))[..., None]

    return image


def _dots(
    ground: Colour, colour: Colour, count: int, radius: float = 0.3
) -> Callable[[np.random.Generator], Floats]:
    def image(rng: np.random.Generator) -> Floats:
        across, down, _ = _grid(count, count, shift=0.5)
        inside = np.hypot(across - 0.5, down - 0.5) < radius
        chosen = np.where(inside[..., None], colour, ground)
        return chosen * (1 + 0.02 * _noise(rng, 40))[..., None]

    return image


def _checks(
    colours: list[Colour], count: int, *, regular: bool = True
) -> Callable[[np.random.Generator], Floats]:
    """Squares of several colours: alternating, or random."""

    def image(rng: np.random.Generator) -> Floats:
        _, _, cell = _grid(count, count)
        if regular:
            index = (cell // count + cell % count) % len(colours)
        else:
            index = rng.integers(len(colours), size=count * count)[cell]
        squares: Floats = np.asarray(colours)[index]
        return squares * (1 + 0.03 * _noise(rng, 60))[..., None]

    return image


def _stones(
    colour: Colour, count: int, joint: float = 0.25
) -> Callable[[np.random.Generator], Floats]:
    """Rough stones of many sizes: the Voronoi cells of random points."""

    def image(rng: np.random.Generator) -> Floats:
        points = rng.random((count, 2))
        y, x = np.mgrid[0:SIZE, 0:SIZE] / SIZE
        nearest = np.full((2, SIZE, SIZE), np.inf)
        stone = np.zeros((SIZE, SIZE), dtype=np.int64)
        for number, (a, b) in enumerate(points):
            distance = np.hypot((x - a + 0.5) % 1 - 0.5, (y - b + 0.5) % 1 - 0.5)
            closer = distance < nearest[0]
            nearest[1] = np.where(closer, nearest[0], np.minimum(nearest[1], distance))
            nearest[0] = np.where(closer, distance, nearest[0])
            stone = np.where(closer, number, stone)
        edge: Floats = np.clip((nearest[1] - nearest[0]) * np.sqrt(count) / joint, 0, 1)
        shade = 0.2 * rng.standard_normal(count)[stone] + 0.1 * _noise(rng, 12, 40)
        return _painted(colour, shade) * (0.25 + 0.75 * edge)[..., None]

    return image


def _leaves(colour: Colour) -> Callable[[np.random.Generator], Floats]:
    """A hedge or a lawn."""
    return lambda rng: _painted(colour, 0.35 * _noise(rng, 25, 60) + 0.15 * _noise(rng, 100))


def _metal(rng: np.random.Generator) -> Floats:
    """Corrugated sheets with rust."""
    across, _, _ = _grid(16, 1)
    sheet = _painted((0.38, 0.44, 0.52), 0.25 * np.sin(2 * np.pi * across) + 0.04 * _noise(rng, 60))
    rust = _noise(rng, 5, 14) > 1.3
    sheet[rust] = _painted((0.45, 0.25, 0.14), 0.2 * _noise(rng, 40))[rust]
    return sheet


def _chips(rng: np.random.Generator) -> Floats:
    """Oriented strand board: flat wood chips in all directions."""
    image = np.ones((SIZE, SIZE, 3)) * (0.72, 0.55, 0.33)
    y, x = np.mgrid[0:SIZE, 0:SIZE] / SIZE
    for a, b, angle, length, shade in zip(
        *rng.random((2, 350)), np.pi * rng.random(350), 0.03 + 0.06 * rng.random(350),
        0.15 * rng.standard_normal(350), strict=True,
    ):  # fmt: skip
        right, down = (x - a + 0.5) % 1 - 0.5, (y - b + 0.5) % 1 - 0.5
        along = right * np.cos(angle) + down * np.sin(angle)
        beside = down * np.cos(angle) - right * np.sin(angle)
        chip = (np.abs(along) < length) & (np.abs(beside) < length / 4)
        image[chip] = np.asarray((0.76, 0.6, 0.38)) * (1 + shade)
    return image * (1 + 0.05 * _noise(rng, 80))[..., None]


def _speckled(colour: Colour, amount: float) -> Callable[[np.random.Generator], Floats]:
    """Carpet, concrete, asphalt, sand."""
    return lambda rng: _painted(colour, amount * _noise(rng, 100) + amount / 2 * _noise(rng, 6))


WHITE, BLACK, GREY = (0.92, 0.92, 0.9), (0.08, 0.08, 0.08), (0.5, 0.5, 0.52)
RED, GREEN, BLUE, YELLOW = (
    (0.75, 0.16, 0.14),
    (0.13, 0.5, 0.22),
    (0.16, 0.32, 0.66),
    (0.92, 0.75, 0.1),
)

TEXTURES: dict[str, Callable[[np.random.Generator], Floats]] = {
    "plaster": _plaster((0.86, 0.84, 0.8)),
    "concrete": _speckled((0.55, 0.55, 0.55), 0.06),
    "asphalt": _speckled((0.2, 0.2, 0.22), 0.2),
    "sand": _speckled((0.72, 0.58, 0.36), 0.15),
    "red carpet": _speckled((0.42, 0.06, 0.1), 0.12),
    "soil": _leaves((0.2, 0.15, 0.1)),
    "sky": _plaster((0.35, 0.47, 0.62)),
    "bricks": lambda rng: _tiled(rng, [(0.55, 0.2, 0.14), (0.47, 0.16, 0.12)], (0.62, 0.58, 0.52),
                                 4, 8, shift=0.5, width=0.06),
    "turquoise tiles": lambda rng: _tiled(rng, [(0.55, 0.82, 0.8), (0.5, 0.76, 0.76)],
                                          (0.85, 0.92, 0.9), 4, 8, shift=0.5),
    "floor tiles": lambda rng: _tiled(rng, [(0.66, 0.64, 0.6)], (0.45, 0.44, 0.42), 4, 4,
                                      width=0.02),
    "dark tiles": lambda rng: _tiled(rng, [(0.18, 0.19, 0.21)], (0.3, 0.3, 0.32), 4, 4,
                                     width=0.02),
    "stripes": _stripes((0.16, 0.27, 0.68), (0.88, 0.9, 0.94), 8),
    "checks": _checks([WHITE, BLACK], 4),
    "mosaic": _checks([RED, GREEN, BLUE, YELLOW], 6, regular=False),
    "dots": _dots((0.95, 0.8, 0.42), (0.75, 0.15, 0.16), 5),
    "hedge": _leaves((0.16, 0.42, 0.13)),
    "lawn": _leaves((0.22, 0.45, 0.12)),
    "cobbles": _stones((0.5, 0.48, 0.42), 60),
    "rubble": _stones((0.36, 0.34, 0.28), 28),
    "metal": _metal,
    "chipboard": _chips,
    "planks": _boards((0.68, 0.44, 0.2), 7),
    "parquet": _boards((0.5, 0.32, 0.16), 6, horizontal=True),
    "beams": _boards((0.3, 0.2, 0.11), 4, horizontal=True),
    "purple plaster": _plaster((0.42, 0.2, 0.5)),
}  # fmt: skip
"""Every texture, by name."""
