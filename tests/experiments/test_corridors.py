import json
from dataclasses import replace

import pytest
import torch

from taskfree.experiments import corridors, corridors10
from taskfree.robots import record, tiny


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("corridors")
    flights = record.Config(out=out / "flights", tiles=4, bends=1, things=0)
    config = corridors.Config(
        out=out, corridors=("A", "D"), seeds=1, flights=flights, epochs=2, every=5, repeats=1, workers=2,
        alone=1.0,
    )  # fmt: skip
    return config, corridors.run(config)


def test_every_setting_is_run_and_judged_on_every_corridor(finished):
    config, results = finished
    assert json.loads((config.out / "results.json").read_text()) == json.loads(json.dumps(results))
    assert {one["setting"] for one in results["runs"]} == {s.name for s in corridors.SETTINGS}
    for row in results["summary"]:
        assert set(row["weighted by corridor"]) == {"A", "D"}
        assert 0 <= row["accuracy"][0] <= 1
    assert [row["corridor"] for row in results["flights"]] == ["A", "D"]
    for one in results["runs"]:
        learned_in_order = one["setting"].startswith("online") and "joint" not in one["setting"]
        assert len(one["just flown"]) == (2 if learned_in_order else 0)


def test_what_is_finished_is_not_repeated(finished):
    config, results = finished
    files = {file: file.stat().st_mtime_ns for file in (config.out / "runs").iterdir()}
    (gone, *_) = files
    gone.unlink()
    assert corridors.run(config)["summary"] == results["summary"]
    again = {file: file.stat().st_mtime_ns for file in (config.out / "runs").iterdir()}
    assert {file for file in files if again[file] != files[file]} == {gone}


def test_an_option_repeats_only_the_runs_that_use_it(finished):
    config, _ = finished
    for options, using in (
        ({"strength": 0.5}, {"online continual", "online continual, normalized"}),
        ({"epochs": 3}, {"offline joint"}),
        ({"repeats": 2}, {setting.name for setting in corridors.SETTINGS if not setting.epochs}),
        ({"lr": 0.5}, {setting.name for setting in corridors.SETTINGS}),
        ({"live": True}, {s.name for s in corridors.SETTINGS if s.order == "as flown"}),
    ):
        other = replace(config, **options)
        missing = {
            setting.name
            for setting in corridors.SETTINGS
            if not corridors._place(corridors.Job(other, setting, 0)).exists()
        }
        assert missing == using, options


def test_other_worlds_are_other_runs(finished, monkeypatch):
    config, _ = finished
    job = corridors.Job(config, corridors.SETTINGS[0], 0)
    assert corridors._place(job).exists()
    monkeypatch.setitem(record.MADE, "ray", 99)
    assert not corridors._place(job).exists()


def test_all_start_from_the_same_weights_and_frames_come_once(finished):
    config, _ = finished
    flights = [record.load(config.flights, name) for name in config.corridors]
    frames = sum(len(flight.frames) for flight in flights)
    for setting in corridors.SETTINGS:
        batches = list(corridors._batches(flights, corridors.Job(config, setting, 0)))
        passes, size = (2, 20) if setting.epochs else (0 if setting.order == "none" else 1, 10)
        assert [len(actions) for _, actions in batches] == [size] * passes * (frames // size)
    one, two = tiny.network(seed=1), tiny.network(seed=1)
    assert all(map(torch.equal, one.parameters(), two.parameters()))
    shuffled = [s for s in corridors.SETTINGS if s.order == "shuffled"]
    first = next(iter(corridors._batches(flights, corridors.Job(config, shuffled[0], 0))))[0]
    assert not torch.equal(first, flights[0].frames[:10])


def test_weighted_accuracy_is_the_mean_over_actions(finished):
    config, _ = finished
    learner = corridors._learner(tiny.network(), replace(config), corridors.SETTINGS[2])
    with torch.no_grad():
        for value in learner.model.parameters():
            value.zero_()
        learner.model[-1].bias[1] = 1  # always straight on
    actions = torch.tensor([1] * 8 + [0, 2])
    frames = torch.zeros(10, 128, 128, 3, dtype=torch.uint8)
    assert corridors._evaluate(learner, [(frames, actions)]) == [[0.8, 0.3333]]


def test_learning_live_is_learning_from_the_record(finished):
    config, results = finished
    setting = next(one for one in corridors.SETTINGS if one.name == "online continual")
    live = corridors.run_one(corridors.Job(replace(config, live=True, alone=0), setting, 0))
    recorded = next(one for one in results["runs"] if one["setting"] == setting.name)
    for key in ("losses", "curve", "final", "events"):
        assert live[key] == recorded[key], key


def test_the_report_shows_it_all(finished):
    config, results = finished
    page = (config.out / "report.html").read_text()
    for name in ("views", "accuracy", "weighted", "final", "alone"):
        assert (config.out / f"{name}.png").stat().st_size > 10_000
        assert f"alt='{name}.png'" in page
    for row in results["summary"]:
        assert row["setting"] in page
    assert results["command"].startswith("taskfree reproduce corridors --corridors A D")


def test_each_network_flies_by_itself(finished):
    _, results = finished
    for one in results["runs"]:
        assert len(one["flown"]) == 2
        assert all(flown["seconds"] <= 1.0 and flown["metres"] > 0 for flown in one["flown"])


def test_the_ten_are_the_four_and_six_more():
    ten = corridors10.Config()
    assert ten.corridors[:4] == corridors.Config().corridors
    assert len(ten.corridors) == 10
    assert corridors._name(ten) == "corridors10"
