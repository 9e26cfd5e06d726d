"""Bad samples and steps that would ruin the parameters: nothing of them stays."""

import math
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from examples import examples
from same import assert_same, snapshot
from taskfree import MAS, Every, Hardest, Learner, NotFiniteError, Recent, guards

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


SPOIL = {
    "nan": lambda x, weight: (x.fill_(torch.nan), weight),
    "inf": lambda x, weight: (x.index_fill_(0, torch.tensor([1]), -torch.inf), weight),
    "target": lambda x, weight: (x, weight.fill_(torch.nan)),
    "loss": lambda x, weight: (x, weight.fill_(-1.0)),  # finite itself, and its root is not
}


def poisoned(steps, rate, kinds):
    """The same stream with bad samples put in at random places."""
    chance = torch.Generator().manual_seed(7)
    for x, (classes, weight) in batches(steps):
        rows = [(row, y, w) for row, y, w in zip(x, classes, weight, strict=True)]
        mixed = []
        for row in rows:
            while torch.rand(1, generator=chance) < rate:
                kind = kinds[int(torch.randint(len(kinds), (1,), generator=chance))]
                spoiled, w = SPOIL[kind](row[0].clone(), row[2].clone())
                mixed.append((spoiled, row[1], w))
            mixed.append(row)
        x, classes, weight = (torch.stack(column) for column in zip(*mixed, strict=True))
        yield x, (classes, weight)


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("rate", [0.01, 0.2, 0.5])
@pytest.mark.parametrize("kind", SPOIL)
def test_a_poisoned_stream_leaves_the_state_of_the_clean_one(kind, rate, repeats):
    clean, guarded = make(repeats=repeats), make(repeats=repeats, on_bad="skip")
    torch.manual_seed(3)
    reports = [clean.learn(*batch) for batch in batches(30)]
    torch.manual_seed(3)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        seen = [guarded.learn(*batch) for batch in poisoned(30, rate, [kind])]
    assert_same(snapshot(guarded), snapshot(clean))
    assert [r.loss for r in seen] == [r.loss for r in reports]
    assert sum(r.skipped for r in seen) == guarded.skipped
    assert len(told) == (guarded.skipped > 0)
    assert guarded.skipped > 0 or rate == 0.01


@given(st.lists(st.sampled_from([*SPOIL, "good"]), min_size=1, max_size=12), st.integers(1, 2))
@examples(30)
def test_any_mixture(kinds, repeats):
    bad = [kind for kind in kinds if kind != "good"] or ["nan"]
    clean, guarded = make(repeats=repeats), make(repeats=repeats, on_bad="skip")
    torch.manual_seed(3)
    for batch in batches(6):
        clean.learn(*batch)
    torch.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for batch in poisoned(6, len(bad) / (len(kinds) + 1), bad):
            guarded.learn(*batch)
    assert_same(snapshot(guarded), snapshot(clean))


def test_samples_that_overflow_in_the_network_are_found_by_their_loss():
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


def test_without_the_guard_the_stream_stops():
    learner = make()
    learned = []
    with pytest.raises(NotFiniteError):
        learned.extend(learner.learn(*batch) for batch in poisoned(30, 0.2, ["nan"]))
    assert len(learned) < 30


def test_a_step_of_bad_samples_only_does_not_take_place():
    learner = make(on_bad="skip")
    for batch in batches(7):
        learner.learn(*batch)
    before = snapshot(learner)
    x, targets = next(batches(1))
    for spoiled in ((x * torch.nan, targets), (x, (targets[0], -targets[1]))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = learner.learn(*spoiled)
        assert (report.skipped, report.step, report.consolidated) == (5, 7, False)
        numbers = (report.loss, report.buffer_loss, report.window_loss, report.window_mean)
        assert all(isinstance(number, float) and math.isnan(number) for number in numbers)
        assert (report.peak, report.event) == (False, None)
        assert_same(snapshot(learner), before)
    assert learner.skipped == 10


def test_it_is_said_once_and_teaches():
    learner = make(on_bad="skip")
    x, targets = next(batches(1))
    x[3, 1] = torch.inf
    with pytest.warns(
        UserWarning, match=r"1 of 5 new samples \(row 3 is the first\).*learner.skipped counts them"
    ):
        learner.learn(x, targets)
    learner.learn(x, targets)  # warnings are errors here
    assert learner.skipped == 2


def test_a_call_that_raises_has_skipped_nothing():
    learner = make(on_bad="skip")
    x, targets = next(batches(1))
    x[0] = torch.nan
    learner.loss = lambda out, targets: 1 / 0
    with pytest.warns(UserWarning, match="skipped"), pytest.raises(ValueError, match="division"):
        learner.learn(x, targets)
    assert (learner.skipped, learner.step) == (0, 0)


def test_what_is_not_the_samples_fault_raises_though_bad_ones_are_skipped():
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
    learner.loss = lambda out, targets: (out.sum(1) * 0).sqrt() + 1  # the root of 0
    with pytest.raises(
        NotFiniteError, match="gradients are nan or inf although the losses are finite"
    ):
        learner.learn(*next(batches(1)))
    learner.loss = loss
    assert_same(snapshot(learner), before)


@pytest.mark.parametrize(("lr", "scale"), [(3e38, 30.0), (1e10, 1e38), (1e25, 1e15)])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_a_step_that_would_ruin_the_parameters_is_rolled_back(lr, scale, optimizer):
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
    except (NotFiniteError, RuntimeError):  # Adam itself refuses a rate of 3e38
        learner.optimizer.param_groups[0]["lr"] = 0.1
        assert_same(snapshot(learner), before)
    assert all(bool(value.isfinite().all()) for value in model.parameters())


def test_large_finite_gradients_are_not_refused():
    model = nn.Linear(3, 1, bias=False)
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=1e-30), which=None, how=None,
        loss=lambda out, y: (out[:, 0] - y).abs() * 1e30,
    )  # fmt: skip
    before = model.weight.detach().clone()
    learner.learn(torch.ones(2, 3), torch.zeros(2))
    assert 0.1 < float((model.weight - before).abs().max().detach()) < 10


def test_the_argument():
    with pytest.raises(ValueError, match="on_bad must be 'raise' or 'skip', got 'ignore'"):
        make(on_bad="ignore")


@pytest.mark.parametrize("size", [3, guards.LARGE])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_not_finite_is_found_wherever_it_is(size, value):
    gradients = [torch.ones(size), torch.ones(2)]
    assert guards.finite(gradients)
    gradients[0][size // 2] = value
    assert not guards.finite(gradients)
    assert not guards.finite(gradients[::-1])
    assert guards.finite([torch.ones(size)]), "what was found is forgotten"
    assert gradients[1].tolist() == [1, 1]


def test_a_sum_that_overflows_holds_nothing_that_is_not_finite():
    large = torch.full((guards.LARGE,), 3e38)
    assert torch.isinf(large.sum())
    assert guards.finite([large])
    assert large[0] == torch.tensor(3e38)


def test_gradients_of_several_kinds_are_looked_at_one_by_one():
    kinds = [torch.ones(2), torch.ones(2, dtype=torch.float64), torch.ones(1, dtype=torch.bfloat16)]
    assert guards.finite(kinds)
    kinds[1][0] = math.nan
    assert not guards.finite(kinds)
    assert guards.finite([])


@pytest.mark.parametrize(
    ("lr", "loss", "dtype", "safe"),
    [
        (0.1, 0.7, torch.float32, True),
        (9e5, 9e14, torch.float32, True),
        (1e6, 0.7, torch.float32, False),
        (0.1, 1e15, torch.float32, False),
        (0.1, -1e15, torch.float32, False),
        (0.1, 0.7, torch.float16, False),
        (0.1, 0.7, torch.bfloat16, True),
    ],
)
def test_what_makes_a_step_safe(lr, loss, dtype, safe):
    value = nn.Parameter(torch.ones(2, dtype=dtype))
    optimizer = torch.optim.SGD([value], lr=lr)
    assert guards.step_is_safe(optimizer, loss), "there is no gradient to follow"
    value.grad = torch.ones_like(value)
    assert guards.step_is_safe(optimizer, loss) is safe


def test_a_bad_loss_alone_raises_too_and_changes_nothing():
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


def test_bad_inputs_and_bad_losses_of_one_batch_are_both_counted():
    learner = make(on_bad="skip")
    x, (classes, weight) = next(batches(1))
    x, weight = x.clone(), weight.clone()
    x[0], x[4] = torch.nan, torch.inf
    weight[2] = -1.0
    with pytest.warns(UserWarning, match="skipped"):
        report = learner.learn(x, (classes, weight))
    assert report.skipped == learner.skipped == 3
    assert len(learner.which) == 2


def test_a_loss_that_refuses_says_what_the_model_gave():
    model = nn.Linear(3, 2)
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=CROSS_ENTROPY)
    with pytest.raises(ValueError, match=r"with outputs of float32\[2\]"):
        learner.learn(torch.randn(4, 3), torch.zeros(4, 5, dtype=torch.long))
