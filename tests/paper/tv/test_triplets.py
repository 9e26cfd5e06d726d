import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from taskfree.how.importance import estimate
from taskfree.learner import Learner
from taskfree.paper.tv.templates import Templates
from taskfree.paper.tv.triplets import (
    FaceMAS,
    Faces,
    Pair,
    TVTrack,
    co_occurring_pairs,
    merge_tracks,
    pairs,
    triplet_loss,
    triplets,
)
from taskfree.when import Plateau
from taskfree.which import Hardest


@given(st.integers(0, 40), st.integers(0, 40), st.integers(4, 50), st.integers(0, 1000))
def test_a_triplet_has_two_faces_of_one_track_and_one_of_the_other(first, second, most, seed):
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


def test_a_time_step_is_a_pair_of_consecutive_tracks_of_two_people_in_one_episode():
    tracks = [
        TVTrack(1, "amy", (0,)), TVTrack(1, "leo", (1,)), TVTrack(1, "leo", (2,)), TVTrack(1, "", (3,)),
        TVTrack(1, "raj", (4,)), TVTrack(2, "amy", (5,)), TVTrack(2, "leo", (6,)),
    ]  # fmt: skip
    assert list(pairs(tracks)) == [Pair(1, (0,), (1,)), Pair(2, (5,), (6,))]


def test_without_an_annotator_tracks_that_share_a_frame_are_different_people():
    tracks = [
        TVTrack(1, "amy", (0,), frozenset([1, 2])), TVTrack(1, "leo", (1,), frozenset([0])),
        TVTrack(1, "raj", (2,), frozenset([0])), TVTrack(1, "raj", (3,)),
    ]  # fmt: skip
    assert list(co_occurring_pairs(tracks)) == [Pair(1, (0,), (1,)), Pair(1, (0,), (2,))]


def test_the_mean_distance_of_an_episode_does_not_depend_on_later_ones():
    """Two people ten apart stay apart, whatever a later episode looks like."""
    features = torch.tensor([[0.0], [10.0], [1.0], [1000.0], [3000.0]])
    tracks = [TVTrack(1 + at // 3, "", (at,)) for at in range(5)]
    assert [track.faces for track in merge_tracks(tracks, features, 0.4)] == [
        (0, 2),
        (1,),
        (3,),
        (4,),
    ]
    assert [track.faces for track in merge_tracks(tracks[:3], features, 0.4)] == [(0, 2), (1,)]
    assert merge_tracks([], features, 0.4) == []
    assert merge_tracks(tracks[:1], features, 0.4) == tracks[:1]


def test_similar_tracks_are_merged_unless_they_share_a_frame():
    features = torch.zeros(8, 3)
    features[4:6] = 10.0  # another person
    tracks = [
        TVTrack(1, "", (0, 1), frozenset([1])), TVTrack(1, "", (2, 3), frozenset([0])),
        TVTrack(1, "", (4, 5)), TVTrack(1, "", (6, 7)), TVTrack(2, "", (0, 1)),
    ]  # fmt: skip
    found = merge_tracks(tracks, features, threshold=0.5)
    assert [track.faces for track in found] == [(0, 1), (2, 3, 6, 7), (4, 5), (0, 1)] or [
        track.faces for track in found
    ] == [(0, 1, 6, 7), (2, 3), (4, 5), (0, 1)]
    assert found[0].co_occurring == frozenset([1])
    assert found[1].co_occurring == frozenset([0])
    assert [track.episode for track in found] == [1, 1, 1, 2]


def test_a_new_track_is_compared_with_the_people_who_appeared_last():
    people = [0, 1, 0, 2, 3, 4, 0, 5, 1]
    features = torch.eye(6)[torch.tensor(people)] * 10
    tracks = [TVTrack(1, "", (at,)) for at in range(len(people))]
    found = [track.faces for track in merge_tracks(tracks, features, threshold=0.5)]
    assert (0, 2, 6) in found, "with three others in between"
    assert (1,) in found, "four others appeared since"
    assert (8,) in found


def test_a_few_tracks_are_merged_like_many():
    features = torch.tensor([[0.0], [1.0], [10.0]])
    tracks = [TVTrack(1, "", (at,)) for at in range(3)]
    assert [track.faces for track in merge_tracks(tracks, features, threshold=0.2)] == [
        (0, 1),
        (2,),
    ]


def test_a_face_in_many_triplets_goes_through_the_network_once():
    batches = []

    class Network(nn.Linear):
        def forward(self, rows):
            batches.append(len(rows))
            return super().forward(rows)

    faces = Faces(Network(4, 2), torch.randn(10, 4))
    numbers = torch.tensor([[0, 1, 2], [0, 1, 3], [1, 0, 2]])
    found = faces(numbers)
    assert batches == [4]
    assert torch.equal(found, faces.network(faces.gallery[numbers]))


def test_the_gradient_of_a_face_in_many_triplets_is_the_sum_over_them():
    torch.manual_seed(1)
    faces = Faces(nn.Linear(4, 2).double(), torch.randn(10, 4).double())
    numbers = torch.tensor([[0, 1, 2], [0, 1, 3], [1, 0, 2]])
    weight = faces.network.weight
    once = torch.autograd.grad(triplet_loss(faces(numbers), numbers).sum(), weight)[0]
    each = faces.network(faces.gallery[numbers])
    assert torch.allclose(
        once, torch.autograd.grad(triplet_loss(each, numbers).sum(), weight)[0], atol=1e-12
    )


def test_the_importance_on_a_triplet_is_that_on_three_inputs():
    faces = Faces(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)), torch.randn(10, 4))
    how = FaceMAS(1.0)
    how.consolidate(faces, torch.tensor([[0, 1, 2], [3, 4, 0]]))
    single = [estimate(faces, torch.tensor([face])) for face in (0, 1, 2, 3, 4, 0)]
    for name, value in how.importance.items():
        assert torch.allclose(value, sum(one[name] for one in single) / 6, rtol=1e-5)


def test_the_loss_is_the_triplet_margin_loss():
    outputs = torch.tensor([[[0.0, 0.0], [3.0, 4.0], [0.0, 2.0]]])
    assert math.isclose(float(triplet_loss(outputs, outputs)), 5 - 2 + 1, rel_tol=1e-4)


def test_people_are_learned_by_watching_them():
    """Six people, whose features differ only along a few of many directions."""
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
    actors = [str(person) for person in range(people) for _ in range(5)]

    def accuracy():
        names = known.identify(learner.predict, own[:, 15:].flatten())
        return sum(map(str.__eq__, names, actors)) / len(actors)

    before = accuracy()
    generator = torch.Generator().manual_seed(0)
    for _ in range(150):
        first, second = torch.randperm(people, generator=generator)[:2].tolist()
        pair = Pair(1, tuple(own[first, 5:15].tolist()), tuple(own[second, 5:15].tolist()))
        found = triplets(pair, generator=generator)
        learner.learn(found, torch.zeros(len(found)))
    assert accuracy() > before + 0.2
    assert learner.which.inputs.shape == (50, 3)
