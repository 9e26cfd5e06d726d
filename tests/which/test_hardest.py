import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from samples import STEPS, held, offer
from taskfree.which import Hardest


@given(STEPS, st.integers(1, 12))
def test_hardest_keeps_the_highest_losses(steps, capacity):
    buffer, held_before = Hardest(capacity), []
    for candidates in offer(buffer, steps):
        kept = held(buffer)
        assert set(kept) <= set(candidates)
        expected = sorted((loss for _, loss in candidates), reverse=True)[:capacity]
        assert sorted((loss for _, loss in kept), reverse=True) == expected
        # of equal losses, the newer sample is kept
        edge = min(loss for _, loss in kept)
        dropped = {n for n, loss in candidates if loss == edge} - {n for n, _ in kept}
        if any(number not in held_before for number in dropped):
            assert not any(n in held_before for n, loss in kept if loss == edge)
        held_before = [number for number, _ in kept]


@given(STEPS, st.integers(1, 12))
def test_balanced_shares_the_capacity_equally_over_the_labels(steps, capacity):
    buffer = Hardest(capacity, balanced=True)
    label_of = dict(enumerate(label for step in steps for label, _ in step))
    for candidates in offer(buffer, steps):
        numbers = buffer.inputs.tolist()
        assert len(numbers) == min(capacity, len(candidates))
        assert buffer.targets.tolist() == [label_of[int(number)] for number in numbers]
        kept, offered = {}, {}
        for number, _ in candidates:
            offered.setdefault(label_of[int(number)], []).append(number)
        for number in numbers:
            kept.setdefault(label_of[int(number)], []).append(number)
        sizes = {label: len(kept.get(label, [])) for label in offered}
        loss = dict(candidates)
        for label, offers in offered.items():
            # a label with fewer samples than another, by more than one, has no more to give
            if max(sizes.values()) - sizes[label] > 1:
                assert sizes[label] == len(offers)
            # hardest first within each label
            losses = sorted((loss[n] for n in kept.get(label, [])), reverse=True)
            assert losses == sorted((loss[n] for n in offers), reverse=True)[: len(losses)]


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.int64, torch.float32])
def test_balanced_takes_labels_of_any_dtype(dtype):
    buffer = Hardest(2, balanced=True)
    buffer.join(torch.arange(4.0), torch.tensor([0, 0, 0, 1]).to(dtype))
    buffer.update(torch.tensor([3.0, 2.0, 1.0, 0.0]))
    assert held(buffer) == [(0.0, 3.0), (3.0, 0.0)]


def test_balanced_requires_one_label_per_sample():
    message = r"one label per sample, got float32\[2\]; pass class indices"
    with pytest.raises(ValueError, match=message):
        Hardest(3, balanced=True).check(torch.zeros(4, 1), torch.zeros(4, 2))
    Hardest(3).check(torch.zeros(4, 1), torch.zeros(4, 2))
