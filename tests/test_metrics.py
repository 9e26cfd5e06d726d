"""Prequential evaluation, compared with the definitions and with torchmetrics."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from taskfree import metrics
from taskfree.metrics import Prequential

LABELS = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=9),
    min_size=1,
    max_size=8,
)


@given(LABELS, st.integers(1, 12))
def test_prequential_follows_the_definitions(blocks, window):
    metric = Prequential(window=window, decay=0.9)
    windows, scores = [], []
    for block in blocks:
        predicted, actual = (torch.tensor(column) for column in zip(*block, strict=True))
        metric.update(predicted, actual)
        scores += [float(a == b) for a, b in block]
        if len(scores) >= window:
            windows += [sum(scores[-window:]) / window] * len(block)
    assert metric.mean == pytest.approx(sum(scores) / len(scores))
    assert metric.windowed == pytest.approx(sum(scores[-window:]) / len(scores[-window:]))
    weights = [0.9**age for age in range(len(scores) - 1, -1, -1)]
    faded = sum(w * s for w, s in zip(weights, scores, strict=True)) / sum(weights)
    assert metric.fading == pytest.approx(faded)
    if windows:
        assert metric.anytime == pytest.approx(sum(windows) / len(windows))
        assert metric.worst == pytest.approx(min(windows))
    else:
        assert metric.anytime == metric.worst == metric.windowed
    by_class = {}
    for block in blocks:
        for a, b in block:
            by_class.setdefault(b, []).append(a == b)
    assert metric.balanced_accuracy == pytest.approx(
        sum(sum(found) / len(found) for found in by_class.values()) / len(by_class)
    )


def test_balanced_accuracy_is_the_macro_recall_of_torchmetrics():
    from torchmetrics.functional.classification import multiclass_accuracy

    generator = torch.Generator().manual_seed(0)
    predicted, actual = torch.randint(0, 5, (2, 400), generator=generator)
    metric = Prequential()
    for start in range(0, 400, 30):
        metric.update(predicted[start : start + 30], actual[start : start + 30])
    theirs = multiclass_accuracy(predicted, actual, num_classes=5, average="macro")
    assert metric.balanced_accuracy == pytest.approx(float(theirs), abs=1e-6)


def test_numbers_are_scored_by_their_errors():
    metric = Prequential(window=2)
    metric.update(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 2.0]))
    metric.update(torch.tensor([0.0, 0.0]), torch.tensor([3.0, -1.0]))
    assert metric.mean == pytest.approx(5 / 4)
    assert metric.rmse == pytest.approx(math.sqrt(11 / 4))
    assert metric.windowed == metric.worst == 2, "the worst error is the largest"
    assert set(metric.summary()) == {
        "count", "mean", "windowed", "fading", "anytime", "worst", "rmse",
    }  # fmt: skip


@given(LABELS, st.integers(0, 7))
def test_prequential_continues_from_its_state(blocks, cut):
    from taskfree._core.serialization import pack, unpack

    whole, first, second = Prequential(5), Prequential(5), Prequential(5)
    for at, block in enumerate(blocks):
        predicted, actual = (torch.tensor(column) for column in zip(*block, strict=True))
        names = [str(b) for _, b in block]
        whole.update(predicted, actual, names)
        (first if at < cut else second).update(predicted, actual, names)
        if at == cut - 1:
            second.load_state_dict(unpack(pack(first.state_dict())))
    if 0 < cut < len(blocks):
        assert second.summary() == whole.summary()
        assert second.by_environment == whole.by_environment


def test_each_environment_has_its_own_mean():
    metric = Prequential()
    metric.update(torch.tensor([1, 1, 0]), torch.tensor([1, 0, 0]), ["day", "night", "day"])
    assert metric.by_environment == {"day": 1.0, "night": 0.0}


def test_before_the_first_sample_everything_is_nan():
    metric = Prequential()
    assert all(math.isnan(value) for name, value in metric.summary().items() if name != "count")


def test_the_memory_of_prequential_does_not_grow():
    metric = Prequential(window=10)
    sizes = set()
    for _ in range(50):
        metric.update(torch.zeros(7).long(), torch.zeros(7).long())
        state = metric.state_dict().values()
        sizes.add(sum(v.numel() for v in state if isinstance(v, torch.Tensor)))
    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Prequential(window=0), "window must be"),
        (lambda: Prequential(decay=1.0), "decay must be below 1, got 1.0"),
        (
            lambda: Prequential().update(torch.zeros(2), torch.zeros(3)),
            r"got shapes \[2\] and \[3\]",
        ),
        (lambda: metrics.forgetting(torch.zeros(3)), r"got \[3\]"),
        (lambda: metrics.backward_transfer(torch.zeros(2, 3), [0]), "there are 3 sets"),
    ],
)
def test_invalid_arguments_of_metrics(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_metrics_of_held_out_sets():
    accuracy = torch.tensor([[0.9, 0.5, 0.5], [0.7, 0.8, 0.5], [0.6, 0.9, 0.7]])
    assert metrics.forgetting(accuracy) == pytest.approx((0.3 + 0 + 0) / 3)
    assert metrics.backward_transfer(accuracy, [0, 1, 2]) == pytest.approx((-0.3 + 0.1 + 0) / 3)
    assert metrics.anytime(accuracy) == pytest.approx(float(accuracy.mean()))
    assert metrics.worst(accuracy) == pytest.approx(1.9 / 3)


def test_a_step_timer_counts_adds_up_and_keeps_the_longest(monkeypatch):
    clock = iter([0.0, 1.0, 10.0, 14.0, 20.0, 20.5])
    monkeypatch.setattr(metrics, "perf_counter", lambda: next(clock))
    timer = metrics.StepTimer()
    assert math.isnan(timer.mean)
    for _ in range(3):
        with timer:
            pass
    assert (timer.steps, timer.total, timer.worst) == (3, 5.5, 4.0)
    assert timer.mean == pytest.approx(5.5 / 3)
