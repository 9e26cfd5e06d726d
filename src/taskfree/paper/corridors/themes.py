"""Ten corridors that look nothing like each other, each in a different version per seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taskfree._core import validation
from taskfree.paper.corridors.world import Corridor, Obstacle, draw_path

TILES, BENDS, OBSTACLES = 34, 17, 12
"""Tiles of a corridor, about 1,000 frames; tiles that turn; obstacles, at most."""

ANY = "S"
"""Instead of a path, which depends on the seed."""
RED, GREEN, BLUE, YELLOW = (
    (0.75, 0.16, 0.14),
    (0.13, 0.5, 0.22),
    (0.16, 0.32, 0.66),
    (0.92, 0.75, 0.1),
)
BLACK, WHITE, BROWN = (0.08, 0.08, 0.08), (0.92, 0.92, 0.9), (0.45, 0.26, 0.12)

THEMES: dict[str, tuple[Corridor, tuple[Obstacle, ...], str | None]] = {
    "A": (Corridor(ANY, "plaster", "parquet", "concrete", light=0.55, headlight=0.4,
                   paint=(BROWN, GREEN)), ("doorway", "person", "shelf"), "dots"),
    "B": (Corridor(ANY, "bricks", "asphalt", "asphalt", light=0.35, headlight=0.6, pipes=True,
                   paint=(BLUE, RED, YELLOW)), ("pillar", "arc", "crate"), "stripes"),
    "C": (Corridor(ANY, "stripes", "checks", "plaster", light=0.6, headlight=0.4,
                   paint=(RED, BLACK, BROWN)), ("pillar", "shelf", "person"), "lawn"),
    "D": (Corridor(ANY, "hedge", "cobbles", "sky", light=0.5, headlight=0.4, haze=0.2,
                   haze_colour=(0.5, 0.6, 0.7), paint=(RED, WHITE, BLUE, BROWN)),
          ("person", "crate", "pillar"), None),
    "E": (Corridor(ANY, "metal", "dark tiles", "beams", light=0.2, headlight=0.7, haze=0.3,
                   haze_colour=(0.08, 0.08, 0.1), pipes=True, paint=(YELLOW, RED, BLUE)),
          ("doorway", "pillar", "arc"), None),
    "F": (Corridor(ANY, "dots", "red carpet", "sand", light=0.55, headlight=0.4,
                   paint=(WHITE, GREEN, BLUE)), ("pillar", "person", "doorway"), "checks"),
    "G": (Corridor(ANY, "rubble", "soil", "beams", light=0.15, headlight=0.7, haze=0.5,
                   haze_colour=(0.03, 0.03, 0.02), paint=(BROWN, RED, YELLOW)),
          ("arc", "crate", "pillar"), None),
    "H": (Corridor(ANY, "planks", "lawn", "beams", light=0.4, headlight=0.5,
                   paint=(BLUE, RED, GREEN, BROWN)), ("crate", "person", "shelf"), None),
    "I": (Corridor(ANY, "turquoise tiles", "floor tiles", "concrete", light=0.6, headlight=0.35,
                   haze=0.15, haze_colour=(0.8, 0.9, 0.9), paint=(GREEN, RED, BROWN)),
          ("person", "doorway", "crate"), "stripes"),
    "J": (Corridor(ANY, "mosaic", "sand", "purple plaster", light=0.45, headlight=0.45,
                   paint=(BLACK, WHITE, BROWN)), ("pillar", "shelf", "crate"), None),
}  # fmt: skip
"""What each corridor looks like: its surfaces, its kinds of obstacles, and its posters."""


def corridor(
    name: str, seed: int = 0, *, tiles: int = TILES, bends: int = BENDS, obstacles: int = OBSTACLES
) -> Corridor:
    """One of the ten corridors, A to J. Another seed has another path and other obstacles.

    >>> corridor("A").bends, len(corridor("J").path)
    (17, 34)
    """
    validation.choice("corridor", name, tuple(THEMES))
    validation.integer("world_seed", seed, least=0)
    theme, kinds, poster = THEMES[name]
    rng = np.random.default_rng([seed, *name.encode()])
    path = draw_path(tiles, bends, rng)
    # No obstacle is in a bend or between two bends, where it would be seen too late.
    free = [n for n in range(2, tiles - 2) if path[n] == "S"]
    roomy = [n for n in free if path[n - 1 : n + 2].count("S") >= 2]
    chosen = sorted(rng.choice(roomy, min(obstacles, len(roomy)), replace=False).tolist())
    placed = tuple((n, kinds[int(rng.integers(len(kinds)))]) for n in chosen)
    walls = [n for n in free if n not in chosen]
    posters = tuple((int(n), poster) for n in walls[::2]) if poster else ()
    return replace(theme, path=path, obstacles=placed, posters=posters, seed=seed)
