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
        buffer.check(x, torch.tensor(labels))
        joint, _ = buffer.join(x, torch.tensor(labels))
        losses = torch.cat([buffer.losses, torch.tensor(losses)])
        candidates = list(zip(joint.tolist(), losses.tolist(), strict=True))
        buffer.update(losses)
        yield candidates


def held(buffer):
    return sorted(zip(buffer.inputs.tolist(), buffer.losses.tolist(), strict=True))


@given(STEPS, st.integers(1, 12))
def test_hardest_keeps_the_highest_losses(steps, capacity):
    buffer, held_before = Hardest(capacity), []
    for candidates in feed(buffer, steps):
        kept = held(buffer)
        assert set(kept) <= set(candidates)
        expected = sorted((loss for _, loss in candidates), reverse=True)[:capacity]
        assert sorted((loss for _, loss in kept), reverse=True) == expected
        # of equal losses the newer sample is kept
        edge = min(loss for _, loss in kept)
        dropped_new = {n for n, loss in candidates if loss == edge} - {n for n, _ in kept}
        if any(number not in held_before for number in dropped_new):
            assert not any(n in held_before for n, loss in kept if loss == edge)
        held_before = [number for number, _ in kept]


@given(STEPS, st.integers(1, 12))
def test_balanced_shares_the_capacity_equally(steps, capacity):
    buffer = Hardest(capacity, balanced=True)
    label_of = dict(enumerate(label for step in steps for label, _ in step))
    for candidates in feed(buffer, steps):
        numbers = buffer.inputs.tolist()
        assert len(numbers) == min(capacity, len(candidates))
        assert buffer.targets.tolist() == [label_of[int(number)] for number in numbers]
        counts, offered = {}, {}
        for number, _ in candidates:
            offered.setdefault(label_of[int(number)], []).append(number)
        for number in numbers:
            counts.setdefault(label_of[int(number)], []).append(number)
        sizes = {label: len(counts.get(label, [])) for label in offered}
        for label, offers in offered.items():
            # who has less than another by more than one has given all it had
            if max(sizes.values()) - sizes[label] > 1:
                assert sizes[label] == len(offers)
            # and hardest first within each
            loss = dict(candidates)
            kept = sorted((loss[n] for n in counts.get(label, [])), reverse=True)
            assert kept == sorted((loss[n] for n in offers), reverse=True)[: len(kept)]


@given(STEPS, st.integers(1, 12))
def test_recent_is_first_in_first_out(steps, capacity):
    buffer, seen = Recent(capacity), 0
    for step, _ in zip(steps, feed(buffer, steps), strict=True):
        seen += len(step)
        assert sorted(buffer.inputs.tolist()) == list(range(max(0, seen - capacity), seen))


@given(STEPS, st.integers(1, 12))
def test_a_join_that_is_not_followed_by_an_update_leaves_no_trace(steps, capacity):
    buffer, other = Hardest(capacity), Hardest(capacity)
    for one, two, step in zip(feed(buffer, steps), feed(other, steps), steps, strict=True):
        assert one == two
        buffer.join(torch.full((len(step) + 3,), -1.0), torch.zeros(len(step) + 3).long())
        assert held(buffer) == held(other)


def test_reservoir_is_uniform_over_the_stream():
    counts = torch.zeros(60)
    trials = 3000
    for seed in range(trials):
        buffer = Reservoir(6, seed=seed)
        for start in range(0, 60, 5):
            x = torch.arange(start, start + 5)
            buffer.join(x, x)
            buffer.update(torch.zeros(len(buffer) + 5))
        counts[buffer.inputs] += 1
    expected = trials * 6 / 60
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    assert chi_squared < 100, "59 degrees of freedom: below 100 but once in 2,000 seeds"


def test_reservoir_neither_follows_nor_disturbs_the_global_generator():
    kept = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        buffer = Reservoir(5)
        x = torch.arange(50)
        buffer.join(x, x)
        buffer.update(torch.zeros(50))
        kept.append(buffer.inputs)
        assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(*kept)


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
        loaded.join(x, torch.tensor(labels))
        loaded.update(torch.cat([loaded.losses, torch.tensor(losses)]))
    assert_same(snapshot(loaded), snapshot(whole))


def test_the_state_of_a_tuple_of_inputs_comes_back_as_a_tuple():
    buffer, other = Hardest(3), Hardest(3)
    x = (torch.arange(4.0), torch.ones(4, 2))
    buffer.join(x, {"label": torch.arange(4)})
    buffer.update(torch.arange(4.0))
    other.load_state_dict(snapshot(buffer))
    assert isinstance(other.inputs, tuple)
    assert torch.equal(other.inputs[0], torch.tensor([3.0, 1.0, 2.0]))
    assert torch.equal(other.targets["label"], torch.tensor([3, 1, 2]))


def test_a_larger_saved_buffer_is_refused():
    buffer, small = Hardest(9), Hardest(3)
    buffer.join(torch.arange(9.0), torch.zeros(9))
    buffer.update(torch.zeros(9))
    with pytest.raises(ValueError, match="holds 9 samples and this one's capacity is 3"):
        small.load_state_dict(buffer.state_dict())
    assert len(small) == 0


def test_balanced_takes_labels_of_any_dtype():
    for dtype in (torch.bool, torch.int8, torch.int64, torch.float32):
        buffer = Hardest(2, balanced=True)
        buffer.join(torch.arange(4.0), torch.tensor([0, 0, 0, 1]).to(dtype))
        buffer.update(torch.tensor([3.0, 2.0, 1.0, 0.0]))
        assert held(buffer) == [(0.0, 3.0), (3.0, 0.0)]


def test_dicts_may_come_in_another_order():
    buffer = Hardest(2)
    buffer.join({"a": torch.zeros(2), "b": torch.ones(2, 3)}, torch.zeros(2))
    buffer.update(torch.ones(2))
    other = {"b": torch.ones(2, 3), "a": torch.zeros(2)}
    buffer.check(other, torch.zeros(2))
    joint, _ = buffer.join(other, torch.zeros(2))
    assert joint["b"].shape == (4, 3)


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
    with torch.no_grad():
        buffer.join(x * 2, torch.zeros(4))
    buffer.update((x * 2).sum(1))
    assert not buffer.inputs.requires_grad
    assert not buffer.losses.requires_grad
