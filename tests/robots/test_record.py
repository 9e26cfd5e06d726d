"""Recorded flights: made once, the same each time, and a damaged one is noticed."""

from dataclasses import replace

import pytest
import torch

from taskfree import cli
from taskfree.robots import record

SHORT = record.Config(corridors=("A", "I"), tiles=5, bends=1, things=1, workers=2)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    config = replace(SHORT, out=tmp_path_factory.mktemp("flights"), video=True)
    return config, record.run(config)


def test_flights_hold_what_was_seen_and_done(recorded):
    config, rows = recorded
    assert [row["corridor"] for row in rows] == ["A", "I"]
    for row in rows:
        flight = record.load(config, row["corridor"])
        count = len(flight.frames)
        assert row["frames"] == count > 100
        assert flight.frames.shape == (count, 128, 128, 3)
        assert flight.frames.dtype == torch.uint8
        assert flight.scans.shape == (count, 360)
        assert set(flight.actions.tolist()) <= {0, 1, 2}
        assert flight.collisions == row["collisions"]
        assert sum(row["left, straight, right"]) == pytest.approx(1, abs=0.01)


def test_a_flight_is_made_again_bit_for_bit_and_not_twice(recorded, tmp_path):
    config, rows = recorded
    again = record.record("A", replace(config, out=tmp_path))
    assert again["sha256"] == rows[0]["sha256"]
    file = record.place(config, "A")
    written = file.stat().st_mtime_ns
    assert record.record("A", config)["sha256"] == rows[0]["sha256"]
    assert file.stat().st_mtime_ns == written
    assert record.place(replace(config, seed=1), "A") != file


def test_a_damaged_flight_is_noticed(recorded, tmp_path):
    config, _ = recorded
    moved = replace(config, out=tmp_path)
    file = record.place(moved, "A")
    file.parent.mkdir(parents=True)
    content = bytearray(record.place(config, "A").read_bytes())
    content[-1000] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"A.safetensors is damaged: remove it"):
        record.load(moved, "A")
    for left in (0, 5, 100_000):
        file.write_bytes(content[:left])
        with pytest.raises(ValueError, match=r"A.safetensors is damaged: remove it"):
            record.load(moved, "A")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tiles": 12}, "bends must be at most tiles - 2.* got 17 bends in 12 tiles"),
        ({"bends": -1}, "bends must be a whole number of at least 0"),
        ({"things": -1}, "things must be a whole number of at least 0"),
    ],
)
def test_a_corridor_that_cannot_be_is_refused_before_anybody_flies(options, said):
    with pytest.raises(ValueError, match=said):
        record.Config(**options)


def test_the_video_can_be_watched(recorded):
    import av

    config, rows = recorded
    file = record.place(config, "A").with_suffix(".mp4")
    with av.open(str(file)) as film:
        pictures = [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]
    assert len(pictures) == rows[0]["frames"]
    assert pictures[0].shape == (384, 768, 3)
    camera = record.load(config, "A").frames[0].float().mean()
    assert pictures[0][:, :384].mean() == pytest.approx(float(camera), abs=6)


def test_after_a_collision_it_goes_on(monkeypatch):
    """An expert that only flies straight on hits the wall of every bend, and is carried on."""
    real = record.CorridorEnv._look

    def straight(self):
        picture, info = real(self)
        return picture, info | {"expert": 1}

    monkeypatch.setattr(record.CorridorEnv, "_look", straight)
    flight = record.fly("B", replace(SHORT, tiles=6, bends=2, things=0))
    assert flight.collisions == 2
    assert set(flight.actions.tolist()) == {1}


def test_the_command(recorded, capsys):
    config, _ = recorded
    words = ["--out", str(config.out), "--corridors", "A", "I", "--tiles", "5", "--bends", "1"]
    assert cli.main(["record", "corridors", *words, "--things", "1"]) == 0
    assert "collisions" in capsys.readouterr().out
    assert cli.main(["record", "submarines"]) == 2
    with pytest.raises(SystemExit, match="2"):
        cli.main(["record", "corridors", "--corridors", "Z"])
    told = capsys.readouterr()
    assert "corridors must be 'A' or 'B'" in told.err + told.out
