"""The simulated corridors: worlds, cameras, laser, expert, and the environment around them."""

import os

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from taskfree.robots import Corridor, CorridorEnv, textures
from taskfree.robots.corridor import draw_path
from taskfree.robots.laser import FAR, MISS, Action, Laser, expert
from taskfree.robots.worlds import THEMES, corridor


@pytest.mark.parametrize("name", textures.TEXTURES)
def test_textures_are_made_again_from_their_seed_and_have_no_seam(name):
    picture = textures.make(name, seed=3)
    assert picture.shape == (256, 256, 3)
    assert picture.dtype == np.uint8
    assert np.array_equal(picture, textures.make(name, seed=3))
    values = picture.astype(float)
    inside = np.abs(values[:, 1:] - values[:, :-1]).mean(axis=(0, 2))
    over_the_edge = np.abs(values[:, 0] - values[:, -1]).mean()
    assert over_the_edge <= 2 * inside.max() + 1


def test_an_unknown_texture_is_named():
    with pytest.raises(ValueError, match="no texture is called 'gold'; there is asphalt"):
        textures.make("gold")


def test_paths_do_not_cross_themselves():
    for seed in range(20):
        path = draw_path(34, 17, np.random.default_rng(seed))
        made = Corridor(path, "bricks", "sand", "sky")
        assert made.bends == 17
        assert len({tile.place for tile in made.tiles}) == 34


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "SXS"}, "path must be made of S, L and R"),
        ({"path": "SLLLLS"}, "path crosses itself"),
        ({"wall": "gold"}, "no texture is called 'gold'"),
        ({"light": -1}, "light must be finite and at least 0"),
        ({"things": ((1, "dragon"),)}, "things must be 'person' or .* got 'dragon'"),
        ({"things": ((9, "crate"),)}, "things must stand in one of the 3 tiles, from 0 on, got 9"),
    ],
)
def test_a_corridor_that_makes_no_sense(options, message):
    given = {"path": "SSS", "wall": "bricks", "floor": "sand", "ceiling": "sky"} | options
    with pytest.raises(ValueError, match=message):
        Corridor(**given)


@pytest.mark.parametrize("name", THEMES)
def test_the_ten_are_what_they_say(name):
    made = corridor(name)
    assert made == corridor(name)
    assert made.path != corridor(name, seed=1).path
    assert (len(made.path), made.bends) == (34, 17)
    assert 7 <= len(made.things) <= 12
    assert all(made.path[number] == "S" for number, _ in made.things)


def test_they_look_nothing_like_each_other():
    means = []
    for name in THEMES:
        env = CorridorEnv(name)
        means.append(env.reset(seed=0)[0].mean(axis=(0, 1)))
        env.close()
    apart = np.linalg.norm(np.array(means)[:, None] - np.array(means), axis=-1)
    assert apart[~np.eye(10, dtype=bool)].min() > 3


def short(path="SSLSS", **options):
    return Corridor(path, "bricks", "parquet", "concrete", **options)


def test_the_environment_passes_gymnasiums_checks():
    env = gymnasium.make("taskfree/Corridor-v0", corridor=short(), render_mode="rgb_array")
    check_env(env.unwrapped, skip_render_check=True)  # which would open a window
    picture = env.reset(seed=0)[0]
    assert np.array_equal(env.render(), picture)
    env.close()


def test_a_window_needs_a_screen(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(RuntimeError, match="render_mode='human' needs a screen"):
        CorridorEnv(short(), render_mode="human")
    with pytest.raises(ValueError, match="render_mode must be"):
        CorridorEnv(short(), render_mode="film")


def fly(env, policy, steps=400, seed=0):
    picture, info = env.reset(seed=seed)
    seen = [(picture, info)]
    for _ in range(steps):
        picture, _, ended, _, info = env.step(policy(info))
        seen.append((picture, info))
        if ended:
            break
    return seen


def test_the_expert_flies_through_and_a_flight_is_made_again_from_its_seed():
    things = ((1, "person"), (4, "doorway"), (6, "pillar"))
    flights = []
    for _ in range(2):
        env = CorridorEnv(short("SSLSSRSSS", things=things))
        flights.append(fly(env, lambda info: info["expert"]))
        env.close()
    last = flights[0][-1][1]
    assert (last["tile"], last["collision"]) == (8, False)
    assert 8 * 3 - 6 < last["distance"] < 8 * 3 + 3
    assert len(flights[0]) == len(flights[1])
    for (picture, info), (again, same) in zip(*flights, strict=True):
        assert np.array_equal(picture, again)
        assert np.array_equal(info["scan"], same["scan"])
    other = CorridorEnv(short("SSLSSRSSS", things=things))
    assert not np.array_equal(other.reset(seed=1)[1]["scan"], flights[0][0][1]["scan"])


def test_flying_straight_on_ends_at_the_wall():
    env = CorridorEnv(short("SSLSS"))
    last = fly(env, lambda info: Action.STRAIGHT)[-1][1]
    assert last["collision"]
    assert last["tile"] == 2
    assert last["distance"] == pytest.approx(2 * 3 + 1.5 - 0.1 - 0.28, abs=0.1)


def test_the_drone_keeps_its_height_and_turns_as_told():
    env = CorridorEnv(short("SSSSSS"))
    env.reset(seed=0)
    for _ in range(15):
        env.step(Action.STRAIGHT)
    assert env.data.qpos[2] == pytest.approx(1.0, abs=0.03)
    assert env.data.qvel[0] == pytest.approx(0.8, abs=0.05)
    before = env._pilot.heading(env.data)
    for _ in range(5):
        env.step(Action.LEFT)
    turned = env._pilot.heading(env.data) - before
    assert turned == pytest.approx(0.5, abs=0.12)


def test_the_laser_measures_the_walls():
    env = CorridorEnv(short("SSSSSS"))
    env.reset(seed=0)
    env.data.qpos[:2] = (4.5, 0.3)
    mujoco.mj_forward(env.model, env.data)
    scan = Laser(env.model, "drone").scan(env.data, 0.0, np.random.default_rng(0))
    assert scan[90] == pytest.approx(1.4 - 0.3, abs=0.05)
    assert scan[270] == pytest.approx(1.4 + 0.3, abs=0.05)
    assert scan[0] == MISS, "the end is further than it can see"
    assert scan[scan < MISS].max() <= FAR


@pytest.mark.parametrize(
    ("near", "expected"),
    [
        ((), Action.STRAIGHT),
        (range(-20, 20), Action.LEFT),
        (range(-60, 20), Action.LEFT),
        (range(-20, 60), Action.RIGHT),
        (range(20, 50), Action.STRAIGHT),
        (range(60, 300), Action.STRAIGHT),
    ],
)
def test_the_expert_goes_where_there_is_room(near, expected):
    scan = np.full(360, 5.0)
    scan[list(near)] = 0.6
    if near == range(-20, 20):
        scan[-50:-20] = 2.0
    assert expert(scan) == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"camera": "eyes"}, "camera must be 'ray' or 'gl', got 'eyes'"),
        ({"corridor": "Z"}, "corridor must be 'A' or .* got 'Z'"),
        ({"corridor": 5}, "corridor must be one of A to J, or a taskfree.robots.Corridor, got 5"),
        ({"corridor": "A", "world_seed": -1}, "world_seed must be a whole number of at least 0"),
    ],
)
def test_an_environment_that_cannot_be_is_refused(given, said):
    with pytest.raises((ValueError, TypeError), match=said):
        CorridorEnv(**{"corridor": short()} | given)


def test_an_unknown_option_of_a_flight_is_named():
    with pytest.raises(ValueError, match="options must have no key but tile, got tiles"):
        CorridorEnv(short()).reset(options={"tiles": 3})


def test_the_ray_camera_sees_textures_things_and_haze():
    clear = CorridorEnv(short("SSS", light=1.0, lamp=0.0)).reset(seed=0)[0].astype(float)
    red = clear[..., 0] - clear[..., 2]
    assert red[:, :20].mean() > 20, "bricks on the left"
    dark = CorridorEnv(short("SSS", light=0.2, lamp=0.0)).reset(seed=0)[0].astype(float)
    assert dark.mean() < 0.3 * clear.mean()
    veiled = CorridorEnv(
        short("SSS", light=1.0, lamp=0.0, haze=50.0, haze_colour=(0.0, 0.0, 1.0))
    ).reset(seed=0)[0]
    assert veiled[64, 64].tolist() == pytest.approx([0, 0, 255], abs=3)
    with_person = CorridorEnv(
        short("SSS", light=1.0, lamp=0.0, things=((1, "pillar"),), paint=((0.0, 1.0, 0.0),))
    ).reset(seed=0)[0]
    assert ((with_person[..., 1] > 200) & (with_person[..., 0] < 50)).sum() > 50


def test_rays_go_through_the_whole_view():
    rays = CorridorEnv(short())._camera._rays.reshape(128, 128, 3)
    assert np.degrees(np.arctan2(rays[64, 127, 0], -rays[64, 127, 2])) == pytest.approx(40, abs=0.6)
    assert np.degrees(np.arctan2(rays[0, 64, 1], -rays[0, 64, 2])) == pytest.approx(25, abs=0.5)


def test_gl_works_or_says_what_to_install():
    before = os.environ.get("MUJOCO_GL")
    try:
        env = CorridorEnv(short(), camera="gl")
    except OSError as error:
        told = str(error)
        assert os.environ.get("MUJOCO_GL") == before, "whoever takes the other camera next can"
    else:
        veiled = CorridorEnv(short(haze=1.0, haze_colour=(0.0, 0.0, 1.0)), camera="gl")
        blue = [e.reset(seed=0)[0][..., 2].astype(float).mean() for e in (env, veiled)]
        assert blue[1] > blue[0] + 20
        veiled.close()
        told = "libegl1 camera='ray'" if env.reset(seed=0)[0].std() > 5 else "an empty picture"
        env.close()
    assert "libegl1" in told
    assert "camera='ray'" in told
