import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from same import assert_same, snapshot
from taskfree.which import Hardest, Recent, Reservoir

# A stream of time steps: the (label, loss) of each new sample; losses often tie.
SAMPLES = st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5, 7.0]))
STEPS = st.lists(st.lists(SAMPLES, min_size=1, max_size=9), min_size=1, max_size=8)


def feed(buffer, steps):
    """Offer numbered samples; held samples keep the loss they had. Yields the candidates."""
    number = 0
    for step in steps:
        labels, losses = zip(*step, strict=True)
        x = torch.arange(number, number + len(step)).float()
        number += len(step)
        held = (
            list(zip(buffer.inputs.tolist(), buffer.losses.tolist(), strict=True))
            if len(buffer)
            else []
        )
        y, losses = torch.tensor(labels), torch.tensor(losses)
        buffer.check(x, y)
        buffer.update(x, y, losses, buffer.losses.clone())
        yield list(zip(x.tolist(), losses.tolist(), strict=True)) + held


@given(STEPS, st.integers(1, 12))
def test_hardest_keeps_the_highest_losses_newest_first_among_equals(steps, capacity):
    buffer = Hardest(capacity)
    for candidates in feed(buffer, steps):
        expected = sorted(candidates, key=lambda sample: -sample[1])[:capacity]
        assert buffer.inputs.tolist() == [number for number, _ in expected]
        assert buffer.losses.tolist() == [loss for _, loss in expected]


@given(STEPS, st.integers(1, 12))
def test_balanced_shares_the_capacity_equally(steps, capacity):
    buffer = Hardest(capacity, balanced=True)
    label_of = dict(enumerate(label for step in steps for label, _ in step))
    for candidates in feed(buffer, steps):
        held = buffer.inputs.tolist()
        assert len(held) == min(capacity, len(candidates))
        assert buffer.targets.tolist() == [label_of[int(number)] for number in held]
        counts, offered = {}, {}
        for number, _ in candidates:
            offered.setdefault(label_of[int(number)], []).append(number)
        for number in held:
            counts.setdefault(label_of[int(number)], []).append(number)
        sizes = {label: len(counts.get(label, [])) for label in offered}
        for label, numbers in offered.items():
            # who has less than another by more than one has given all it had
            if max(sizes.values()) - sizes[label] > 1:
                assert sizes[label] == len(numbers)
            # and hardest first within each
            loss = dict(candidates)
            kept = sorted((loss[n] for n in counts.get(label, [])), reverse=True)
            assert kept == sorted((loss[n] for n in numbers), reverse=True)[: len(kept)]


@given(STEPS, st.integers(1, 12))
def test_recent_is_first_in_first_out(steps, capacity):
    buffer, seen = Recent(capacity), 0
    for step, _ in zip(steps, feed(buffer, steps), strict=True):
        seen += len(step)
        assert buffer.inputs.tolist() == list(range(seen - 1, max(-1, seen - 1 - capacity), -1))


def test_reservoir_is_uniform_over_the_stream():
    counts = torch.zeros(60)
    trials = 3000
    for seed in range(trials):
        buffer = Reservoir(6, seed=seed)
        for start in range(0, 60, 5):
            x = torch.arange(start, start + 5)
            buffer.update(x, x, torch.zeros(5), buffer.losses)
        counts[buffer.inputs] += 1
    expected = trials * 6 / 60
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    assert chi_squared < 100, "59 degrees of freedom: below 100 but once in 2,000 seeds"


def test_reservoir_neither_follows_nor_disturbs_the_global_generator():
    held = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        buffer = Reservoir(5)
        x = torch.arange(50)
        buffer.update(x, x, torch.zeros(50), buffer.losses)
        held.append(buffer.inputs)
        assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(*held)


@given(STEPS, st.integers(1, 7), st.sampled_from(["hardest", "balanced", "recent", "reservoir"]))
def test_a_loaded_buffer_continues_alike(steps, cut, kind):
    make = {
        "hardest": lambda: Hardest(5),
        "balanced": lambda: Hardest(5, balanced=True),
        "recent": lambda: Recent(5),
        "reservoir": lambda: Reservoir(5, seed=3),
    }[kind]
    whole, begun, loaded = make(), make(), make()
    list(feed(whole, steps))
    list(feed(begun, steps[:cut]))
    loaded.load_state_dict(snapshot(begun))
    number = sum(map(len, steps[:cut]))
    for step in steps[cut:]:
        labels, losses = zip(*step, strict=True)
        x = torch.arange(number, number + len(step)).float()
        number += len(step)
        loaded.update(x, torch.tensor(labels), torch.tensor(losses), loaded.losses.clone())
    assert_same(snapshot(loaded), snapshot(whole))


def test_the_state_of_a_tuple_of_inputs_comes_back_as_a_tuple():
    buffer, other = Hardest(3), Hardest(3)
    x = (torch.arange(4.0), torch.ones(4, 2))
    buffer.update(x, {"label": torch.arange(4)}, torch.arange(4.0), buffer.losses)
    other.load_state_dict(snapshot(buffer))
    assert isinstance(other.inputs, tuple)
    assert torch.equal(other.inputs[0], torch.tensor([3.0, 2.0, 1.0]))
    assert torch.equal(other.targets["label"], torch.tensor([3, 2, 1]))


def test_a_larger_saved_buffer_is_refused():
    buffer, small = Hardest(9), Hardest(3)
    buffer.update(torch.arange(9.0), torch.zeros(9), torch.zeros(9), buffer.losses)
    with pytest.raises(ValueError, match="holds 9 samples and this one's capacity is 3"):
        small.load_state_dict(buffer.state_dict())
    assert len(small) == 0


def test_an_empty_buffer_says_so():
    with pytest.raises(ValueError, match="the buffer is empty"):
        Hardest(3).inputs  # noqa: B018


@pytest.mark.parametrize("kind", [Hardest, Recent, Reservoir])
@pytest.mark.parametrize("capacity", [0, -3, 1.5, "many", None, True])
def test_a_capacity_that_makes_no_sense(kind, capacity):
    with pytest.raises(
        (ValueError, TypeError), match="capacity must be a whole number of at least 1"
    ):
        kind(capacity)


def test_balanced_needs_one_label_a_sample():
    with pytest.raises(
        ValueError, match=r"one label a sample, got float32\[2\]; pass class indices"
    ):
        Hardest(3, balanced=True).check(torch.zeros(4, 1), torch.zeros(4, 2))


def test_no_graph_is_kept():
    buffer = Hardest(3)
    x = torch.ones(4, 2, requires_grad=True)
    buffer.update(x * 2, torch.zeros(4), (x * 2).sum(1), buffer.losses)
    assert not buffer.inputs.requires_grad
    assert not buffer.losses.requires_grad
