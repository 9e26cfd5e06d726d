"""The arena experiment, end to end and short."""

import json
from dataclasses import replace

import numpy as np
import pytest

from taskfree.experiments import arena


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("arena")
    config = arena.Config(out=out, seeds=1, steps=8, before=3, after=2, workers=2)
    return config, arena.run(config)


def test_every_setting_is_run_and_shown(finished):
    config, results = finished
    assert json.loads((config.out / "results.json").read_text()) == json.loads(json.dumps(results))
    assert [row["setting"] for row in results["summary"]] == [s.name for s in arena.SETTINGS]
    for one in results["runs"]:
        assert one["frames"] == 80
    page = (config.out / "report.html").read_text()
    for name in ("collisions", "total", "paths"):
        assert (config.out / f"{name}.png").stat().st_size > 10_000
        assert f"alt='{name}.png'" in page


def test_two_runs_are_the_same_bit_for_bit(finished):
    config, _ = finished
    setting = arena.SETTINGS[-1]
    first = json.loads(arena._place(arena.Job(config, setting, 0)).read_text())
    again = arena.run_one(arena.Job(config, setting, 0))
    for key in ("path", "weights", "collisions", "events", "collisions a step after"):
        assert again[key] == first[key], key


def test_what_is_finished_is_not_repeated(finished):
    config, results = finished
    files = {file: file.stat().st_mtime_ns for file in (config.out / "runs").iterdir()}
    assert arena.run(config)["summary"] == results["summary"]
    assert {file: file.stat().st_mtime_ns for file in (config.out / "runs").iterdir()} == files
    other = arena.Job(replace(config, strength=1.0), arena.SETTINGS[0], 0)
    assert not arena._place(other).exists()


def test_only_the_network_learns(finished):
    _, results = finished
    weights = {one["setting"]: one["weights"] for one in results["runs"]}
    assert weights["straight on"] == weights["expert"] != weights["online"]


def test_collisions_are_counted_by_step_and_by_third():
    config = arena.Config(seeds=2, steps=30)
    runs = [
        {
            "setting": setting.name, "seed": seed, "collisions": [1, 150, 250, 299 - seed],
            "collisions a step after": 0.1, "agreement": 0.5,
        }
        for setting in arena.SETTINGS
        for seed in range(2)
    ]  # fmt: skip
    row = arena.summary(config, runs)[0]
    assert row["in all"] == [0.1333, 0.0]
    assert row["in the last third"] == [0.2, 0.0]


def test_continual_and_online_are_compared_seed_by_seed():
    config = arena.Config(seeds=2, steps=30)
    runs = [
        {
            "setting": setting.name, "seed": seed, "agreement": 0.5 + 0.1 * setting.consolidate,
            "collisions": [1] * (3 * seed + 3 * (not setting.consolidate)),
            "collisions a step after": 0.1,
        }
        for setting in arena.SETTINGS
        for seed in range(2)
    ]  # fmt: skip
    first, normalized = arena.differences(config, runs)
    assert first["setting"] == "continual above online, as it comes"
    assert first["in all"] == [-0.1, 0.0], "the seeds differ, the differences do not"
    assert first["acts as the expert would"] == [0.1, 0.0]
    assert normalized["in the last third"] == [0.0, 0.0]


def test_the_robot_is_set_down_anew_facing_either_way():
    config = arena.Config(set_down=1)
    env = arena._env("lab", config)
    env.reset(seed=0)
    ways = set()
    for _ in range(8):
        over = [env.step(0)[3] for _ in range(arena.FRAMES)]
        assert over == [False] * 9 + [True]
        _, info = env.reset()
        x, y, heading = info["place"]
        ways.add(bool((x * np.sin(heading) - y * np.cos(heading)) > 0))
    env.close()
    assert ways == {True, False}


def test_the_interval_is_students():
    assert arena._interval([1.0, 2.0, 3.0]) == [2.0, 2.4843]
    assert arena._interval([1.0]) == [1.0, 0.0]
