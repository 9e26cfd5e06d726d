"""The arena experiment, end to end and short."""

import json
from dataclasses import replace

import numpy as np
import pytest

from taskfree.paper.arena import experiment as arena


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("arena")
    config = arena.ArenaConfig(
        out=out, seeds=1, steps=4, pretrain_steps=2, drive_steps=1, recent_frames=20, workers=1
    )
    return config, arena.run(config)


def test_every_setting_is_run_and_shown(finished):
    config, results = finished
    assert json.loads((config.out / "results.json").read_text()) == json.loads(json.dumps(results))
    assert [row["setting"] for row in results["summary"]] == [s.name for s in arena.SETTINGS]
    for one in results["runs"]:
        assert one["frames"] == 40
    page = (config.out / "report.html").read_text()
    for name in ("collisions", "total", "paths"):
        assert (config.out / f"{name}.png").stat().st_size > 10_000
        assert f"alt='{name}.png'" in page
    for name in ("first-minute.mp4", "last-minute.mp4"):
        assert (config.out / name).stat().st_size > 1_000


def test_a_run_is_reproducible_bit_for_bit(finished):
    config, _ = finished
    job = arena.ArenaJob(config, arena.SETTINGS[-1], 0)
    first = json.loads(arena._file(job).read_text())
    again = arena.run_one(job)
    for key in ("path", "weights", "collisions", "events", "collisions per step after learning"):
        assert again[key] == first[key], key


def test_finished_runs_are_not_repeated(finished):
    config, results = finished
    files = {file: file.stat().st_mtime_ns for file in (config.out / "runs").iterdir()}
    assert len(files) == len(arena.SETTINGS) + 1
    assert arena.run(config)["summary"] == results["summary"]
    assert {file: file.stat().st_mtime_ns for file in (config.out / "runs").iterdir()} == files
    other = arena.ArenaJob(replace(config, strength=1.0), arena.SETTINGS[0], 0)
    assert not arena._file(other).exists()
    pretrained = arena.ArenaJob(replace(config, strength=1.0), None, 0)
    assert arena._file(pretrained).exists(), "the pretraining has no penalty"


def test_only_the_networks_learn(finished):
    _, results = finished
    weights = {one["setting"]: one["weights"] for one in results["runs"]}
    assert weights["straight on"] == weights["expert"] != weights["online"]


def runs(**changes):
    """Two seeds of every setting."""
    return [
        {
            "setting": setting.name, "seed": seed, "collisions": [1, 150, 250, 299 - seed],
            "collisions per step after learning": 0.1, "agreement": 0.5,
        } | {key: change(setting, seed) for key, change in changes.items()}
        for setting in arena.SETTINGS
        for seed in range(2)
    ]  # fmt: skip


def test_collisions_are_counted_per_step_and_in_the_last_third():
    row = arena.summary(arena.ArenaConfig(seeds=2, steps=30), runs())[0]
    assert row["overall"] == [0.1333, 0.0]
    assert row["in the last third"] == [0.2, 0.0]
    assert row["after learning"] == [0.1, 0.0]
    assert row["agreement with the expert"] == [0.5, 0.0]


def test_the_summary_has_intervals():
    found = arena.summary(
        arena.ArenaConfig(seeds=2, steps=30), runs(agreement=lambda _, seed: 0.5 + 0.1 * seed)
    )
    assert found[0]["agreement with the expert"] == [0.55, 0.6353]


def test_continual_and_online_are_compared_seed_by_seed():
    found = runs(
        agreement=lambda setting, seed: 0.5 + 0.1 * setting.consolidate,
        collisions=lambda setting, seed: [1] * (3 * seed + 3 * (not setting.consolidate)),
    )
    first, balanced = arena.differences(arena.ArenaConfig(seeds=2, steps=30), found)
    assert first["setting"] == "continual minus online"
    assert balanced["setting"] == "continual minus online, class-balanced"
    assert first["overall"] == [-0.1, 0.0], "the seeds differ, the differences do not"
    assert first["agreement with the expert"] == [0.1, 0.0]
    assert balanced["in the last third"] == [0.0, 0.0]


def test_the_pose_is_reset_facing_either_way():
    env = arena._env("lab", arena.ArenaConfig(reset_steps=1))
    env.unwrapped.simulated.image = lambda: np.zeros((128, 128, 3), np.uint8)
    env.reset(seed=0)
    directions = set()
    for _ in range(8):
        truncated = [env.step(0)[3] for _ in range(arena.FRAMES)]
        assert truncated == [False] * 9 + [True]
        _, info = env.reset()
        x, y, heading = info["pose"]
        directions.add(bool((x * np.sin(heading) - y * np.cos(heading)) > 0))
    env.close()
    assert directions == {True, False}
