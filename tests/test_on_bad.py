"""Bad samples, and steps that would make parameters nan or inf, leave no trace."""

import math
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from examples import examples
from same import assert_same, snapshot
from taskfree import MAS, Every, Hardest, Learner, NotFiniteError, Recent

CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")


def loss(outputs, targets):
    """Two targets: a class, and a weight that may be anything."""
    classes, weight = targets
    return CROSS_ENTROPY(outputs, classes) * weight.sqrt()


def make(**options):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 2)
    )
    options = {"when": Every(5), "which": Hardest(6), "how": MAS(2.0), "loss": loss} | options
    return Learner(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5), **options)


def batches(steps):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x = torch.randn(5, 3, generator=generator)
        yield x, ((x[:, 0] > 0).long(), torch.rand(5, generator=generator) + 0.5)


CORRUPTED = {
    "nan": lambda x, weight: (x.fill_(torch.nan), weight),
    "inf": lambda x, weight: (x.index_fill_(0, torch.tensor([1]), -torch.inf), weight),
    "target": lambda x, weight: (x, weight.fill_(torch.nan)),
    "loss": lambda x, weight: (x, weight.fill_(-1.0)),  # finite, but its square root is not
}


def with_bad_samples(steps, rate, kinds):
    """The same stream with bad samples inserted at random positions."""
    generator = torch.Generator().manual_seed(7)
    for x, (classes, weight) in batches(steps):
        rows = [(row, y, w) for row, y, w in zip(x, classes, weight, strict=True)]
        mixed = []
        for row in rows:
            while torch.rand(1, generator=generator) < rate:
                kind = kinds[int(torch.randint(len(kinds), (1,), generator=generator))]
                corrupted, w = CORRUPTED[kind](row[0].clone(), row[2].clone())
                mixed.append((corrupted, row[1], w))
            mixed.append(row)
        x, classes, weight = (torch.stack(column) for column in zip(*mixed, strict=True))
        yield x, (classes, weight)


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("rate", [0.01, 0.2, 0.5])
@pytest.mark.parametrize("kind", CORRUPTED)
def test_skipped_samples_leave_the_state_of_the_clean_stream(kind, rate, repeats):
    clean, guarded = make(repeats=repeats), make(repeats=repeats, on_bad="skip")
    torch.manual_seed(3)
    reports = [clean.learn(*batch) for batch in batches(30)]
    torch.manual_seed(3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seen = [guarded.learn(*batch) for batch in with_bad_samples(30, rate, [kind])]
    assert_same(snapshot(guarded), snapshot(clean))
    assert [r.loss for r in seen] == [r.loss for r in reports]
    assert sum(r.skipped for r in seen) == guarded.skipped
    assert len(caught) == (guarded.skipped > 0)
    assert guarded.skipped > 0 or rate == 0.01


@given(st.lists(st.sampled_from([*CORRUPTED, "good"]), min_size=1, max_size=12), st.integers(1, 2))
@examples(30)
def test_any_mixture_of_bad_samples_leaves_the_state_of_the_clean_stream(kinds, repeats):
    bad = [kind for kind in kinds if kind != "good"] or ["nan"]
    clean, guarded = make(repeats=repeats), make(repeats=repeats, on_bad="skip")
    torch.manual_seed(3)
    for batch in batches(6):
        clean.learn(*batch)
    torch.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for batch in with_bad_samples(6, len(bad) / (len(kinds) + 1), bad):
            guarded.learn(*batch)
    assert_same(snapshot(guarded), snapshot(clean))


def test_samples_that_overflow_in_the_model_are_found_by_their_loss():
    def plain(**options):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
        nn.init.constant_(model[0].weight, 2.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return Learner(model, optimizer, loss=loss, which=Hardest(6), **options)

    clean, guarded = plain(), plain(on_bad="skip")
    for x, (classes, weight) in batches(20):
        clean.learn(x, (classes, weight))
        x, classes, weight = (torch.cat([part, part[:2]]) for part in (x, classes, weight))
        x[-2:] = 3e38
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert guarded.learn(x, (classes, weight)).skipped == 2
    assert_same(snapshot(guarded), snapshot(clean))


def test_by_default_a_bad_sample_raises():
    learner = make()
    learned = []
    with pytest.raises(NotFiniteError):
        learned.extend(learner.learn(*batch) for batch in with_bad_samples(30, 0.2, ["nan"]))
    assert len(learned) < 30


def test_there_is_no_time_step_without_a_good_sample():
    learner = make(on_bad="skip")
    for batch in batches(7):
        learner.learn(*batch)
    before = snapshot(learner)
    x, targets = next(batches(1))
    for corrupted in ((x * torch.nan, targets), (x, (targets[0], -targets[1]))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = learner.learn(*corrupted)
        assert (report.skipped, report.step, report.consolidated) == (5, 7, False)
        numbers = (report.loss, report.buffer_loss, report.window_loss, report.window_mean)
        assert all(isinstance(number, float) and math.isnan(number) for number in numbers)
        assert (report.peak, report.event) == (False, None)
        assert_same(snapshot(learner), before)
    assert learner.skipped == 10


def test_the_warning_of_skipped_samples_comes_once():
    learner = make(on_bad="skip")
    x, targets = next(batches(1))
    x[3, 1] = torch.inf
    with pytest.warns(
        UserWarning, match=r"1 of 5 new samples \(row 3 is the first\).*counted in learner.skipped"
    ):
        learner.learn(x, targets)
    learner.learn(x, targets)  # warnings are errors here
    assert learner.skipped == 2


def test_a_call_that_raises_counts_no_skipped_samples():
    learner = make(on_bad="skip")
    x, targets = next(batches(1))
    x[0] = torch.nan
    learner.loss = lambda out, targets: 1 / 0
    with pytest.warns(UserWarning, match="skipped"), pytest.raises(ValueError, match="division"):
        learner.learn(x, targets)
    assert (learner.skipped, learner.step) == (0, 0)


def test_an_error_that_is_not_due_to_samples_raises_although_bad_ones_are_skipped():
    learner = make(on_bad="skip")
    for batch in batches(3):
        learner.learn(*batch)
    before = snapshot(learner)
    learner.loss = lambda out, targets: loss(out, targets).double() * 1e308  # the mean overflows
    with pytest.raises(NotFiniteError):
        learner.learn(*next(batches(1)))
    learner.loss = loss
    assert_same(snapshot(learner), before)
    with torch.no_grad():
        learner.model[0].weight[0, 0] = torch.nan
    with pytest.raises(NotFiniteError, match="parameters are not finite themselves"):
        learner.learn(*next(batches(1)))


@pytest.mark.parametrize("repeats", [1, 2])
def test_gradients_that_are_not_finite_change_nothing(repeats):
    learner = make(repeats=repeats, loss=lambda out, targets: out.square().sum(1) + 1)
    learner.learn(*next(batches(1)))
    before = snapshot(learner)
    learner.loss = lambda out, targets: (out.sum(1) * 0).sqrt() + 1  # the square root of 0
    with pytest.raises(
        NotFiniteError, match="gradients are nan or inf although the losses are finite"
    ):
        learner.learn(*next(batches(1)))
    learner.loss = loss
    assert_same(snapshot(learner), before)


@pytest.mark.parametrize(("lr", "scale"), [(3e38, 30.0), (1e10, 1e38), (1e25, 1e15)])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_a_step_that_makes_parameters_nan_or_inf_is_undone(lr, scale, optimizer):
    model = nn.Linear(3, 1, bias=False)
    learner = Learner(
        model, optimizer(model.parameters(), lr=0.1), which=Recent(3), how=None,
        loss=lambda out, y: (out[:, 0] - y).abs() * learner_scale[0],
    )  # fmt: skip
    learner_scale = [1.0]
    for _ in range(2):
        learner.learn(torch.ones(2, 3), torch.zeros(2))
    before = snapshot(learner)
    learner.optimizer.param_groups[0]["lr"] = lr
    learner_scale[0] = scale
    try:
        learner.learn(torch.ones(2, 3), torch.zeros(2))
    except (NotFiniteError, RuntimeError):  # Adam itself refuses a learning rate of 3e38
        learner.optimizer.param_groups[0]["lr"] = 0.1
        assert_same(snapshot(learner), before)
    assert all(bool(value.isfinite().all()) for value in model.parameters())


def test_large_finite_gradients_are_learned_from():
    model = nn.Linear(3, 1, bias=False)
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=1e-30), which=None, how=None,
        loss=lambda out, y: (out[:, 0] - y).abs() * 1e30,
    )  # fmt: skip
    before = model.weight.detach().clone()
    learner.learn(torch.ones(2, 3), torch.zeros(2))
    assert 0.1 < float((model.weight - before).abs().max().detach()) < 10


def test_an_invalid_value_of_on_bad():
    with pytest.raises(ValueError, match="on_bad must be 'raise' or 'skip', got 'ignore'"):
        make(on_bad="ignore")


def test_by_default_a_loss_that_is_not_finite_raises_and_changes_nothing():
    learner = make()
    good = list(batches(3))
    for x, y in good[:2]:
        learner.learn(x, y)
    before = snapshot(learner)
    x, (classes, weight) = good[2]
    weight = weight.clone()
    weight[2] = -1.0
    with pytest.raises(NotFiniteError, match="1 of 5 new samples"):
        learner.learn(x, (classes, weight))
    assert_same(snapshot(learner), before)
    assert learner.skipped == 0


def test_bad_inputs_and_bad_losses_of_one_batch_are_counted_together():
    learner = make(on_bad="skip")
    x, (classes, weight) = next(batches(1))
    x, weight = x.clone(), weight.clone()
    x[0], x[4] = torch.nan, torch.inf
    weight[2] = -1.0
    with pytest.warns(UserWarning, match="skipped"):
        report = learner.learn(x, (classes, weight))
    assert report.skipped == learner.skipped == 3
    assert len(learner.which) == 2


def test_a_loss_that_raises_is_reported_with_the_outputs_of_the_model():
    model = nn.Linear(3, 2)
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=CROSS_ENTROPY)
    with pytest.raises(ValueError, match=r"with outputs of float32\[2\]"):
        learner.learn(torch.randn(4, 3), torch.zeros(4, 5, dtype=torch.long))
