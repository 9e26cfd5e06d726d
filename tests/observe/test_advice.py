"""Silent failure modes give one warning with a remedy; learning that works gives none."""

import warnings

import pytest
import torch
from torch import nn

from same import assert_same, snapshot
from taskfree import MAS, Advice, Every, Hardest, Learner, Plateau, Recent
from taskfree.when import RelativePlateau


def make(lr=0.1, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    return Learner(model, optimizer, loss=nn.CrossEntropyLoss(reduction="none"), **options)


def stream(steps, label=None):
    generator = torch.Generator().manual_seed(5)
    for step in range(steps):
        x = torch.randn(6, 2, generator=generator)
        yield x, (x[:, 0] > 0).long() if label is None else torch.full((6,), label(step))


def advice(learner, batches):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for x, y in batches:
            learner.learn(x, y)
    assert all(warning.category is Advice for warning in caught)
    return [str(warning.message) for warning in caught]


def test_advice_points_at_the_line_that_called_learn():
    learner = make(lr=1e-9, when=None, which=None)
    *before, last = stream(500)
    for x, y in before:
        learner.learn(x, y)
    with pytest.warns(Advice) as caught:
        learner.learn(*last)
    assert caught[0].filename == __file__


def test_learning_that_works_gives_no_advice():
    assert advice(make(), stream(1200)) == []


def test_a_trigger_that_finds_no_plateau():
    (text,) = advice(make(when=Plateau(5, mean=1e-9, variance=1e-9)), stream(2500))
    assert "no plateau in 1000 time steps, so nothing has been consolidated" in text
    assert "not below 1e-09" in text
    assert "Raise the thresholds" in text


@pytest.mark.parametrize("options", [{"when": None}, {"how": None}, {"when": Every(2000)}])
def test_no_advice_if_no_consolidation_is_intended(options):
    assert advice(make(**options), stream(1200)) == []


def test_a_trigger_that_finds_a_plateau_after_every_peak():
    learner = make(lr=0.5, when=Plateau(2, mean=1e9, variance=1e9), which=None, how=MAS(0.0))
    noise = ((x, torch.randint(2, (6,))) for x, _ in stream(400))
    (text,) = advice(learner, noise)
    assert "each of the last 10 peaks was followed by a plateau within 2 time steps" in text
    assert "Lower the thresholds" in text


def test_a_buffer_that_holds_one_label_only():
    learner = make(which=Recent(8), when=RelativePlateau())
    (text,) = advice(learner, stream(400, label=lambda step: step // 100 % 2))
    assert "the buffer holds 8 samples of label 1 and no other" in text
    assert "balanced=True" in text


def test_no_advice_on_labels_while_the_stream_has_only_one():
    assert advice(make(which=Hardest(8), when=Every(20)), stream(300, label=lambda step: 1)) == []


def test_an_unstable_penalty():
    learner = make(lr=0.5, when=Every(50), how=MAS(200.0, penalty="gradient"))
    (text,) = advice(learner, stream(51))
    largest = max(float(value.max()) for value in learner.how.importance.values())
    assert f"0.5 * 200 * {largest:.3g} = {100 * largest:.3g}" in text
    assert f"a strength below {4 / largest:.3g}" in text


def test_no_advice_on_a_stable_penalty():
    assert advice(make(when=Every(50), how=MAS(0.5, penalty="gradient")), stream(60)) == []
    assert advice(make(when=Every(50), how=MAS(1e6)), stream(60)) == []


def test_a_loss_that_is_flat_from_the_start():
    (text,) = advice(make(lr=1e-9, when=None, which=None), stream(600))
    assert "the loss is flat from the start" in text
    assert "another learning rate" in text


def test_advice_turned_into_an_error_changes_nothing_and_comes_once():
    learner = make(lr=1e-9, when=None, which=None)
    batches = list(stream(501))
    with warnings.catch_warnings():
        warnings.simplefilter("error", Advice)
        for x, y in batches[:499]:
            learner.learn(x, y)
        before = snapshot(learner)
        with pytest.raises(Advice, match="flat"):
            learner.learn(*batches[499])
        assert_same(before, snapshot(learner))
        learner.learn(*batches[499])
    assert learner.step == 500
