"""The clip, with the real detector and tracker: the hand-made labels fit the tracks."""

import json

import pytest
from footage import fetched

from taskfree.paper.tv import clip, series, tables


def test_the_clip_becomes_a_series_of_its_three_actors(tmp_path):
    fetched("yunet")
    fetched("bbt")
    folder = clip.tracks(tmp_path / "clip")
    cuts = json.loads((folder / "01-bbt" / "done.json").read_text())["cuts"]
    assert set(cuts) >= {259, 317, 377, 459, 603, 654}, "by eye"
    assert not any(t.first < cut <= t.last for t in tables.read(folder) for cut in cuts)
    found = series.from_folder(folder, held_out=0, size=8)
    assert set(found.templates) == set(found.held_out) == set(clip.ACTORS)
    actors = [track.actor for track in found.tracks if track.actor]
    assert {name: actors.count(name) for name in clip.ACTORS} == {
        name: len(numbers) for name, numbers in clip.ACTORS.items()
    }
    before = (folder / "labels.csv").read_text()
    assert clip.tracks(folder) == folder
    assert (folder / "labels.csv").read_text() == before


def test_another_number_of_tracks_is_not_labelled(tmp_path, monkeypatch):
    def track(command):
        command.out.mkdir()
        (command.out / "tracks.csv").write_text(
            "video,track,first,last,seconds,faces,shares a frame with\n01-bbt,0,0,9,0.0,9,\n"
        )

    monkeypatch.setattr(clip.tracking, "run", track)
    monkeypatch.setattr(clip.data, "fetch", lambda name: tmp_path / f"{name}.mp4")
    with pytest.raises(ValueError, match="the clip has 1 tracks on this machine but had 21 when"):
        clip.tracks(tmp_path / "clip")
    assert not (tmp_path / "clip" / "labels.csv").exists()
