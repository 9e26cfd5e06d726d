"""The corridor experiment, end to end and short."""

import json
from dataclasses import replace

import pytest
import torch

from taskfree.paper.corridors import experiment as corridors
from taskfree.paper.corridors import recording
from taskfree.paper.simulation import tiny_v2


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("corridors")
    flights = recording.Recording(out=out / "flights", tiles=3, bends=1, obstacles=0, workers=1)
    config = corridors.CorridorsConfig(
        out=out, corridors=("A", "D"), seeds=1, flights=flights, epochs=2, evaluate_every=5,
        frame_stride=8, repeats=1, workers=1, rollout_seconds=0.5,
    )  # fmt: skip
    return config, corridors.run(config)


def test_every_setting_is_run_and_evaluated_on_every_corridor(finished):
    config, results = finished
    assert json.loads((config.out / "results.json").read_text()) == json.loads(json.dumps(results))
    assert {one["setting"] for one in results["runs"]} == {s.name for s in corridors.SETTINGS}
    for row in results["summary"]:
        assert set(row["balanced accuracy by corridor"]) == {"A", "D"}
        assert 0 <= row["accuracy"][0] <= 1
    assert [row["corridor"] for row in results["flights"]] == ["A", "D"]
    assert set(results["config"]["flights"]) == {
        "seed",
        "camera",
        "tiles",
        "bends",
        "obstacles",
        "key",
    }
    for one in results["runs"]:
        setting = next(s for s in corridors.SETTINGS if s.name == one["setting"])
        learned_in_order = setting.order == "as flown"
        assert len(one["just flown"]) == (2 if learned_in_order else 0)


def test_all_settings_start_from_the_same_weights(finished):
    _, results = finished
    first = [one["curve"][0] for one in results["runs"]]
    assert all(point == first[0] for point in first)
    finals = {one["setting"]: one["final"] for one in results["runs"]}
    assert finals["scratch"] == first[0]["corridors"]


def test_finished_runs_are_not_repeated(finished):
    config, results = finished
    files = {file: file.stat().st_mtime_ns for file in (config.out / "runs").iterdir()}
    removed = corridors._file(corridors.CorridorJob(config, corridors.SETTINGS[0], 0))
    removed.unlink()
    assert corridors.run(config)["summary"] == results["summary"]
    again = {file: file.stat().st_mtime_ns for file in (config.out / "runs").iterdir()}
    assert again.keys() == files.keys()
    assert {file for file in files if again[file] != files[file]} == {removed}


def test_an_option_repeats_only_the_runs_that_use_it(finished):
    config, _ = finished
    for options, users in (
        ({"strength": 0.5}, {"online continual", "online continual, class-balanced"}),
        ({"epochs": 3}, {"offline joint"}),
        ({"repeats": 2}, {setting.name for setting in corridors.SETTINGS if not setting.epochs}),
        (
            {"buffer_size": 9},
            {s.name for s in corridors.SETTINGS if s.buffer and not s.reservoir},
        ),
        ({"lr": 0.5}, {setting.name for setting in corridors.SETTINGS}),
        ({"live": True}, {s.name for s in corridors.SETTINGS if s.order == "as flown"}),
    ):
        other = replace(config, **options)
        missing = {
            setting.name
            for setting in corridors.SETTINGS
            if not corridors._file(corridors.CorridorJob(other, setting, 0)).exists()
        }
        assert missing == users, options


def test_other_worlds_are_other_runs(finished, monkeypatch):
    config, _ = finished
    job = corridors.CorridorJob(config, corridors.SETTINGS[0], 0)
    assert corridors._file(job).exists()
    monkeypatch.setitem(recording.MADE, "ray", 99)
    assert not corridors._file(job).exists()


def test_every_frame_is_used_once_per_epoch(finished):
    config, _ = finished
    flights = [recording.load(config.flights, name) for name in config.corridors]
    frames = sum(len(flight.frames) for flight in flights)
    for setting in corridors.SETTINGS:
        batches = list(corridors._batches(flights, corridors.CorridorJob(config, setting, 0)))
        passes, size = (2, 20) if setting.epochs else (0 if setting.order == "none" else 1, 10)
        assert [len(actions) for _, actions in batches] == [size] * passes * (frames // size)
    shuffled = next(setting for setting in corridors.SETTINGS if setting.order == "shuffled")
    first = next(iter(corridors._batches(flights, corridors.CorridorJob(config, shuffled, 0))))[0]
    assert not torch.equal(first, flights[0].frames[:10])


def test_balanced_accuracy_is_the_mean_over_actions():
    config = corridors.CorridorsConfig()
    learner = corridors._learner(tiny_v2.network(), config, corridors.SETTINGS[2])
    with torch.no_grad():
        for value in learner.model.parameters():
            value.zero_()
        learner.model[-1].bias[1] = 1  # always straight on
    actions = torch.tensor([1] * 8 + [0, 2])
    frames = torch.zeros(10, 128, 128, 3, dtype=torch.uint8)
    assert corridors._evaluate(learner, [(frames, actions)]) == [[0.8, 0.3333]]


def test_learning_live_equals_learning_from_the_recording(finished):
    config, results = finished
    setting = next(one for one in corridors.SETTINGS if one.name == "online continual")
    job = corridors.CorridorJob(replace(config, live=True, rollout_seconds=0), setting, 0)
    live = corridors.run_one(job)
    recorded = next(one for one in results["runs"] if one["setting"] == setting.name)
    for key in ("losses", "curve", "final", "events"):
        assert live[key] == recorded[key], key
    assert live["flown"] == []


def test_the_report_has_all_figures_and_settings(finished):
    config, results = finished
    page = (config.out / "report.html").read_text()
    for name in ("views", "accuracy", "balanced", "final", "rollout"):
        assert (config.out / f"{name}.png").stat().st_size > 10_000
        assert f"alt='{name}.png'" in page
    for row in results["summary"]:
        assert row["setting"] in page
    assert results["command"].startswith("taskfree reproduce corridors --corridors A D")


def test_each_network_flies_by_itself(finished):
    _, results = finished
    for one in results["runs"]:
        assert len(one["flown"]) == 2
        assert all(flown["seconds"] <= 0.5 and flown["metres"] > 0 for flown in one["flown"])


def test_the_ten_corridors_are_the_four_and_six_more():
    ten, four = corridors.TenCorridorsConfig(), corridors.CorridorsConfig()
    assert ten.corridors[:4] == four.corridors
    assert len(ten.corridors) == 10
    assert (four.name, ten.name) == ("corridors", "corridors10")
