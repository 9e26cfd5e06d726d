"""Recorded flights: recorded once, reproducible, and checked for damage."""

from dataclasses import replace

import av
import pytest
import torch

from taskfree import cli
from taskfree.paper.corridors import recording

SHORT = recording.Recording(corridors=("A", "I"), tiles=4, bends=1, obstacles=1, workers=1)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    config = replace(SHORT, out=tmp_path_factory.mktemp("flights"), video=True)
    return config, recording.run(config)


def test_flights_hold_observations_and_actions(recorded):
    config, rows = recorded
    assert [row["corridor"] for row in rows] == ["A", "I"]
    for row in rows:
        flight = recording.load(config, row["corridor"])
        count = len(flight.frames)
        assert row["frames"] == count > 70
        assert flight.frames.shape == (count, 128, 128, 3)
        assert flight.frames.dtype == torch.uint8
        assert flight.scans.shape == (count, 360)
        assert set(flight.actions.tolist()) <= {0, 1, 2}
        assert flight.collisions == row["collisions"]
        assert sum(row["left, straight, right"]) == pytest.approx(1, abs=0.01)


def test_a_flight_is_reproducible_bit_for_bit_and_not_recorded_twice(recorded, tmp_path):
    config, rows = recorded
    again = recording.record("A", replace(config, out=tmp_path))
    assert again["sha256"] == rows[0]["sha256"]
    file = recording.file(config, "A")
    written = file.stat().st_mtime_ns
    assert recording.record("A", config)["sha256"] == rows[0]["sha256"]
    assert file.stat().st_mtime_ns == written


@pytest.mark.parametrize(
    "options", [{"seed": 1}, {"tiles": 5}, {"bends": 0}, {"obstacles": 2}, {"camera": "gl"}]
)
def test_other_options_are_other_files(options):
    assert recording.file(replace(SHORT, **options), "A") != recording.file(SHORT, "A")
    same = replace(SHORT, corridors=("A",), video=True, workers=3)
    assert recording.file(same, "A") == recording.file(SHORT, "A")


def test_a_damaged_flight_is_detected(recorded, tmp_path):
    config, _ = recorded
    moved = replace(config, out=tmp_path)
    file = recording.file(moved, "A")
    file.parent.mkdir(parents=True)
    content = bytearray(recording.file(config, "A").read_bytes())
    content[-1000] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"A.safetensors is damaged: remove it"):
        recording.load(moved, "A")
    for length in (0, 5, 100_000):
        file.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"A.safetensors is damaged: remove it"):
            recording.load(moved, "A")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tiles": 12}, "bends must be at most tiles - 2.* got 17 bends in 12 tiles"),
        ({"bends": -1}, "bends must be an integer of at least 0"),
        ({"obstacles": -1}, "obstacles must be an integer of at least 0"),
    ],
)
def test_an_impossible_corridor_is_refused_before_any_flight(options, message):
    with pytest.raises(ValueError, match=message):
        recording.Recording(**options)


def test_the_video_can_be_read(recorded):
    config, rows = recorded
    file = recording.file(config, "A").with_suffix(".mp4")
    with av.open(str(file)) as video:
        images = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
    assert len(images) == rows[0]["frames"]
    assert images[0].shape == (384, 768, 3)
    camera = recording.load(config, "A").frames[0].float().mean()
    assert images[0][:, :384].mean() == pytest.approx(float(camera), abs=6)


def test_a_flight_continues_after_a_collision(monkeypatch):
    """An expert that only flies straight on hits the wall of every bend."""
    real = recording.CorridorEnv._observe

    def straight(self):
        image, info = real(self)
        return image, info | {"expert": 1}

    monkeypatch.setattr(recording.CorridorEnv, "_observe", straight)
    flight = recording.fly("B", replace(SHORT, tiles=4, bends=2, obstacles=0))
    assert flight.collisions == 2
    assert set(flight.actions.tolist()) == {1}


def test_the_command(recorded, capsys):
    config, _ = recorded
    options = ["--out", str(config.out), "--corridors", "A", "I", "--tiles", "4", "--bends", "1"]
    command = ["record", "corridors", *options, "--obstacles", "1", "--workers", "1"]
    assert cli.main(command) == 0
    assert "collisions" in capsys.readouterr().out
    assert cli.main(["record", "submarines"]) == 2
    with pytest.raises(SystemExit, match="2"):
        cli.main(["record", "corridors", "--corridors", "Z"])
    printed = capsys.readouterr()
    assert "corridors must be 'A' or 'B'" in printed.err + printed.out
