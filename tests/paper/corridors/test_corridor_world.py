"""Specifications of corridors, and their models."""

import numpy as np
import pytest

from taskfree.paper.corridors import Corridor
from taskfree.paper.corridors.world import build, draw_path


def test_paths_do_not_cross_themselves():
    for seed in range(20):
        path = draw_path(34, 17, np.random.default_rng(seed))
        made = Corridor(path, "bricks", "sand", "sky")
        assert made.bends == 17
        assert len({tile.cell for tile in made.tiles}) == 34


def test_tiles_follow_the_path():
    tiles = Corridor("SLRS", "bricks", "sand", "sky").tiles
    assert [tile.cell for tile in tiles] == [(0, 0), (1, 0), (1, 1), (2, 1)]
    assert [tile.entry for tile in tiles] == [(1, 0), (1, 0), (0, 1), (1, 0)]
    assert [tile.exit for tile in tiles] == [(1, 0), (0, 1), (1, 0), (1, 0)]
    assert tiles[2].centre == (3.0, 3.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "SXS"}, "path must consist of S, L and R"),
        ({"path": "SLLLLS"}, "path crosses itself"),
        ({"wall": "gold"}, "there is no texture 'gold'"),
        ({"light": -1}, "light must be finite and at least 0"),
        ({"headlight": -1}, "headlight must be finite and at least 0"),
        ({"obstacles": ((1, "dragon"),)}, "obstacles must be 'person' or .* got 'dragon'"),
        ({"obstacles": ((9, "crate"),)}, "obstacles must be in tiles 0 to 2, got 9"),
    ],
)
def test_an_invalid_specification_is_refused(options, message):
    given = {"path": "SSS", "wall": "bricks", "floor": "sand", "ceiling": "sky"} | options
    with pytest.raises(ValueError, match=message):
        Corridor(**given)


def test_the_model_has_walls_posters_pipes_and_obstacles():
    def geoms(**options):
        return build(Corridor("SLS", "bricks", "sand", "sky", **options)).ngeom

    plain = geoms()
    assert plain == 3 * 2 + 3 + 2 + 3, "floor and ceiling; three walls at an end, two at a bend"
    assert geoms(posters=((0, "dots"), (2, "dots"))) == plain + 2
    assert geoms(pipes=True) == plain + 3 * 2
    parts = {"person": 4, "pillar": 1, "crate": 1, "shelf": 5, "doorway": 3, "arc": 3}
    for obstacle, count in parts.items():
        assert geoms(obstacles=((1, obstacle),)) == plain + count, obstacle
