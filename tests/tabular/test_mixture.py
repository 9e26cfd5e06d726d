"""The mixture of experts: its guarantee, and what it answers."""

import copy
import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from taskfree.tabular.mixture import MOST_LOST, RATE, SHARE, LabelMixture, ValueMixture, Weights


def generator(seed):
    return torch.Generator().manual_seed(seed)


def losses(likelihoods, initial):
    """The loss of the mixture and of each expert, in nats, as they count."""
    before = Weights(initial).advance(likelihoods)
    least = likelihoods.max(1, keepdim=True).values - MOST_LOST
    likelihoods = likelihoods.maximum(least)
    mixed = (before * likelihoods.exp()).sum(1).log()
    return -float(mixed.sum()), -likelihoods.sum(0)


@given(st.integers(0, 10_000), st.integers(1, 300), st.integers(2, 6))
def test_the_regret_to_the_best_expert_is_bounded(seed, rows, experts):
    likelihoods = -9 * torch.rand(rows, experts, generator=generator(seed), dtype=torch.float64)
    initial = torch.rand(experts, generator=generator(seed + 1)).add(0.1).tolist()
    mixture, own = losses(likelihoods, initial)
    for expert in range(experts):
        prior = initial[expert] / sum(initial)
        allowed = math.log(1 / prior) / RATE + rows * math.log(1 / (1 - SHARE)) / RATE
        assert mixture <= float(own[expert]) + allowed + 1e-9


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_the_regret_to_a_changing_expert_is_bounded(seed, changes):
    """The worst case for a mixture that does not share: the best expert becomes the worst."""
    length, experts = 100, 3
    likelihoods = torch.full((length * (changes + 1), experts), -4.0, dtype=torch.float64)
    best = torch.randint(experts, (changes + 1,), generator=generator(seed)).tolist()
    for part, expert in enumerate(best):
        likelihoods[part * length : (part + 1) * length, expert] = -0.1
    mixture, _ = losses(likelihoods, [1.0] * experts)
    rows, switches = len(likelihoods), sum(a != b for a, b in pairwise(best))
    allowed = (switches + 1) * math.log(experts) + switches * math.log(1 / SHARE)
    allowed = (allowed + (rows - 1 - switches) * math.log(1 / (1 - SHARE))) / RATE
    assert mixture <= 0.1 * rows + allowed
    if switches:
        weights, found = torch.full((experts,), 1 / experts).double(), 0.0
        for row in likelihoods:
            found -= float((weights * row.exp()).sum().log())
            weights = weights * (RATE * row).exp()
            weights = weights / weights.sum()
        assert found > mixture, "without sharing it takes long to change its mind"


def test_weights_go_on_whatever_happens():
    weights = Weights([1.0, 1.0])
    for likelihoods in ([-1e300, 0.0], [0.0, -1e300], [-1e300, -1e300]):
        weights.advance(torch.tensor([likelihoods], dtype=torch.float64))
        assert sum(weights.now) == pytest.approx(1)
        assert all(weight > SHARE / 3 for weight in weights.now)


def said_of_labels(rows, seed=0, classes=3, experts=3):
    draw = generator(seed)
    return [
        torch.rand(rows, classes, generator=draw).double().softmax(1) for _ in range(experts)
    ], torch.randint(classes, (rows,), generator=draw)


def said_of_values(rows, seed=0, experts=3):
    draw = generator(seed)
    targets = torch.randn(rows, generator=draw).double().cumsum(0)
    return [
        targets + at * torch.randn(rows, generator=draw).double() for at in range(experts)
    ], targets


KINDS = {"labels": (LabelMixture, said_of_labels), "values": (ValueMixture, said_of_values)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cut", [1, 7, 50])
def test_the_cut_into_steps_does_not_matter(kind, cut):
    make, data = KINDS[kind]
    said, targets = data(100)
    whole, parts = make([1.0, 2.0, 1.0]), make([1.0, 2.0, 1.0])
    answers = whole.score(said, targets)
    found = [
        parts.score([each[at : at + cut] for each in said], targets[at : at + cut])
        for at in range(0, 100, cut)
    ]
    assert torch.allclose(torch.cat(found), answers, atol=1e-3)
    assert torch.allclose(torch.tensor(parts.weights), torch.tensor(whole.weights))


@pytest.mark.parametrize("kind", KINDS)
def test_no_target_is_known_before_its_row(kind):
    make, data = KINDS[kind]
    said, targets = data(40)
    changed = targets.clone()
    changed[20:] = targets[20:].flip(0)
    one, other = (make([1.0] * 3).score(said, each) for each in (targets, changed))
    assert torch.equal(one[:21], other[:21])


@pytest.mark.parametrize("kind", KINDS)
def test_a_mixture_continues_from_its_state(kind):
    make, data = KINDS[kind]
    said, targets = data(60)
    mixture, other = make([1.0] * 3), make([1.0] * 3)
    mixture.score([each[:30] for each in said], targets[:30])
    other.load_state_dict(copy.deepcopy(mixture.state_dict()))
    rest = [each[30:] for each in said]
    assert torch.equal(mixture.score(rest, targets[30:]), other.score(rest, targets[30:]))


def test_the_answer_is_that_of_the_best_expert():
    said, targets = said_of_values(200)
    mixture = ValueMixture([1.0] * 3)
    answers = mixture.score(said, targets)
    error = (answers - targets).abs()[50:].mean()
    assert error < 0.1 * (said[1] - targets).abs().mean()
    assert mixture.weights[0] > 0.9


def test_one_wild_value_is_not_believed():
    said, targets = said_of_values(200)
    said[0][150] += 1e9
    answers = ValueMixture([1.0] * 3).score(said, targets)
    assert abs(float(answers[150] - targets[150])) < 2 * float(targets.max() - targets.min())
    assert (answers - targets).abs()[160:].mean() < 0.3


def test_a_class_that_nobody_knows_yet_is_no_failure():
    mixture = LabelMixture([1.0, 1.0])
    nothing = [torch.zeros(2, 0).double()] * 2
    assert mixture.score(nothing, torch.tensor([0, 1])).shape == (2, 0)
    said = [torch.tensor([[0.5, 0.5]]).double(), torch.zeros(1, 0).double()]
    found = mixture.score(said, torch.tensor([4]))
    assert float(found.sum()) == pytest.approx(1)
