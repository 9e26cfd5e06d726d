"""The environment of the corridors, and its expert."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from taskfree.paper.corridors import Corridor, CorridorEnv
from taskfree.robot import Action, expert


def short(path="SSLSS", **options):
    return Corridor(path, "bricks", "parquet", "concrete", **options)


def test_the_environment_passes_gymnasiums_checks():
    env = gymnasium.make("taskfree/Corridor-v0", corridor=short(), render_mode="rgb_array")
    check_env(env.unwrapped, skip_render_check=True)  # which would open a window
    image = env.reset(seed=0)[0]
    assert np.array_equal(env.render(), image)
    env.close()


def test_a_window_needs_a_screen(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(RuntimeError, match="render_mode='human' needs a screen"):
        CorridorEnv(short(), render_mode="human")
    with pytest.raises(ValueError, match="render_mode must be"):
        CorridorEnv(short(), render_mode="film")


def fly(env, policy, steps=400, seed=0):
    """The images and infos of a flight."""
    image, info = env.reset(seed=seed)
    found = [(image, info)]
    for _ in range(steps):
        image, _, ended, _, info = env.step(policy(info))
        found.append((image, info))
        if ended:
            break
    return found


def test_the_expert_flies_through_and_the_seed_determines_the_flight():
    corridor = short("SLSRS", obstacles=((2, "doorway"),))
    flights = []
    for _ in range(2):
        env = CorridorEnv(corridor)
        flights.append(fly(env, lambda info: info["expert"]))
        env.close()
    last = flights[0][-1][1]
    assert (last["tile"], last["collision"]) == (4, False)
    assert 4 * 3 - 5 < last["distance"] < 4 * 3 + 3
    assert len(flights[0]) == len(flights[1])
    for (image, info), (again, same) in zip(*flights, strict=True):
        assert np.array_equal(image, again)
        assert np.array_equal(info["scan"], same["scan"])
    other = CorridorEnv(corridor)
    assert not np.array_equal(other.reset(seed=1)[1]["scan"], flights[0][0][1]["scan"])


def test_the_expert_avoids_every_kind_of_obstacle():
    for obstacle in ("person", "pillar", "crate", "shelf", "doorway", "arc"):
        env = CorridorEnv(short("SSS", obstacles=((1, obstacle),)))
        env._camera.image = lambda data: np.zeros((128, 128, 3), np.uint8)  # the expert needs none
        last = fly(env, lambda info: info["expert"])[-1][1]
        assert (last["tile"], last["collision"]) == (2, False), obstacle


def test_the_reward_is_the_number_of_new_tiles():
    env = CorridorEnv(short("SSS"))
    env.reset(seed=0)
    rewards, ended = [], False
    while not ended:
        _, reward, ended, _, _ = env.step(Action.STRAIGHT)
        rewards.append(reward)
    assert sum(rewards) == 2
    assert set(rewards) == {0, 1}


def test_flying_straight_on_ends_at_the_wall():
    env = CorridorEnv(short("SSLSS"))
    last = fly(env, lambda info: Action.STRAIGHT)[-1][1]
    assert last["collision"]
    assert last["tile"] == 2
    assert last["distance"] == pytest.approx(2 * 3 + 1.5 - 0.1 - 0.28, abs=0.1)
    _, info = env.recover()
    assert not info["collision"]
    assert info["tile"] == 2


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
def test_the_expert_turns_to_the_greatest_depth(near, expected):
    scan = np.full(360, 5.0)
    scan[list(near)] = 0.6
    if near == range(-20, 20):
        scan[-50:-20] = 2.0
    assert expert(scan) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"camera": "eyes"}, "camera must be 'ray' or 'gl', got 'eyes'"),
        ({"corridor": "Z"}, "corridor must be 'A' or .* got 'Z'"),
        ({"corridor": 5}, "corridor must be one of A to J, or a .*corridors.Corridor, got 5"),
        ({"corridor": "A", "world_seed": -1}, "world_seed must be an integer of at least 0"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        CorridorEnv(**{"corridor": short()} | options)


def test_invalid_options_of_a_reset_are_refused():
    env = CorridorEnv(short())
    with pytest.raises(ValueError, match="options may only have the key tile, got tiles"):
        env.reset(options={"tiles": 3})
    with pytest.raises(ValueError, match="tile must be below 5, got 5"):
        env.reset(options={"tile": 5})
