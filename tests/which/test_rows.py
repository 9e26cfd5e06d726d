"""What all buffers share: rows that hold samples, and their state."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from same import assert_same, snapshot
from samples import STEPS, held, offer
from taskfree.which import ClassBalanced, Hardest, Recent, Reservoir

BUFFERS = {
    "hardest": lambda: Hardest(5),
    "balanced": lambda: Hardest(5, balanced=True),
    "recent": lambda: Recent(5),
    "reservoir": lambda: Reservoir(5, seed=3),
    "reservoir, 2 replayed": lambda: Reservoir(5, replay=2, seed=3),
    "class-balanced": lambda: ClassBalanced(5, replay=3, seed=3),
}


@given(STEPS, st.integers(1, 12))
def test_a_join_without_an_update_leaves_no_trace(steps, capacity):
    buffer, other = Hardest(capacity), Hardest(capacity)
    for one, two, step in zip(offer(buffer, steps), offer(other, steps), steps, strict=True):
        assert one == two
        buffer.join(torch.full((len(step) + 3,), -1.0), torch.zeros(len(step) + 3).long())
        assert held(buffer) == held(other)


@given(STEPS, st.integers(1, 7), st.sampled_from(list(BUFFERS)))
def test_a_loaded_buffer_continues_alike(steps, cut, kind):
    whole, first, second = (BUFFERS[kind]() for _ in range(3))
    list(offer(whole, steps))
    list(offer(first, steps[:cut]))
    second.load_state_dict(snapshot(first))
    list(offer(second, steps[cut:], first=sum(map(len, steps[:cut]))))
    assert_same(snapshot(second), snapshot(whole))


@pytest.mark.parametrize("kind", BUFFERS)
def test_an_empty_state_empties_a_buffer(kind):
    buffer = BUFFERS[kind]()
    list(offer(buffer, [[(0, 1.0), (1, 2.0)]]))
    buffer.load_state_dict(snapshot(BUFFERS[kind]()))
    assert len(buffer) == 0
    assert_same(snapshot(buffer), snapshot(BUFFERS[kind]()))


def test_tuples_and_dicts_survive_saving():
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


def test_the_order_of_keys_does_not_matter():
    buffer = Hardest(2)
    buffer.join({"a": torch.zeros(2), "b": torch.ones(2, 3)}, torch.zeros(2))
    buffer.update(torch.ones(2))
    other = {"b": torch.ones(2, 3), "a": torch.zeros(2)}
    buffer.check(other, torch.zeros(2))
    joint, _ = buffer.join(other, torch.zeros(2))
    assert joint["b"].shape == (4, 3)


@pytest.mark.parametrize("name", ["inputs", "targets"])
def test_an_empty_buffer_has_no_samples(name):
    with pytest.raises(ValueError, match="the buffer is empty"):
        getattr(Hardest(3), name)


@pytest.mark.parametrize("kind", [Hardest, ClassBalanced, Recent, Reservoir])
@pytest.mark.parametrize("capacity", [0, -3, 1.5, "many", None, True])
def test_an_invalid_capacity(kind, capacity):
    message = f"capacity must be an integer of at least 1, got {capacity!r}"
    with pytest.raises((ValueError, TypeError), match=message):
        kind(capacity)


def test_a_buffer_holds_no_graph():
    buffer = Hardest(3)
    x = torch.ones(4, 2, requires_grad=True)
    with torch.no_grad():
        buffer.join(x * 2, torch.zeros(4))
    buffer.update((x * 2).sum(1))
    assert not buffer.inputs.requires_grad
    assert not buffer.losses.requires_grad
