from itertools import pairwise

import pytest
import torch

from taskfree.paper.triggers import streams

STREAMS = list(streams.STREAMS)
pytestmark = pytest.mark.usefixtures("fashion_files")


@pytest.mark.parametrize("name", STREAMS)
def test_batches_tests_and_changes_fit_together(name):
    stream = streams.STREAMS[name](3)
    assert len(stream.batches) == len(stream.environments)
    assert set(stream.environments) == set(range(len(stream.tests)))
    assert all(len(x) == len(y) == 20 for x, y in stream.batches)
    assert len(stream.changes) >= 1
    assert min(b - a for a, b in pairwise([0, *stream.changes])) >= 100
    x, y = stream.batches[0]
    assert stream.loss(stream.model(x), y).shape == (20,)
    for x, y in stream.tests:
        with torch.no_grad():
            assert 0 <= stream.score(stream.model(x), y) <= 1


@pytest.mark.parametrize("name", STREAMS)
def test_the_seed_determines_a_stream_and_parts_have_different_data(name):
    first, again, other = (streams.STREAMS[name](3, part, steps=40) for part in (0, 0, 1))
    for (x, y), (a, b) in zip(first.batches, again.batches, strict=True):
        assert torch.equal(x, a)
        assert torch.equal(y, b)
    for one, two in zip(first.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, two)
    rows = {tuple(row) for x, _ in first.batches for row in x.tolist()}
    assert not rows & {tuple(row) for x, _ in other.batches for row in x.tolist()}


def test_drift_is_gradual():
    stream = streams.drifting(0)
    fractions = torch.stack([(x[:, 0] > 0).float().mean() for x, _ in stream.batches])
    assert fractions[:140].eq(1).all()
    assert ((fractions > 0) & (fractions < 1)).sum() > 60
    assert stream.changes == pytest.approx([200, 400, 600], abs=12)


def test_the_environments_transform_the_same_images():
    rotated = streams.rotated(1, steps=1)
    images = rotated.tests[0][0].view(-1, 28, 28)
    assert torch.equal(images.rot90(2, (1, 2)), rotated.tests[2][0].view(-1, 28, 28))
    permuted = streams.permuted(1, steps=1)
    assert torch.equal(permuted.tests[0][0].sort(1).values, permuted.tests[1][0].sort(1).values)
    assert not torch.equal(permuted.tests[0][0], permuted.tests[1][0])
    pairs = streams.split(1, steps=1)
    assert all(set(y.tolist()) == {0, 1} for _, y in pairs.tests)


def test_recurring_environments_alternate():
    stream = streams.recurring(1, steps=2)
    assert stream.environments == [0, 0, 1, 1, 0, 0, 1, 1]
    assert len(stream.tests) == 2
    assert stream.changes == [2, 4, 6]


def test_scores():
    assert streams.accuracy(torch.tensor([[1.0, 0], [1, 0]]), torch.tensor([0, 1])) == 0.5
    y = torch.randn(50, 2)
    assert streams.explained(y, y) == 1
    assert streams.explained(torch.zeros(50, 2), y) < 0.1
    assert streams.explained(10 * y, y) == 0
