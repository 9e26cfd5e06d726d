"""Ten corridors that look nothing like each other, and as many of each as there are seeds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taskfree import arguments
from taskfree.robots.corridor import Corridor, Thing, draw_path

TILES, BENDS, THINGS = 34, 17, 12
"""The length of a corridor, about 1,000 frames, and how many things stand in it at most."""

ANY = "S"
RED, GREEN, BLUE, YELLOW = (
    (0.75, 0.16, 0.14),
    (0.13, 0.5, 0.22),
    (0.16, 0.32, 0.66),
    (0.92, 0.75, 0.1),
)
BLACK, WHITE, BROWN = (0.08, 0.08, 0.08), (0.92, 0.92, 0.9), (0.45, 0.26, 0.12)

THEMES: dict[str, tuple[Corridor, tuple[Thing, ...], str | None]] = {
    "A": (Corridor(ANY, "plaster", "parquet", "concrete", light=0.55, lamp=0.4,
                   paint=(BROWN, GREEN)), ("doorway", "person", "shelf"), "dots"),
    "B": (Corridor(ANY, "bricks", "asphalt", "asphalt", light=0.35, lamp=0.6, pipes=True,
                   paint=(BLUE, RED, YELLOW)), ("pillar", "arc", "crate"), "stripes"),
    "C": (Corridor(ANY, "stripes", "checks", "plaster", light=0.6, lamp=0.4,
                   paint=(RED, BLACK, BROWN)), ("pillar", "shelf", "person"), "lawn"),
    "D": (Corridor(ANY, "hedge", "cobbles", "sky", light=0.5, lamp=0.4, haze=0.2,
                   haze_colour=(0.5, 0.6, 0.7), paint=(RED, WHITE, BLUE, BROWN)),
          ("person", "crate", "pillar"), None),
    "E": (Corridor(ANY, "metal", "dark tiles", "beams", light=0.2, lamp=0.7, haze=0.3,
                   haze_colour=(0.08, 0.08, 0.1), pipes=True, paint=(YELLOW, RED, BLUE)),
          ("doorway", "pillar", "arc"), None),
    "F": (Corridor(ANY, "dots", "red carpet", "sand", light=0.55, lamp=0.4,
                   paint=(WHITE, GREEN, BLUE)), ("pillar", "person", "doorway"), "checks"),
    "G": (Corridor(ANY, "rubble", "soil", "beams", light=0.15, lamp=0.7, haze=0.5,
                   haze_colour=(0.03, 0.03, 0.02), paint=(BROWN, RED, YELLOW)),
          ("arc", "crate", "pillar"), None),
    "H": (Corridor(ANY, "planks", "lawn", "beams", light=0.4, lamp=0.5,
                   paint=(BLUE, RED, GREEN, BROWN)), ("crate", "person", "shelf"), None),
    "I": (Corridor(ANY, "turquoise tiles", "floor tiles", "concrete", light=0.6, lamp=0.35,
                   haze=0.15, haze_colour=(0.8, 0.9, 0.9), paint=(GREEN, RED, BROWN)),
          ("person", "doorway", "crate"), "stripes"),
    "J": (Corridor(ANY, "mosaic", "sand", "purple plaster", light=0.45, lamp=0.45,
                   paint=(BLACK, WHITE, BROWN)), ("pillar", "shelf", "crate"), None),
}  # fmt: skip
"""What each corridor looks like: its surfaces, what stands in it, and what hangs on its walls."""


def corridor(
    name: str, seed: int = 0, *, tiles: int = TILES, bends: int = BENDS, things: int = THINGS
) -> Corridor:
    """One of the ten, A to J. Another seed has another path, with other things elsewhere.

    >>> corridor("A").bends, len(corridor("J").path)
    (17, 34)
    """
    arguments.one_of("corridor", name, tuple(THEMES))
    arguments.whole("world_seed", seed, least=0)
    theme, kinds, poster = THEMES[name]
    rng = np.random.default_rng([seed, *name.encode()])
    path = draw_path(tiles, bends, rng)
    # Nothing stands in a bend or right before or after one, where it could not be seen in time.
    free = [n for n in range(2, tiles - 2) if path[n] == "S"]
    roomy = [n for n in free if path[n - 1 : n + 2].count("S") >= 2]
    chosen = sorted(rng.choice(roomy, min(things, len(roomy)), replace=False).tolist())
    standing = tuple((n, kinds[int(rng.integers(len(kinds)))]) for n in chosen)
    walls = [n for n in free if n not in chosen]
    hanging = tuple((int(n), poster) for n in walls[::2]) if poster else ()
    return replace(theme, path=path, things=standing, posters=hanging, seed=seed)
