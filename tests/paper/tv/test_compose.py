"""Composed series: photographs of people in the order of a real cast."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from taskfree.paper.tv import compose
from taskfree.paper.tv.detect import Face
from taskfree.paper.tv.triplets import pairs

NAMES = ("amy", "leo", "raj", "sue")


@pytest.fixture(scope="module")
def people(photographs):
    return compose.people(photographs)


@pytest.fixture(scope="module")
def roles(order):
    return compose.read_order(order)


def test_a_composed_series_has_the_tracks_of_the_order_and_separate_photographs(people, roles):
    found = compose.compose(people, roles, seed=3, tracks_per_episode=0, length=4)
    learned = [one for at, one in enumerate(roles) if at % 10 != 9]
    assert [(track.episode, track.actor) for track in found.tracks] == learned
    assert found.episodes == [1, 2]
    groups = [
        {face for track in found.tracks for face in track.faces},
        {face for faces in found.held_out.values() for face in faces},
        {face for faces in found.templates.values() for face in faces},
    ]
    assert sum(map(len, groups)) == len(found.gallery) == len(set().union(*groups))
    assert all(len(faces) == 5 for faces in found.templates.values())
    for at, track in enumerate(found.tracks):
        for other in track.co_occurring:
            assert found.tracks[other].actor != track.actor
            assert at in found.tracks[other].co_occurring
    assert list(pairs(found.tracks))


def test_learning_testing_and_templates_use_different_photographs(tmp_path, roles, monkeypatch):
    """Each photograph has its own colour, and no light changes it."""
    for at in range(4 * 16):
        file = tmp_path / NAMES[at // 16] / f"{at:02d}.png"
        file.parent.mkdir(exist_ok=True)
        Image.new("RGB", (32, 32), (3 * at, 0, 0)).save(file)
    monkeypatch.setattr(compose, "_render", lambda image, look, generator: image)
    people = compose.people(tmp_path)
    found = compose.compose(people, roles, tracks_per_episode=0, length=8)
    colours = found.gallery[:, 0, 0, 0]
    learned, tested, templates = (
        set(colours[faces].tolist())
        for faces in (
            [face for track in found.tracks for face in track.faces],
            [face for faces in found.held_out.values() for face in faces],
            [face for faces in found.templates.values() for face in faces],
        )
    )
    assert min(map(len, (learned, tested, templates))) >= 8
    assert len(learned | tested | templates) == len(learned) + len(tested) + len(templates)


def test_more_tracks_share_a_frame_in_the_first_episode(people, roles):
    """As in The Big Bang Theory."""
    tracks = compose.compose(people, roles, seed=3, tracks_per_episode=0, length=4).tracks
    counts = [
        sum(bool(track.co_occurring) for track in tracks if track.episode == episode)
        for episode in (1, 2)
    ]
    assert counts[0] > counts[1]


def test_an_episode_prefers_a_pose_and_accessories():
    look = replace(compose.look(1, 0), pose=1, accessories=0.8)
    names = ("left_sad_sunglasses", "left_sad_open", "up_sad_sunglasses", "up_sad_open")
    weights = [compose._weight(Path(f"{name}.png"), look) for name in names]
    assert weights == pytest.approx([4.8, 1.2, 0.8, 0.2])
    unnamed = {round(compose._weight(Path(f"{at}.png"), look), 1) for at in range(20)}
    assert unnamed == {0.2, 1.2}, "a name without a pose gets one by its hash"


def test_the_looks_of_unused_episodes_are_not_used(people, roles, monkeypatch):
    used, look = set(), compose.look
    monkeypatch.setattr(compose, "look", lambda e, seed: used.add(e) or look(e, seed))
    compose.compose(people, roles, tracks_per_episode=2, length=4, episodes=1)
    assert used == {1}
    compose.compose(people, roles, tracks_per_episode=2, length=4)
    assert used == {1, 2}


@pytest.mark.parametrize(("count", "held_out"), [(0, 10), (9, 10), (1, 0)])
def test_an_order_that_is_too_short_is_refused(people, count, held_out):
    order = [(1, "amy"), (1, "leo")] * 5
    with pytest.raises(
        ValueError, match=rf"order must have at least \d+ tracks .*, it has {count}"
    ):
        compose.compose(people, order[:count], held_out=held_out)


def test_actors_are_the_most_frequent_names_with_templates_from_their_episodes(people):
    order = [(1, "amy"), (2, "amy"), (3, "amy"), (1, "leo"), (3, "leo"), (2, "walk-on")] * 10
    options = {"tracks_per_episode": 0, "held_out": 2, "length": 2}
    found = compose.compose(people, sorted(order), actors=2, **options)
    assert set(found.templates) == {track.actor for track in found.tracks} == {"amy", "leo"}
    templates = {name: [found.episode_of[f] for f in own] for name, own in found.templates.items()}
    assert templates == {"amy": [1, 2, 3, 1, 2], "leo": [1, 3, 1, 3, 1]}
    everybody = compose.compose(people, sorted(order), actors=0, **options)
    assert set(everybody.templates) == {"amy", "leo", "walk-on"}


def test_the_episode_of_every_face_is_known(people, roles):
    found = compose.compose(people, roles, tracks_per_episode=0, length=4)
    assert len(found.episode_of) == len(found.gallery)
    for track in found.tracks:
        assert {found.episode_of[face] for face in track.faces} == {track.episode}
    tested = {found.episode_of[face] for faces in found.held_out.values() for face in faces}
    assert tested == set(found.episodes)


@given(st.integers(0, 200), st.integers(0, 60), st.integers(1, 30))
def test_tracks_are_chosen_in_scenes_of_consecutive_ones(count, tracks, scene_length):
    found = compose._scenes(count, tracks, scene_length)
    assert found == sorted(set(found)), "in order, and none twice"
    assert all(0 <= at < count for at in found)
    assert len(found) == (min(count, tracks) if tracks else count)
    if len(found) < count:
        jumps = sum(b - a > 1 for a, b in pairwise(found))
        assert jumps <= -(-tracks // scene_length) - 1
        assert found[0] == 0
        assert tracks <= scene_length or found[-1] == count - 1, "from the first to the last"


def test_the_seed_determines_the_series(people, roles):
    first, again, other = (
        compose.compose(people, roles, seed=seed, tracks_per_episode=5, length=2)
        for seed in (1, 1, 2)
    )
    assert torch.equal(first.gallery, again.gallery)
    assert not torch.equal(first.gallery, other.gallery)
    assert sum(track.episode == 1 for track in first.tracks) == 5


def test_each_episode_has_its_own_light(people, roles):
    found = compose.compose(people, roles, seed=0, tracks_per_episode=0, length=4)
    means = [
        found.gallery[[face for t in found.tracks if t.episode == episode for face in t.faces]]
        .float()
        .mean()
        for episode in (1, 2)
    ]
    assert abs(means[0] - means[1]) > 5


def test_only_the_first_episode_is_used_if_asked_for(people, roles):
    options = {"seed": 0, "tracks_per_episode": 0, "length": 4}
    one = compose.compose(people, roles, episodes=1, **options)
    both = compose.compose(people, roles, **options)
    assert one.episodes == [1]
    assert both.episodes == [1, 2]
    count = len(one.tracks) * 4 + sum(map(len, one.held_out.values())) + 5 * len(one.templates)
    assert count == len(one.gallery) < 0.6 * len(both.gallery)
    names = [name for episode, name in roles if episode == 1]
    assert len(one.tracks) + sum(map(len, one.held_out.values())) // 2 == len(names)


def test_with_nothing_held_out_all_learned_faces_are_tested(people, roles):
    found = compose.compose(people, roles, seed=0, tracks_per_episode=0, length=4, held_out=0)
    assert len(found.tracks) == 60
    assert sum(map(len, found.held_out.values())) == 240


class Detector:
    """Finds two faces in every n-th photograph."""

    def __init__(self, every):
        self.every, self.count = every, 0

    def faces(self, image):
        assert image.shape == (384, 384, 3)
        self.count += 1
        faces = [Face(0, 0, 9, 9, 0.7), Face(100, 100, 200, 200, 0.9)]
        return [] if self.count % self.every else faces


def test_the_best_face_of_each_photograph_is_cropped(photographs, monkeypatch):
    cropped = []
    real = compose.crop
    monkeypatch.setattr(compose, "crop", lambda *args: cropped.append(args[1]) or real(*args))
    found = compose.people(photographs, Detector(every=1))
    assert {name: len(own) for name, own in found.items()} == dict.fromkeys(NAMES, 16)
    assert all(face.shape == (128, 128, 3) for own in found.values() for face in own.values())
    assert {face.score for face in cropped} == {0.9}


def test_people_with_too_few_faces_are_left_out(photographs):
    with pytest.raises(ValueError, match="two people with at least 12 faces each, it has 0"):
        compose.people(photographs, Detector(every=2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: compose.people(folder / "no"), "there is no"),
        (lambda folder: compose.people(folder), "at least two people"),
        (lambda folder: compose.read_order(folder / "wrong.csv"), "episode and name, has a, b"),
    ],
)
def test_invalid_photographs_and_orders_are_refused(tmp_path, make, message):
    (tmp_path / "wrong.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=message):
        make(tmp_path)


def test_an_invalid_line_of_an_order_is_named(tmp_path):
    (tmp_path / "order.csv").write_text("episode,name\n1,amy\nS01E02,leo\n")
    with pytest.raises(ValueError, match=r"order\.csv, line 3: .* got 'S01E02' and 'leo'"):
        compose.read_order(tmp_path / "order.csv")
