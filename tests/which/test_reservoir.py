import pytest
import torch

from taskfree.which import Reservoir


def kept(buffer, samples, per_step):
    """What a buffer keeps of numbered samples."""
    for start in range(0, samples, per_step):
        x = torch.arange(start, start + per_step)
        joint, _ = buffer.join(x, x)
        buffer.update(torch.zeros(len(joint)))
    return buffer.inputs


def test_reservoir_is_uniform_over_the_stream():
    counts = torch.zeros(60)
    trials = 3000
    for seed in range(trials):
        counts[kept(Reservoir(6, seed=seed), 60, 5)] += 1
    expected = trials * 6 / 60
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    assert chi_squared < 100, "with 59 degrees of freedom, above 100 once in 2,000 trials"


def test_reservoir_neither_follows_nor_disturbs_the_global_generator():
    found = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        found.append(kept(Reservoir(5), 50, 50))
        assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(*found)


def test_the_seed_decides_which_samples_are_kept():
    first, second = (sorted(kept(Reservoir(5, seed=seed), 50, 50).tolist()) for seed in (0, 1))
    assert first != second
    with pytest.raises(ValueError, match="seed must be an integer of at least 0, got -1"):
        Reservoir(5, seed=-1)


def counts(targets, capacity=8, **options):
    """How many samples of 0 and of 1 are kept of a stream in which few are 1."""
    buffer = Reservoir(capacity, seed=1, **options)
    for _ in range(4):
        joint, _ = buffer.join(torch.arange(40), targets)
        buffer.update(torch.zeros(len(joint)))
    return [int((buffer.targets == label).sum()) for label in (0, 1)]


LABELS = torch.tensor([0] * 38 + [1] * 2)


@pytest.mark.parametrize(
    ("targets", "balanced", "shared"),
    [
        (LABELS, False, False),
        (LABELS, True, True),
        (LABELS, "auto", True),
        (LABELS.bool(), "auto", True),
        (LABELS.float(), "auto", False),  # numbers, not labels
        (LABELS.float(), True, True),
    ],
)
def test_labels_share_the_capacity_if_it_is_balanced(targets, balanced, shared):
    found = counts(targets, balanced=balanced)
    assert (found == [4, 4]) is shared, found


def test_balance_is_only_for_labels():
    rows = torch.zeros(3, 2)
    Reservoir(5, balanced="auto").check(rows, rows)
    with pytest.raises(ValueError, match=r"Reservoir\(\.\.\.\) needs targets of one label"):
        Reservoir(5, balanced=True).check(rows, rows)
    with pytest.raises(ValueError, match="balanced must be True or False or 'auto', got 'always'"):
        Reservoir(5, balanced="always")
