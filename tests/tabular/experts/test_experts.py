"""What holds for every expert beside the network."""

import copy

import pytest
import torch

from taskfree.tabular.experts import (
    Frequencies,
    KeyedAverage,
    KeyedFrequencies,
    LabelHistory,
    LastValue,
    LeastSquares,
    LinearModel,
    Mean,
    RecentFrequencies,
    RecentMean,
    RecentNetwork,
    RowBatch,
    SameAsLast,
    SoftmaxModel,
    ValueHistory,
)
from taskfree.tabular.scaler import RunningScaler

ROWS, FEATURES = 400, 3


def of_labels():
    """The experts on labels, and what they share."""
    counts, history = Frequencies(), LabelHistory()
    return history, [
        counts, SameAsLast(counts), RecentFrequencies(counts), SoftmaxModel(adaptive=True),
        SoftmaxModel(adaptive=False), KeyedFrequencies("k", 0, counts),
        RecentNetwork(FEATURES + history.width, None, 0),
    ], None  # fmt: skip


def of_values():
    """The same on numbers."""
    scaler = RunningScaler(1)
    history = ValueHistory(scaler)
    return history, [
        Mean(scaler), LastValue(), RecentMean(), LinearModel(scaler), LeastSquares(scaler),
        KeyedAverage("k", 0, scaler, last=True), KeyedAverage("k", 0, scaler, last=False),
        RecentNetwork(FEATURES + history.width, scaler, 0),
    ], scaler  # fmt: skip


MAKE = {"labels": of_labels, "values": of_values}


def data(kind, seed=0):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(ROWS, FEATURES, generator=draw)
    keys = [["even" if at % 2 else None for at in range(ROWS)]]
    if kind == "labels":
        return x, (x[:, 0] > 0).long() + (x[:, 1] > 1), keys
    return x, (3 * x[:, 0] + x[:, 1]).double() + 10, keys


def run(parts, x, y, keys, rows, size=10):
    """Predict and learn these rows; what each expert said."""
    history, experts, scaler = parts
    said = [[] for _ in experts]
    for at in range(rows.start, rows.stop, size):
        now = slice(at, min(at + size, rows.stop))
        batch = RowBatch(x[now], history.look(y[now]), [keys[0][now]])
        for found, expert in zip(said, experts, strict=True):
            found.append(expert.predict(batch))
        if scaler is not None:
            scaler.add(y[now][:, None], None)
        for expert in experts:
            expert.learn(batch, y[now])
        history.learn(y[now])
    return said


@pytest.mark.parametrize("kind", MAKE)
def test_experts_predict_probabilities_or_values(kind):
    x, y, keys = data(kind)
    parts = MAKE[kind]()
    for expert, found in zip(parts[1], run(parts, x, y, keys, slice(0, ROWS)), strict=True):
        last = found[-1]
        assert last.isfinite().all(), expert.name
        if kind == "labels":
            assert torch.allclose(last.sum(1), torch.ones(10).double(), atol=1e-4), expert.name
        else:
            assert last.shape == (10,), expert.name


@pytest.mark.parametrize("kind", MAKE)
def test_models_of_the_inputs_learn(kind):
    x, y, keys = data(kind)
    parts = MAKE[kind]()
    said = run(parts, x, y, keys, slice(0, ROWS))
    for expert, found in zip(parts[1], said, strict=True):
        if not isinstance(expert, SoftmaxModel | LinearModel | LeastSquares | RecentNetwork):
            continue
        late, actual = torch.cat(found[-10:]), y[-100:]
        if kind == "labels":
            assert (late.argmax(1) == actual).float().mean() > 0.75, expert.name
        else:
            assert (late - actual).abs().mean() < 0.6 * (y - y.mean()).abs().mean(), expert.name


@pytest.mark.parametrize("kind", MAKE)
def test_nothing_depends_on_targets_that_are_not_known_yet(kind):
    x, y, keys = data(kind)
    changed = y.clone()
    changed[205:] = y[205:].flip(0)
    one, other = (run(MAKE[kind](), x, each, keys, slice(0, 210), size=10) for each in (y, changed))
    for first, second in zip(one, other, strict=True):
        assert all(map(torch.equal, first[:20], second[:20]))
        assert torch.equal(first[20][:6], second[20][:6])


@pytest.mark.parametrize("kind", MAKE)
def test_experts_continue_from_their_state(kind):
    x, y, keys = data(kind)
    parts, other = MAKE[kind](), MAKE[kind]()
    run(parts, x, y, keys, slice(0, 200))
    history, experts, scaler = other
    history.load_state_dict(copy.deepcopy(parts[0].state_dict()))
    for expert, saved in zip(experts, parts[1], strict=True):
        expert.load_state_dict(copy.deepcopy(saved.state_dict()))
    if scaler is not None:
        scaler.load_state_dict(copy.deepcopy(parts[2].state_dict()))
    found, again = (run(each, x, y, keys, slice(200, ROWS)) for each in (parts, other))
    for first, second in zip(found, again, strict=True):
        assert torch.equal(torch.cat(first), torch.cat(second))


@pytest.mark.parametrize("kind", MAKE)
def test_inputs_may_become_more(kind):
    x, y, keys = data(kind)
    parts, other = MAKE[kind](), MAKE[kind]()
    for each in (parts, other):
        run(each, x, y, keys, slice(0, 200))
    wider = torch.cat([x, torch.zeros(ROWS, 4)], 1)
    found = run(parts, x, y, keys, slice(200, 210))
    again = run(other, wider, y, keys, slice(200, 210))
    for expert, first, second in zip(parts[1], found, again, strict=True):
        assert torch.allclose(first[0], second[0], atol=1e-5), expert.name
    more = torch.randn(ROWS, 4)
    late = run(other, torch.cat([x, more], 1), y, keys, slice(210, ROWS))
    assert all(found[-1].isfinite().all() for found in late)


def test_a_key_tells_its_rows_apart():
    history, experts, scaler = of_values()
    keys = [["a", "b"] * 100]
    y = torch.tensor([1.0, 5.0] * 100).double()
    said = run((history, experts, scaler), torch.zeros(200, FEATURES), y, keys, slice(0, 200))
    assert torch.equal(torch.cat(said[5])[10:], y[10:]), "the last of the same key"
    assert torch.allclose(torch.cat(said[6])[100:], y[100:], atol=0.2), "the mean of the same key"


def test_a_million_keys_take_no_more_room():
    expert = KeyedAverage("k", 0, RunningScaler(1), last=True)
    for start in range(0, 30_000, 1000):
        keys = [[f"id {at}" for at in range(start, start + 1000)]]
        batch = RowBatch(torch.zeros(1000, 0), None, keys)
        expert.learn(batch, torch.ones(1000).double())
    assert len(expert.known) == 10_000
