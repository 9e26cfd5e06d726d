"""Retrieval: which of the held samples a gradient step replays."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from same import assert_same, snapshot
from samples import STEPS, held, offer
from taskfree.which import ClassBalanced, Hardest, Recent, Reservoir

KINDS = [Reservoir, ClassBalanced, Recent]


def full(kind, capacity=50, **options):
    """A buffer that holds the samples 0, 1, ... up to its capacity."""
    buffer = kind(capacity, **options)
    x = torch.arange(capacity)
    buffer.join(x, x % 5)
    buffer.update(torch.zeros(capacity))
    return buffer


@given(st.sampled_from(KINDS), st.integers(1, 49), st.integers(0, 10_000))
def test_all_have_their_turn_before_any_is_drawn_again(kind, replay, seed):
    buffer = full(kind, replay=replay, seed=seed)
    new = torch.tensor([100])
    turns = 50 // replay
    for _ in range(3):
        drawn = [buffer.join(new, new)[0][:-1].tolist() for _ in range(turns)]
        assert len({number for one in drawn for number in one}) == turns * replay


def test_everything_is_drawn_equally_often():
    trials = 4000
    buffer, counts, new = full(Reservoir, replay=30), torch.zeros(50), torch.tensor([100])
    for _ in range(trials):  # one draw of 30 among 50, then another shuffle
        counts[buffer.join(new, new)[0][:-1]] += 1
    expected = trials * 30 / 50
    # drawn without replacement, so that counts vary less than a multinomial's
    chi_squared = float(((counts - expected) ** 2 / expected).sum()) / (1 - 30 / 50)
    assert chi_squared < 86, "with 49 degrees of freedom, above 86 once in 1,000 trials"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("replay", "new", "expected"),
    [(None, 4, 8), (None, 30, 50), (7, 4, 7), (7, 30, 7), (80, 4, 50)],
)
def test_how_many_are_replayed(kind, replay, new, expected):
    buffer = full(kind, replay=replay)
    for x, y in (
        buffer.join(torch.arange(100, 100 + new), torch.zeros(new).long()),
        buffer.redraw(),
    ):
        assert len(x) == len(y) == expected + new
        assert torch.equal(x[expected:], torch.arange(100, 100 + new))
        assert len(set(x.tolist())) == len(x)


@pytest.mark.parametrize("kind", KINDS)
def test_every_gradient_step_draws_anew(kind):
    buffer = full(kind)
    new = torch.arange(100, 105)
    drawn = [set(buffer.join(new, new)[0].tolist())]
    drawn += [set(buffer.redraw()[0].tolist()) for _ in range(200)]
    assert len({tuple(sorted(one)) for one in drawn}) > 190
    assert set.union(*drawn) == {*range(50), *range(100, 105)}, "each held sample has its turn"


def test_the_hardest_are_all_replayed():
    buffer = full(Hardest)
    new = torch.arange(100, 102)
    assert buffer.join(new, new)[0].tolist() == [*range(50), 100, 101]
    assert buffer.redraw()[0].tolist() == [*range(50), 100, 101]


def test_losses_are_those_last_seen():
    buffer = full(Reservoir, replay=3)
    x, _ = buffer.join(torch.tensor([100]), torch.tensor([0]))
    buffer.update(torch.tensor([1.0, 2.0, 3.0, 9.0]))
    expected = dict.fromkeys(range(50), 0.0)
    expected |= dict(zip(x.tolist(), [1.0, 2.0, 3.0, 9.0], strict=True))
    assert held(buffer) == sorted((n, expected[n]) for n in buffer.inputs.tolist())


@given(STEPS, st.integers(1, 7))
def test_draws_continue_alike_from_a_saved_state(steps, cut):
    whole, loaded = Reservoir(6, replay=2, seed=1), Reservoir(6, replay=2, seed=9)
    list(offer(whole, steps[:cut]))
    loaded.load_state_dict(snapshot(whole))
    new = torch.arange(1000.0, 1003.0)
    labels = torch.zeros(3).long()
    for first, second in zip(whole.join(new, labels), loaded.join(new, labels), strict=True):
        assert torch.equal(first, second)
    for first, second in zip(whole.redraw(), loaded.redraw(), strict=True):
        assert torch.equal(first, second)
    assert_same(snapshot(whole), snapshot(loaded))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replay", [0, -1, 2.5, "all", True])
def test_an_invalid_number_to_replay(kind, replay):
    message = f"replay must be an integer of at least 1, got {replay!r}"
    with pytest.raises((ValueError, TypeError), match=message):
        kind(9, replay=replay)
