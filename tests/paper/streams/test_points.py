import pytest
import torch

from taskfree.paper.streams import points


def test_drift_is_gradual():
    stream = points.drifting(0)
    fractions = torch.stack([(x[:, 0] > 0).float().mean() for x, _ in stream.batches])
    assert fractions[:140].eq(1).all()
    assert ((fractions > 0) & (fractions < 1)).sum() > 60
    assert stream.changes == pytest.approx([200, 400, 600], abs=12)


def test_regimes_come_back_and_say_which_they_are():
    stream = points.regimes(0, steps=2)
    assert stream.environments == [0, 0, 1, 1, 2, 2] * 3
    for environment, (x, _) in zip(stream.environments, stream.batches, strict=True):
        assert torch.equal(x[:, 3:].argmax(1), torch.full((20,), environment))


def test_every_regime_is_another_function_of_the_same_inputs():
    stream = points.regimes(0)
    (a, ya), (b, yb) = stream.tests[:2]
    near = torch.cdist(a[:, :3], b[:, :3]).min(1)
    pairs = near.values < 0.1
    assert pairs.sum() > 20
    assert (ya[pairs] - yb[near.indices[pairs]]).abs().mean() > 0.3
