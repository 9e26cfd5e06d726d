import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from taskfree.faces.templates import Templates
from taskfree.faces.triplets import (
    FaceMAS,
    Faces,
    Pair,
    Seen,
    merged,
    pairs,
    pairs_together,
    triplet_loss,
    triplets,
)
from taskfree.importance import estimate
from taskfree.learner import Learner
from taskfree.when import Plateau
from taskfree.which import Hardest


@given(st.integers(0, 40), st.integers(0, 40), st.integers(4, 50), st.integers(0, 1000))
def test_triplets_are_two_of_one_track_and_one_of_the_other(first, second, most, seed):
    pair = Pair(1, tuple(range(first)), tuple(range(100, 100 + second)))
    generator = torch.Generator().manual_seed(seed)
    found = triplets(pair, most, generator)
    assert len(found) <= most
    for anchor, positive, negative in found.tolist():
        assert anchor != positive
        assert (anchor < 100) == (positive < 100)
        assert (anchor < 100) != (negative < 100)
    if first > 1 and second > 1 and first + second <= most:
        assert sorted(found[:, 0].tolist()) == [*range(first), *range(100, 100 + second)]
    again = triplets(pair, most, torch.Generator().manual_seed(seed))
    assert torch.equal(found, again)


def test_a_time_step_is_two_consecutive_tracks_of_two_people_in_one_episode():
    tracks = [
        Seen(1, "amy", (0,)), Seen(1, "leo", (1,)), Seen(1, "leo", (2,)), Seen(1, "", (3,)),
        Seen(1, "raj", (4,)), Seen(2, "amy", (5,)), Seen(2, "leo", (6,)),
    ]  # fmt: skip
    assert list(pairs(tracks)) == [Pair(1, (0,), (1,)), Pair(2, (5,), (6,))]


def test_without_an_annotator_who_shares_a_frame_is_somebody_else():
    tracks = [
        Seen(1, "amy", (0,), frozenset([1, 2])), Seen(1, "leo", (1,), frozenset([0])),
        Seen(1, "raj", (2,), frozenset([0])), Seen(1, "raj", (3,)),
    ]  # fmt: skip
    assert list(pairs_together(tracks)) == [Pair(1, (0,), (1,)), Pair(1, (0,), (2,))]


def test_what_is_usual_is_that_of_an_episode_whatever_comes_later():
    """Two people ten apart; what a later episode looks like does not bring them together."""
    features = torch.tensor([[0.0], [10.0], [1.0], [1000.0], [3000.0]])
    tracks = [Seen(1 + at // 3, "", (at,)) for at in range(5)]
    assert [track.faces for track in merged(tracks, features, 0.4)] == [(0, 2), (1,), (3,), (4,)]
    assert [track.faces for track in merged(tracks[:3], features, 0.4)] == [(0, 2), (1,)]
    assert merged([], features, 0.4) == []
    assert merged(tracks[:1], features, 0.4) == tracks[:1]


def test_adjacent_tracks_that_look_alike_are_joined_but_not_those_that_share_a_frame():
    features = torch.zeros(8, 3)
    features[4:6] = 10.0  # another person
    tracks = [
        Seen(1, "", (0, 1), frozenset([1])), Seen(1, "", (2, 3), frozenset([0])),
        Seen(1, "", (4, 5)), Seen(1, "", (6, 7)), Seen(2, "", (0, 1)),
    ]  # fmt: skip
    found = merged(tracks, features, nearest=0.5)
    assert [track.faces for track in found] == [(0, 1), (2, 3, 6, 7), (4, 5), (0, 1)] or [
        track.faces for track in found
    ] == [(0, 1, 6, 7), (2, 3), (4, 5), (0, 1)]
    assert found[0].together == frozenset([1])
    assert found[1].together == frozenset([0])
    assert [track.episode for track in found] == [1, 1, 1, 2]


def test_a_new_track_is_compared_with_those_who_were_seen_last():
    who = [0, 1, 0, 2, 3, 4, 0, 5, 1]
    features = torch.eye(6)[torch.tensor(who)] * 10
    tracks = [Seen(1, "", (at,)) for at in range(len(who))]
    found = [track.faces for track in merged(tracks, features, nearest=0.5)]
    assert (0, 2, 6) in found, "again and again, with three others between"
    assert (1,) in found, "four others were seen since"
    assert (8,) in found


def test_a_few_tracks_are_joined_by_the_same_measure_as_many():
    features = torch.tensor([[0.0], [1.0], [10.0]])
    tracks = [Seen(1, "", (at,)) for at in range(3)]
    assert [track.faces for track in merged(tracks, features, nearest=0.2)] == [(0, 1), (2,)]
    assert merged(tracks[:1], features, nearest=0.5) == tracks[:1]
    assert merged([], features, nearest=0.5) == []


def test_a_face_in_many_triplets_goes_through_the_network_once_with_the_same_result():
    seen = []

    class Network(nn.Linear):
        def forward(self, rows):
            seen.append(len(rows))
            return super().forward(rows)

    faces = Faces(Network(4, 2), torch.randn(10, 4))
    numbers = torch.tensor([[0, 1, 2], [0, 1, 3], [1, 0, 2]])
    found = faces(numbers)
    assert seen == [4]
    assert torch.equal(found, faces.network(faces.gallery[numbers]))


def test_the_gradient_of_a_face_in_many_triplets_is_that_of_all_its_places():
    torch.manual_seed(1)
    faces = Faces(nn.Linear(4, 2).double(), torch.randn(10, 4).double())
    numbers = torch.tensor([[0, 1, 2], [0, 1, 3], [1, 0, 2]])
    weight = faces.network.weight
    once = torch.autograd.grad(triplet_loss(faces(numbers), numbers).sum(), weight)[0]
    each = faces.network(faces.gallery[numbers])
    assert torch.allclose(
        once, torch.autograd.grad(triplet_loss(each, numbers).sum(), weight)[0], atol=1e-12
    )


def test_the_importance_of_a_triplet_is_that_of_three_inputs():
    faces = Faces(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)), torch.randn(10, 4))
    how = FaceMAS(1.0)
    how.consolidate(faces, torch.tensor([[0, 1, 2], [3, 4, 0]]))
    alone = [estimate(faces, torch.tensor([face])) for face in (0, 1, 2, 3, 4, 0)]
    for name, value in how.importance.items():
        assert torch.allclose(value, sum(one[name] for one in alone) / 6, rtol=1e-5)


def test_the_loss_is_the_paper_s():
    outputs = torch.tensor([[[0.0, 0.0], [3.0, 4.0], [0.0, 2.0]]])
    assert math.isclose(float(triplet_loss(outputs, outputs)), 5 - 2 + 1, rel_tol=1e-4)


def test_two_people_are_learned_by_watching_them():
    """Faces of six people, whose features are far apart only along a few of many directions."""
    torch.manual_seed(0)
    people, each = 6, 20
    centres = torch.randn(people, 5) * 1.5
    gallery = torch.randn(people * each, 40) * 2
    gallery[:, :5] = centres.repeat_interleave(each, 0) + 0.3 * torch.randn(people * each, 5)
    own = torch.arange(people * each).view(people, each)
    faces = Faces(nn.Sequential(nn.Linear(40, 60), nn.ReLU(), nn.Linear(60, 10)), gallery)
    learner = Learner(
        faces, torch.optim.SGD(faces.parameters(), lr=0.02), loss=triplet_loss,
        when=Plateau(window=5, mean=0.3, variance=0.1), which=Hardest(50), how=FaceMAS(1.0),
        repeats=3,
    )  # fmt: skip
    known = Templates({str(person): own[person, :5].tolist() for person in range(people)})
    asked = [str(person) for person in range(people) for _ in range(5)]

    def accuracy():
        named = known.who(learner.predict, own[:, 15:].flatten())
        return sum(name == actor for name, actor in zip(named, asked, strict=True)) / len(asked)

    before = accuracy()
    chance = torch.Generator().manual_seed(0)
    for _ in range(150):
        first, second = torch.randperm(people, generator=chance)[:2].tolist()
        pair = Pair(1, tuple(own[first, 5:15].tolist()), tuple(own[second, 5:15].tolist()))
        found = triplets(pair, generator=chance)
        learner.learn(found, torch.zeros(len(found)))
    assert accuracy() > before + 0.2
    assert learner.which.inputs.shape == (50, 3)


def test_templates_name_what_is_wrong():
    with pytest.raises(ValueError, match="at least one face of each person"):
        Templates({"amy": []})
