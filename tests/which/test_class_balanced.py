import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from samples import STEPS, offer
from taskfree.which import ClassBalanced, Reservoir
from taskfree.which.balance import share_equally
from taskfree.which.rows import to_front


@given(STEPS, st.integers(1, 12))
def test_labels_share_the_capacity(steps, capacity):
    buffer, seen = ClassBalanced(capacity, replay=2), torch.zeros(4)
    for step, _ in zip(steps, offer(buffer, steps), strict=True):
        seen += torch.tensor([label for label, _ in step]).bincount(minlength=4)
        counts = buffer.targets.bincount(minlength=4)
        assert counts.sum() == min(capacity, seen.sum())
        most = counts.max()
        short = (counts < most - 1).nonzero().flatten()
        # a label has fewer than the others only if all its samples are held, or were let go when
        # its share was smaller
        assert all(counts[label] <= seen[label] for label in short)
        if capacity >= 4:
            assert all(counts[label] > 0 for label in range(4) if seen[label])


def test_within_a_label_every_sample_is_kept_equally_often():
    counts, trials = torch.zeros(40), 2000
    for seed in range(trials):
        buffer = ClassBalanced(8, seed=seed)
        for start in range(0, 40, 5):
            x = torch.arange(start, start + 5)
            joint, _ = buffer.join(x, x % 2)
            buffer.update(torch.zeros(len(joint)))
        counts[buffer.inputs] += 1
    expected = trials * 8 / 40
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    assert chi_squared < 73, "with 39 degrees of freedom, above 73 once in 1,000 trials"


def test_a_rare_label_is_kept_where_a_uniform_sample_misses_it():
    found = {}
    for kind in (ClassBalanced, Reservoir):
        buffer = kind(20, seed=2)
        for step in range(100):
            labels = torch.zeros(10).long()
            labels[0] = int(step == 7)
            joint, _ = buffer.join(torch.arange(10), labels)
            buffer.update(torch.zeros(len(joint)))
        found[kind] = int(buffer.targets.sum())
    assert found == {ClassBalanced: 1, Reservoir: 0}


def test_targets_that_are_not_labels_are_refused():
    buffer = ClassBalanced(5)
    with pytest.raises(ValueError, match=r"one label per sample, got float32\[2\]; pass class"):
        buffer.check(torch.zeros(3), torch.zeros(3, 2))


class Sorted(ClassBalanced):
    """Sorts all samples by label and priority in every update."""

    def _choose(self, priority):
        order = priority.argsort(stable=True)
        best_last = share_equally(order, self._targets[: len(priority)])
        return to_front(best_last[-self.capacity :])


@given(
    st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), min_size=5, max_size=40),
    st.integers(1, 12), st.booleans(), st.integers(0, 3),
)  # fmt: skip
def test_what_is_kept_is_what_sorting_by_label_and_priority_would_keep(
    steps, capacity, halves, seed
):
    buffers = [kind(capacity, replay=2, seed=seed) for kind in (ClassBalanced, Sorted)]
    for number, labels in enumerate(steps):
        y = torch.tensor(labels) > 2 if halves else torch.tensor(labels)
        for buffer in buffers:
            joint, _ = buffer.join(torch.arange(len(y)) + 10 * number, y)
            buffer.update(torch.zeros(len(joint)))
        fast, slow = (buffer.state_dict() for buffer in buffers)
        assert fast.keys() == slow.keys()
        assert all(torch.equal(fast[name], slow[name]) for name in fast)


def test_a_failed_step_leaves_no_trace_in_what_is_kept():
    buffers = [ClassBalanced(6, seed=3) for _ in range(2)]
    for step in range(30):
        x, y = torch.arange(4) + 10 * step, torch.arange(4) % 3
        for buffer in buffers:
            joint, _ = buffer.join(x, y)
            if step == 10 and buffer is buffers[1]:  # as a learner undoes a step that fails
                before = vars(buffer).copy()
                columns = [column.clone() for column in (buffer._inputs, buffer._targets)]
                buffer.update(torch.ones(len(joint)))
                vars(buffer).update(before)
                buffer._inputs.copy_(columns[0])
                buffer._targets.copy_(columns[1])
            buffer.update(torch.zeros(len(joint)))
    assert buffers[0].inputs.tolist() == buffers[1].inputs.tolist()
