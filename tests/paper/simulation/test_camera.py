"""Both cameras, in a corridor."""

import os

import numpy as np
import pytest

from taskfree.paper.corridors import Corridor, CorridorEnv
from taskfree.paper.simulation import camera


def image(**options):
    """What the ray camera sees at the start of a short corridor without a headlight."""
    options = {"headlight": 0.0} | options
    env = CorridorEnv(Corridor("SSS", "bricks", "parquet", "concrete", **options))
    return env.reset(seed=0)[0].astype(float)


def test_the_ray_camera_sees_textures_light_haze_and_obstacles():
    clear = image(light=1.0)
    red = clear[..., 0] - clear[..., 2]
    assert red[:, :20].mean() > 20, "bricks on the left"
    dark = image(light=0.2)
    assert dark.mean() < 0.3 * clear.mean()
    hazy = image(light=1.0, haze=50.0, haze_colour=(0.0, 0.0, 1.0))
    assert hazy[64, 64].tolist() == pytest.approx([0, 0, 255], abs=3)
    green = image(light=1.0, obstacles=((1, "pillar"),), paint=((0.0, 1.0, 0.0),))
    assert ((green[..., 1] > 200) & (green[..., 0] < 50)).sum() > 50


def test_the_headlight_brightens_what_faces_the_camera():
    with_headlight, without = image(light=0.2, headlight=0.5), image(light=0.2)
    brighter = with_headlight.mean(2) - without.mean(2)
    assert brighter.min() >= 0
    assert brighter[60:68, 60:68].mean() > 5, "the end of the corridor faces the camera"


def test_the_rays_cover_the_whole_field_of_view():
    env = CorridorEnv(Corridor("SSS", "bricks", "parquet", "concrete"))
    rays = env._camera._rays.reshape(128, 128, 3)
    assert np.linalg.norm(rays, axis=2) == pytest.approx(np.ones((128, 128)))
    assert np.degrees(np.arctan2(rays[64, 127, 0], -rays[64, 127, 2])) == pytest.approx(40, abs=0.6)
    assert np.degrees(np.arctan2(rays[0, 64, 1], -rays[0, 64, 2])) == pytest.approx(25, abs=0.5)


def test_a_camera_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="camera must be 'ray' or 'gl', got 'film'"):
        camera.make("film", None)


def test_opengl_works_or_the_error_says_what_to_install():
    before = os.environ.get("MUJOCO_GL")
    clear = Corridor("SSLSS", "bricks", "parquet", "concrete")
    hazy = Corridor("SSLSS", "bricks", "parquet", "concrete", haze=1.0, haze_colour=(0.0, 0.0, 1.0))
    envs = []
    try:
        envs = [CorridorEnv(corridor, camera="gl") for corridor in (clear, hazy)]
        message = ""
    except OSError as error:
        message = str(error)
    if message:
        assert "libegl1" in message
        assert "camera='ray'" in message
        assert os.environ.get("MUJOCO_GL") == before, "the other camera still works"
    else:
        images = [env.reset(seed=0)[0].astype(float) for env in envs]
        assert images[0].std() > 5
        assert images[1][..., 2].mean() > images[0][..., 2].mean() + 20
    for env in envs:
        env.close()
