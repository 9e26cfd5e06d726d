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
