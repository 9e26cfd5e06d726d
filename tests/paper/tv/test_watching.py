"""The files of a series: other sources are another series."""

import pytest
import torch
from safetensors.torch import save_file

from taskfree.paper.tv import compose, experiment, watching
from taskfree.paper.tv.alexnet import AlexNet
from taskfree.paper.tv.config import SETTINGS, TVConfig, TVJob


@pytest.fixture(autouse=True)
def _fresh_digests():
    watching._digest.cache_clear()


def test_another_label_or_image_is_another_series(tmp_path):
    (tmp_path / "e1" / "crops" / "00000").mkdir(parents=True)
    labels = tmp_path / "labels.csv"
    labels.write_text("track,name\ne1/00000,amy\n")
    job = TVJob(TVConfig(series=tmp_path), SETTINGS[1], 0)

    def files():
        watching._digest.cache_clear()
        return experiment._file(job), watching.series_file(job.config, 0)

    found = [files()]
    assert files() == found[0]
    labels.write_text("track,name\ne1/00000,bob\n")
    found.append(files())
    (tmp_path / "e1" / "crops" / "00000" / "000001.jpg").write_text("an image")
    found.append(files())
    (tmp_path / "sheet.html").write_text("a page to look at")
    for table in ("faces.csv", "tracks.csv"):
        (tmp_path / table).write_text("derived from the rest")
    assert files() == found[-1]
    assert len({file for both in found for file in both}) == 6


def test_crops_that_are_cut_from_frames_make_no_difference(tmp_path):
    (tmp_path / "e1" / "frames").mkdir(parents=True)
    before = watching._digest(tmp_path)
    (tmp_path / "e1" / "crops" / "00000").mkdir(parents=True)
    (tmp_path / "e1" / "crops" / "00000" / "000001.jpg").write_text("an image")
    watching._digest.cache_clear()
    assert watching._digest(tmp_path) == before


@pytest.mark.parametrize(
    "option",
    [
        {"actors": 5},
        {"scene_length": 3},
        {"tracks_per_episode": 9},
        {"held_out": 3},
        {"episodes": 2},
        {"crop": False},
    ],
)
def test_an_option_that_changes_the_series_changes_its_file(option):
    file = watching.series_file(TVConfig(), 0)
    assert file == watching.series_file(TVConfig(lr=0.5, seeds=9), 0)
    assert file != watching.series_file(TVConfig(**option), 0)
    assert file != watching.series_file(TVConfig(), 1)


@pytest.mark.parametrize("name", ["weights.pth", "weights.pt", "order.txt"])
def test_files_of_the_same_size_have_different_digests(tmp_path, name):
    digests = []
    for content in (b"one", b"two"):
        (tmp_path / name).write_bytes(content)
        watching._digest.cache_clear()
        digests.append(watching._digest(tmp_path / name))
    assert digests[0] != digests[1]


@pytest.mark.parametrize("suffix", compose.IMAGES)
def test_a_new_image_of_any_kind_changes_the_digest(tmp_path, suffix):
    before = watching._digest(tmp_path)
    (tmp_path / f"one{suffix}").write_text("an image")
    watching._digest.cache_clear()
    assert watching._digest(tmp_path) != before


def test_the_initial_network_has_the_given_convolutions_and_100_outputs(tmp_path):
    convolutions = AlexNet(1, seed=5).features
    save_file(convolutions.state_dict(prefix="features."), tmp_path / "a.safetensors")
    config = TVConfig(weights=tmp_path / "a.safetensors", dropout=0.25)
    network = watching.alexnet(config, seed=3)
    for one, other in zip(network.features.parameters(), convolutions.parameters(), strict=True):
        assert torch.equal(one, other)
    assert network.classifier[-1].out_features == 100
    assert network.classifier[0].p == 0.25
    expected = AlexNet(100, seed=3).classifier.parameters()
    assert all(map(torch.equal, network.classifier.parameters(), expected))
