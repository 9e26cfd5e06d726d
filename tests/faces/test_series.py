import csv
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import nn

from taskfree.cli import main
from taskfree.faces import compose, series, tracks
from taskfree.faces.alexnet import AlexNet, prepared
from taskfree.faces.triplets import Faces, pairs, triplet_loss

NAMES = ("amy", "leo", "raj", "sue")


@pytest.fixture
def photographs(tmp_path):
    """Four people of sixteen photographs each: stripes whose number says who it is."""
    chance = np.random.default_rng(0)
    for at, name in enumerate(NAMES):
        (tmp_path / "faces" / name).mkdir(parents=True)
        for number in range(16):
            rows = np.arange(64)[:, None] + np.zeros(64)
            values = 120 + 100 * np.sin(rows * (at + 1) / 4) + chance.normal(0, 10, (64, 64))
            picture = Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))
            pose = ("straight", "left", "right", "up")[number % 4]
            eyes = "sunglasses" if number % 8 >= 4 else "open"
            picture.save(tmp_path / "faces" / name / f"{pose}_{number}_{eyes}.png")
    return tmp_path / "faces"


@pytest.fixture
def order(tmp_path):
    """Two episodes of thirty tracks."""
    chance = np.random.default_rng(1)
    with open(tmp_path / "order.csv", "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["episode", "track", "name"])
        for episode in (1, 2):
            for track in range(30):
                writer.writerow([episode, track, f"role{chance.choice(4, p=[0.4, 0.3, 0.2, 0.1])}"])
    return tmp_path / "order.csv"


def composed(photographs, order, **options):
    people = compose.people(photographs)
    return compose.compose(people, compose.read_order(order), **options)


def test_a_composed_series_has_the_order_s_tracks_and_keeps_photographs_apart(photographs, order):
    found = composed(photographs, order, seed=3, tracks=0, length=4)
    told = compose.read_order(order)
    shown = [one for at, one in enumerate(told) if at % 10 != 9]
    assert [(track.episode, track.actor) for track in found.tracks] == shown
    assert found.episodes == [1, 2]
    groups = [
        {face for track in found.tracks for face in track.faces},
        {face for faces in found.held_out.values() for face in faces},
        {face for faces in found.templates.values() for face in faces},
    ]
    assert sum(map(len, groups)) == len(found.gallery) == len(set().union(*groups))
    assert all(len(faces) == 5 for faces in found.templates.values())
    for at, track in enumerate(found.tracks):
        for other in track.together:
            assert found.tracks[other].actor != track.actor
            assert at in found.tracks[other].together
    assert list(pairs(found.tracks))


def test_no_photograph_is_learned_and_tested_or_compared_with(tmp_path, order, monkeypatch):
    """Each photograph has a colour of its own, and no light changes it."""
    for at in range(4 * 16):
        place = tmp_path / "faces" / NAMES[at // 16] / f"{at:02d}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 32), (3 * at, 0, 0)).save(place)
    monkeypatch.setattr(compose, "_lit", lambda picture, how, chance: picture)
    found = composed(tmp_path / "faces", order, tracks=0, length=8)
    colours = found.gallery[:, 0, 0, 0]
    learned, tested, compared = (
        set(colours[faces].tolist())
        for faces in (
            [face for track in found.tracks for face in track.faces],
            [face for faces in found.held_out.values() for face in faces],
            [face for faces in found.templates.values() for face in faces],
        )
    )
    assert min(map(len, (learned, tested, compared))) >= 8
    assert len(learned | tested | compared) == len(learned) + len(tested) + len(compared)


def test_some_tracks_of_two_people_share_a_frame(photographs, order):
    tracks = composed(photographs, order, seed=3, tracks=0, length=4).tracks
    together = [any(track.together for track in tracks if track.episode == e) for e in (1, 2)]
    assert together[0], "as in the first episode of The Big Bang Theory"
    counts = [sum(bool(track.together) for track in tracks if track.episode == e) for e in (1, 2)]
    assert counts[0] > counts[1]


def test_an_episode_prefers_a_pose_and_wears_what_it_wears():
    how = replace(compose.look(1, 0), pose=1, accessories=0.8)
    wanted = {name: compose._wanted(Path(f"{name}.png"), how) for name in
              ("left_sad_sunglasses", "left_sad_open", "up_sad_sunglasses", "up_sad_open")}  # fmt: skip
    assert wanted == pytest.approx(
        {
            "left_sad_sunglasses": 4.8,
            "left_sad_open": 1.2,
            "up_sad_sunglasses": 0.8,
            "up_sad_open": 0.2,
        }
    )
    unnamed = {round(compose._wanted(Path(f"{at}.png"), how), 1) for at in range(20)}
    assert unnamed == {0.2, 1.2}, "where names say no pose, each photograph has one by chance"


def test_the_first_episode_alone_has_the_light_of_no_other(photographs, order, monkeypatch):
    asked, look = set(), compose.look
    monkeypatch.setattr(compose, "look", lambda e, seed: asked.add(e) or look(e, seed))
    composed(photographs, order, tracks=0, length=4, episodes=1)
    assert asked == {1}
    composed(photographs, order, tracks=0, length=4)
    assert asked == {1, 2}


@pytest.mark.parametrize(("count", "held_out"), [(0, 10), (9, 10), (1, 0)])
def test_an_order_that_is_too_short_is_said(photographs, count, held_out):
    told = [(1, "amy"), (1, "leo")] * 5
    with pytest.raises(
        ValueError, match=rf"order must have at least \d+ tracks .*, it has {count}"
    ):
        compose.compose(compose.people(photographs), told[:count], held_out=held_out)


def test_actors_are_the_most_frequent_names_and_known_by_faces_of_their_episodes(photographs):
    told = [(1, "amy"), (2, "amy"), (3, "amy"), (1, "leo"), (3, "leo"), (2, "walk-on")] * 10
    people = compose.people(photographs)
    found = compose.compose(people, sorted(told), tracks=0, held_out=2, actors=2)
    assert set(found.templates) == {track.actor for track in found.tracks} == {"amy", "leo"}
    templates = {name: [found.episode_of[f] for f in own] for name, own in found.templates.items()}
    assert templates == {"amy": [1, 2, 3, 1, 2], "leo": [1, 3, 1, 3, 1]}
    everybody = compose.compose(people, sorted(told), tracks=0, held_out=2, actors=0)
    assert set(everybody.templates) == {"amy", "leo", "walk-on"}


def test_every_face_is_known_by_its_episode(photographs, order, tmp_path):
    found = composed(photographs, order, tracks=0, length=4)
    own = series.from_folder(folder_of_tracks(tmp_path / "own"), held_out=5, size=8)
    for one in (found, own):
        assert len(one.episode_of) == len(one.gallery)
        for track in one.tracks:
            assert {one.episode_of[face] for face in track.faces} == {track.episode}
        asked = {one.episode_of[face] for faces in one.held_out.values() for face in faces}
        assert asked == set(one.episodes)


@given(st.integers(0, 200), st.integers(0, 60), st.integers(1, 30))
def test_tracks_come_in_stretches_of_the_order(count, tracks, stretch):
    found = compose._chosen(count, tracks, stretch)
    assert found == sorted(set(found)), "in order, and none twice"
    assert all(0 <= at < count for at in found)
    assert len(found) == (min(count, tracks) if tracks else count)
    if len(found) < count:
        leaps = sum(b - a > 1 for a, b in pairwise(found))
        assert leaps <= -(-tracks // stretch) - 1
        assert found[0] == 0
        assert tracks <= stretch or found[-1] == count - 1, "from the first to the last"


def test_it_is_the_same_for_the_same_seed_and_another_for_another(photographs, order):
    first, again, other = (
        composed(photographs, order, seed=seed, tracks=5, length=2) for seed in (1, 1, 2)
    )
    assert torch.equal(first.gallery, again.gallery)
    assert not torch.equal(first.gallery, other.gallery)
    assert sum(track.episode == 1 for track in first.tracks) == 5


def test_an_episode_has_its_own_light(photographs, order):
    found = composed(photographs, order, seed=0, tracks=0, length=4)
    means = [
        found.gallery[[face for t in found.tracks if t.episode == episode for face in t.faces]]
        .float()
        .mean()
        for episode in (1, 2)
    ]
    assert abs(means[0] - means[1]) > 5


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: compose.people(folder / "no"), "there is no"),
        (lambda folder: compose.people(folder), "at least two people"),
        (lambda folder: compose.read_order(folder / "wrong.csv"), "episode and name, has a, b"),
    ],
)
def test_what_is_wrong_with_photographs_and_order_is_said(tmp_path, make, said):
    (tmp_path / "wrong.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=said):
        make(tmp_path)


def folder_of_tracks(folder, names=("amy", "leo"), tracks=24):
    """As `taskfree tracks` and `taskfree label` leave it."""
    chance = np.random.default_rng(0)
    labels, table = [], []
    for video in ("01-first", "02-second"):
        for track in range(tracks // 2):
            place = folder / video / "crops" / f"{track:05d}"
            place.mkdir(parents=True)
            for frame in range(3):
                values = chance.integers(0, 255, (40, 40, 3), dtype=np.uint8)
                Image.fromarray(values).save(place / f"{frame:06d}.jpg")
            labels.append([f"{video}/{track:05d}", names[track % 2]])
            table.append([video, track, 0, 2, 0.0, 3, str(track + 1) if track == 0 else ""])
    for name, heading, rows in (
        ("labels.csv", ["track", "name"], labels),
        ("tracks.csv", ["video", "track", "first", "last", "seconds", "faces",
                        "shares a frame with"], table),
    ):  # fmt: skip
        with open(folder / name, "w", newline="") as out:
            csv.writer(out).writerows([heading, *rows])
    return folder


def test_tracks_of_one_s_own_become_a_series(tmp_path):
    found = series.from_folder(folder_of_tracks(tmp_path), held_out=5, size=32)
    assert len(found.tracks) == 20
    assert sum(map(len, found.held_out.values())) == 4 * 3
    assert found.gallery.shape == (72, 32, 32, 3)
    assert found.tracks[0].together == frozenset([1])
    learned = {face for track in found.tracks for face in track.faces}
    assert not learned & {face for faces in found.held_out.values() for face in faces}
    seen = series.from_folder(
        tmp_path, held_out=5, size=32, see=lambda one: one.float().mean((0, 1))
    )
    assert torch.equal(seen.gallery, found.gallery.float().mean((1, 2)))


def test_tracks_without_names_say_what_to_do(tmp_path):
    folder_of_tracks(tmp_path)
    (tmp_path / "labels.csv").unlink()
    with pytest.raises(ValueError, match="taskfree label"):
        series.from_folder(tmp_path)


def test_features_of_frozen_convolutions_give_exactly_what_the_whole_network_would():
    torch.manual_seed(0)
    gallery = torch.randint(0, 255, (6, 32, 32, 3), dtype=torch.uint8)
    whole = AlexNet(10, dropout=0.0)
    whole.features.requires_grad_(False)
    kept = torch.stack([series.features(whole.convolutions, one) for one in gallery])

    class Alone(nn.Module):
        """The convolutions see a picture at a time, as they do for the features."""

        def forward(self, pictures):
            rows = [whole.convolutions(picture[None]) for picture in pictures]
            return whole.classifier(torch.cat(rows))

    numbers = torch.tensor([[0, 1, 2], [3, 4, 0]])
    ways = (Faces(whole.classifier, kept), Faces(Alone(), gallery, prepared))
    gradients = []
    for faces in ways:
        whole.zero_grad()
        triplet_loss(faces(numbers), numbers).sum().backward()
        gradients.append([p.grad.clone() for p in whole.classifier.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_the_experiment_runs_end_to_end_and_goes_on_where_it_was(photographs, order, tmp_path):
    weights = tmp_path / "alexnet.safetensors"
    from safetensors.torch import save_file

    save_file({f"features.{k}": v for k, v in AlexNet(1).features.state_dict().items()}, weights)
    out = tmp_path / "out"
    words = ["reproduce", "soap", "--faces", photographs, "--order", order, "--weights", weights,
             "--no-crop", "--tracks", 3, "--seeds", 1, "--epochs", 1, "--repeats", 1, "--repeats-alone", 1,
             "--buffer", 4, "--workers", 1, "--out", out]  # fmt: skip
    assert main([str(word) for word in words]) == 0
    results = json.loads((out / "results.json").read_text())
    rows = {row["setting"]: row for row in results["summary"]}
    assert len(rows) == 10
    assert len(rows["online"]["after each part"]) == 3
    assert len(rows["initial"]["after each part"]) == 1
    first = rows["initial"]["accuracy"]
    assert rows["online"]["after each part"][0] == first, "all begin with the same weights"
    assert {file.name for file in out.glob("*.png")} == {
        "accuracy.png", "ablation.png", "alone.png", "episodes.png", "actors.png",
    }  # fmt: skip
    assert Path(out / "report.html").stat().st_size > 10_000
    made = {file: file.stat().st_mtime_ns for file in (out / "runs").glob("*.json")}
    next(iter(made)).unlink()
    assert main([str(word) for word in words]) == 0
    again = {file: file.stat().st_mtime_ns for file in (out / "runs").glob("*.json")}
    assert sum(again[file] == made[file] for file in made) == 9, "only what was missing is run"
    repeated = json.loads((out / "results.json").read_text())["summary"]
    for row, before in zip(repeated, results["summary"], strict=True):
        assert row | {"seconds": 0} == before | {"seconds": 0}, "the same, however long it took"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "say which series"),
        (["--faces", "a", "--clip"], "only one"),
        (["--faces", "a"], "--order must be a CSV"),
    ],
)
def test_which_series_must_be_said_before_anything_is_done(words, said, capsys, tmp_path):
    assert main(["reproduce", "soap", *words, "--out", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_frames_with_faces_tracks_and_labels_become_a_series(tmp_path):
    """The layout of the dataset that the paper uses."""
    episode = tmp_path / "bbt01"
    (episode / "frames").mkdir(parents=True)
    values = np.zeros((60, 90, 3), np.uint8)
    values[:, :45], values[:, 45:] = (250, 0, 0), (0, 0, 250)  # one person red, the other blue
    lines = ["frame,left,top,right,bottom,track"]
    for frame in range(1, 41):
        Image.fromarray(values).save(episode / "frames" / f"frame{frame:04d}.jpg")
        for track, left in ((2 * (frame // 21), 10), (2 * (frame // 21) + 1, 60)):
            lines.append(f"{frame},{left},20,{left + 20},40,{track}")
    (episode / "faces.csv").write_text("\n".join(lines) + "\n")
    names = ["red", "blue", "red", "blue"]
    labels = [f"bbt01/{track:05d},{name}" for track, name in enumerate(names)]
    (tmp_path / "labels.csv").write_text("\n".join(["track,name", *labels]) + "\n")
    found = series.from_folder(tmp_path, held_out=0, size=16)
    assert [track.actor for track in found.tracks] == names
    learned = {face for track in found.tracks for face in track.faces}
    compared = {face for faces in found.templates.values() for face in faces}
    assert len(found.gallery) == 16, "one every five frames"
    assert learned | compared == set(range(16))
    assert not learned & compared
    for track in found.tracks:
        colour = found.gallery[list(track.faces)].float().mean((0, 1, 2))
        assert colour.argmax() == (0 if track.actor == "red" else 2)
    assert found.tracks[0].together == frozenset([1])


def test_a_frame_that_is_missing_or_unreadable_is_named_every_time(tmp_path):
    frames = tmp_path / "e1" / "frames"
    frames.mkdir(parents=True)
    rows = ["frame,left,top,right,bottom,track", "3,0,0,9,9,0", "7,0,0,9,9,1"]
    (tmp_path / "e1" / "faces.csv").write_text("\n".join(rows))
    (tmp_path / "labels.csv").write_text("track,name\ne1/00000,amy\n")
    (frames / ".DS_Store").write_text("not a frame")
    Image.new("RGB", (20, 20)).save(frames / "bbt_s01e01_000003.jpg")
    for _ in range(2):
        with pytest.raises(ValueError, match="no frame 7"):
            series.from_folder(tmp_path)
    (frames / "bbt_s01e01_000007.jpg").write_text("not a picture")
    with pytest.raises(ValueError, match=r"000007\.jpg cannot be read as a picture"):
        series.from_folder(tmp_path)
    Image.new("RGB", (20, 20)).save(frames / "bbt_s01e01_000007.jpg")
    with pytest.raises(ValueError, match=r"1 tracks have a name, too few.*--held-out 0"):
        series.from_folder(tmp_path)
    assert len(list((tmp_path / "e1" / "crops").iterdir())) == 2


def test_frames_without_labels_can_be_labelled_next(tmp_path):
    frames = tmp_path / "e1" / "frames"
    frames.mkdir(parents=True)
    Image.new("RGB", (20, 20)).save(frames / "1.jpg")
    (tmp_path / "e1" / "faces.csv").write_text("frame,left,top,right,bottom,track\n1,0,0,9,9,0")
    with pytest.raises(ValueError, match="taskfree label"):
        series.from_folder(tmp_path)
    assert [track.name for track in tracks.read(tmp_path)] == ["e1/00000"]


def test_labels_of_a_spreadsheet_are_read_and_others_named(tmp_path):
    folder = folder_of_tracks(tmp_path)
    text = (tmp_path / "labels.csv").read_text().replace("amy", " amy ")
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8-sig")
    assert set(series.from_folder(folder, held_out=5, size=8).templates) == {"amy", "leo"}
    (tmp_path / "labels.csv").write_text(text.replace(",", ";"))
    with pytest.raises(ValueError, match=r"labels\.csv must have the columns track and name"):
        series.from_folder(folder)


def test_a_track_whose_pictures_somebody_removed_is_left_out(tmp_path):
    folder = folder_of_tracks(tmp_path)
    for file in (folder / "01-first" / "crops" / "00000").iterdir():
        file.unlink()
    assert len(series.from_folder(folder, held_out=5, size=8).gallery) == 69


def test_templates_are_of_different_episodes_and_tracks_and_never_learned(tmp_path):
    long = [series.Seen(1, "amy", (2 * at, 2 * at + 1)) for at in range(50)]
    short = [series.Seen(at, "amy", (100 * at,)) for at in (2, 3, 4, 5)]
    assert series.choose_templates(long + short) == {"amy": [0, 200, 300, 400, 500]}
    many = [series.Seen(at, "leo", (at,)) for at in range(1, 10)]
    assert series.choose_templates(many) == {"leo": [1, 3, 5, 7, 9]}
    found = series.from_folder(folder_of_tracks(tmp_path), held_out=0, size=8)
    compared = {face for faces in found.templates.values() for face in faces}
    assert len(compared) == 10
    assert not compared & {face for track in found.tracks for face in track.faces}
    assert not compared & {face for faces in found.held_out.values() for face in faces}


def test_only_the_first_episode_is_seen_if_that_is_asked_for(photographs, order, tmp_path):
    one = composed(photographs, order, seed=0, tracks=0, length=4, episodes=1)
    both = composed(photographs, order, seed=0, tracks=0, length=4)
    assert one.episodes == [1]
    assert both.episodes == [1, 2]
    count = len(one.tracks) * 4 + sum(map(len, one.held_out.values())) + 5 * len(one.templates)
    assert count == len(one.gallery) < 0.6 * len(both.gallery)
    told = [name for episode, name in compose.read_order(order) if episode == 1]
    assert len(one.tracks) + sum(map(len, one.held_out.values())) // 2 == len(told)
    own = series.from_folder(folder_of_tracks(tmp_path / "own"), held_out=5, size=8, episodes=1)
    assert len(own.gallery) == 36


def test_with_nothing_held_out_the_test_is_what_is_learned(photographs, order):
    found = composed(photographs, order, seed=0, tracks=0, length=4, held_out=0)
    assert len(found.tracks) == 60
    assert sum(map(len, found.held_out.values())) == 240


def test_an_order_that_is_wrong_is_said_by_line(tmp_path):
    (tmp_path / "order.csv").write_text("episode,name\n1,amy\nS01E02,leo\n")
    with pytest.raises(ValueError, match=r"order\.csv, line 3: .* got 'S01E02' and 'leo'"):
        compose.read_order(tmp_path / "order.csv")


def test_a_series_is_kept_whole(photographs, order, tmp_path):
    found = composed(photographs, order, seed=0, tracks=4, length=2)
    found.save(tmp_path / "series.safetensors")
    again = series.Series.load(tmp_path / "series.safetensors")
    assert torch.equal(again.gallery, found.gallery)
    assert again.tracks == found.tracks
    assert again.templates == found.templates
    assert again.held_out == found.held_out
    assert again.episode_of == found.episode_of
