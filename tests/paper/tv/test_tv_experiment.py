"""The television experiment, end to end with a small network, and its parts."""

import json

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from taskfree.cli import main
from taskfree.paper.tv import experiment as tv
from taskfree.paper.tv import watching
from taskfree.paper.tv.alexnet import AlexNet
from taskfree.paper.tv.config import SETTINGS, TVConfig, TVJob
from taskfree.paper.tv.series import Series
from taskfree.paper.tv.triplets import Faces, Pair, TVTrack


class SmallNetwork(nn.Module):
    """Instead of AlexNet: the mean brightness of 196 squares, and one hidden layer."""

    def __init__(self, outputs, weights, seed, dropout):
        super().__init__()
        assert weights.suffix == ".safetensors"
        torch.manual_seed(seed)
        self.convolutions = nn.Sequential(nn.AvgPool2d(16), nn.Flatten())
        self.classifier = nn.Sequential(
            nn.Linear(588, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, outputs)
        )


def run_small(command):
    """Run a command with the small network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watching, "AlexNet", SmallNetwork)
        return main(command)


@pytest.fixture(scope="module")
def finished(photographs, order, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tv")
    (folder / "alexnet.safetensors").write_bytes(b"")
    options = {
        "faces": photographs, "order": order, "weights": folder / "alexnet.safetensors",
        "tracks-per-episode": 6, "seeds": 1, "epochs": 2, "repeats": 1,
        "repeats-self-supervised": 1, "buffer-size": 4, "workers": 1, "out": folder / "out",
    }  # fmt: skip
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    command = ["reproduce", "tv", "--no-crop", *words]
    assert run_small(command) == 0
    return command, folder / "out"


def read_results(out):
    return json.loads((out / "results.json").read_text())


def test_every_setting_is_run_and_evaluated_after_each_episode(finished):
    _, out = finished
    results = read_results(out)
    rows = {row["setting"]: row for row in results["summary"]}
    assert list(rows) == [setting.name for setting in SETTINGS]
    assert len(rows["online"]["after each part"]) == 3
    assert len(rows["initial"]["after each part"]) == 1
    assert len(rows["offline joint"]["after each part"]) == 1 + 2 * 2
    initial = rows["initial"]["accuracy"]
    for row in rows.values():
        assert row["after each part"][0] == initial, "all start from the same weights"
    for one in results["runs"]:
        assert (one["steps"] > 0) == (one["setting"] != "initial"), one["setting"]
        assert len(one["losses"]) == one["steps"]
    counts = results["tracks of each actor in each part, first seed"]
    assert len(counts) == 2
    assert 0 < sum(counts[0].values()) <= 6


def test_figures_and_report(finished):
    _, out = finished
    figures = {"accuracy", "ablation", "self-supervised", "episodes", "actors"}
    assert {file.stem for file in out.glob("*.png")} == figures
    page = (out / "report.html").read_text()
    for name in figures:
        assert f"alt='{name}.png'" in page
    assert "accuracy on held-out faces" in page.lower()
    assert read_results(out)["command"].startswith("taskfree reproduce tv --faces")


def test_a_second_run_repeats_only_what_is_missing(finished):
    command, out = finished
    before = read_results(out)["summary"]
    written = {file: file.stat().st_mtime_ns for file in (out / "runs").iterdir()}
    removed = next(file for file in written if file.name.startswith("online-continual-0-"))
    removed.unlink()
    assert run_small(command) == 0
    again = {file: file.stat().st_mtime_ns for file in (out / "runs").iterdir()}
    assert again.keys() == written.keys()
    assert {file for file in written if again[file] != written[file]} == {removed}
    for row, old in zip(read_results(out)["summary"], before, strict=True):
        assert row | {"seconds": 0} == old | {"seconds": 0}


def test_a_run_with_alexnet(photographs, order, tmp_path):
    weights = tmp_path / "alexnet.safetensors"
    save_file(AlexNet(1, seed=5).features.state_dict(prefix="features."), weights)
    config = TVConfig(
        out=tmp_path, faces=photographs, order=order, weights=weights, crop=False, actors=2,
        tracks_per_episode=2, held_out=20, episodes=1, repeats=1,
    )  # fmt: skip
    (tmp_path / "runs").mkdir()
    watching.prepare(config, 0)
    whole = Series.load(watching.series_file(config, 0))
    assert whole.gallery.shape == (len(whole.episode_of), 9216)
    result = tv.run_one(TVJob(config, SETTINGS[2], 0))
    assert result["steps"] == len(result["losses"]) == 1
    assert [point["episode"] for point in result["curve"]] == [0, 1]
    assert json.loads(json.dumps(result)).keys() == result.keys()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "choose one series"),
        (["--faces", "a", "--clip"], "choose one series"),
        (["--faces", "a"], "--order must be a CSV"),
    ],
)
def test_the_series_must_be_chosen_first(options, message, capsys, tmp_path):
    assert main(["reproduce", "tv", *options, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "users"),
    [
        ({"strength": 7.0}, "continual"),
        ({"penalty": "gradient"}, "continual"),
        ({"merge_threshold": 0.7}, "self-supervised"),
        ({"repeats_self_supervised": 3}, "self-supervised"),
        ({"epochs": 3}, "offline"),
        ({"lr": 0.5}, ""),
        ({"mean": 0.5}, ""),
    ],
)
def test_an_option_repeats_only_the_runs_that_use_it(option, users):
    for setting in SETTINGS:
        before, now = (tv._file(TVJob(TVConfig(**given), setting, 0)) for given in ({}, option))
        assert (before != now) == (users in setting.name), setting.name


def test_accuracy_is_over_all_faces_by_actor_and_by_episode():
    gallery = torch.tensor([[0.0], [10.0], [1.0], [2.0], [9.0], [4.0]])
    whole = Series(
        gallery, [], {"amy": [0], "leo": [1]}, {"amy": [2, 4], "leo": [3, 5]}, [1, 1, 1, 1, 2, 2]
    )
    network = nn.Linear(1, 1)
    with torch.no_grad():
        network.weight.fill_(1)
        network.bias.fill_(0)
    (point,) = tv.learn_series(TVJob(TVConfig(), SETTINGS[0], 0), whole, network)["curve"]
    assert point["accuracy"] == 0.25
    assert point["actors"] == {"amy": 0.5, "leo": 0.0}
    assert point["episodes"] == {1: 0.5, 2: 0.0}


def test_parts_are_complete_and_of_nearly_equal_length():
    found = [Pair(1, (at,), ()) for at in range(10)]
    parts = tv._parts(found, 4)
    assert [len(part) for part in parts] == [2, 3, 2, 3]
    assert [pair for part in parts for pair in part] == found


def test_joint_learning_has_the_same_time_steps_shuffled_across_episodes():
    tracks = [TVTrack(1 + at // 20, f"actor {at % 7}", (at,)) for at in range(40)]
    whole = Series(torch.zeros(40, 1), tracks, {}, {}, [])
    config = TVConfig(epochs=2, tests_per_episode=3)

    def steps(name):
        setting = next(one for one in SETTINGS if one.name == name)
        return list(tv._steps(TVJob(config, setting, 0), whole))

    joint = steps("offline joint")
    assert [episode for episode, _ in joint] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    epochs = [[pair for e, part in joint if (e > 2) == late for pair in part] for late in (0, 1)]
    in_order = [pair for _, part in steps("online") for pair in part]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(in_order)
    assert epochs[0] != epochs[1]
    half = [pair.episode for pair in epochs[0][: len(in_order) // 2]]
    assert half.count(1) > 4
    assert half.count(2) > 4


def test_all_settings_are_the_same_learner_with_components_left_out():
    config = TVConfig(strength=7.0, buffer_size=9, repeats=2, repeats_self_supervised=11)
    made = {
        setting.name: tv._learner(Faces(nn.Linear(2, 2), torch.zeros(4, 2)), config, setting)
        for setting in SETTINGS
    }
    how = {name: own.how and (own.how.strength, own.how.accumulate) for name, own in made.items()}
    assert how == {
        name: None if "continual" not in name else (7.0, "decay" if "decay" in name else "mean")
        for name in made
    }
    without = ("online, no hard buffer", "online continual, no hard buffer", "offline joint")
    for name, learner in made.items():
        assert (learner.which is None) == (name in without)
        assert learner.which is None or learner.which.capacity == 9
        assert learner.repeats == (11 if "self-supervised" in name else 2)
        assert (learner.when.mean, learner.when.variance) == (0.3, 0.1)
