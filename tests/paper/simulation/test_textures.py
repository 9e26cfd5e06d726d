import numpy as np
import pytest

from taskfree.paper.simulation import textures


@pytest.mark.parametrize("name", textures.TEXTURES)
def test_the_seed_determines_a_texture_and_it_has_no_seam(name):
    image = textures.make(name, seed=3)
    assert image.shape == (256, 256, 3)
    assert image.dtype == np.uint8
    assert np.array_equal(image, textures.make(name, seed=3))
    values = image.astype(float)
    inside = np.abs(values[:, 1:] - values[:, :-1]).mean(axis=(0, 2))
    across_the_edge = np.abs(values[:, 0] - values[:, -1]).mean()
    assert across_the_edge <= 2 * inside.max() + 1


def test_another_seed_is_another_texture():
    assert not np.array_equal(textures.make("bricks", seed=3), textures.make("bricks", seed=4))


def test_an_unknown_texture_is_named():
    with pytest.raises(ValueError, match="there is no texture 'gold'; there is asphalt"):
        textures.make("gold")
