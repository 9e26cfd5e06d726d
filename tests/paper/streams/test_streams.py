from itertools import pairwise

import pytest
import torch

from taskfree.paper.streams import STREAMS, STUDY

pytestmark = pytest.mark.usefixtures("fashion_files", "texts")


def short(name, *arguments):
    return STREAMS[name](*arguments, steps=40)


@pytest.mark.parametrize("name", STREAMS)
def test_batches_tests_and_changes_fit_together(name):
    stream = STREAMS[name](3)
    assert len(stream.batches) == len(stream.environments)
    assert set(stream.environments) == set(range(len(stream.tests)))
    assert all(len(x) == len(y) == 20 for x, y in stream.batches)
    assert len(stream.changes) >= 1
    assert min(b - a for a, b in pairwise([0, *stream.changes])) >= 80
    x, y = stream.batches[0]
    assert stream.loss(stream.model(x), y).shape == (20,)
    for x, y in stream.tests:
        with torch.no_grad():
            assert 0 <= stream.score(stream.model(x), y) <= 1


@pytest.mark.parametrize("name", STREAMS)
def test_the_seed_determines_a_stream_and_parts_have_different_data(name):
    first, again, other = short(name, 3, 0), short(name, 3, 0), short(name, 3, 1)
    for (x, y), (a, b) in zip(first.batches, again.batches, strict=True):
        assert torch.equal(x, a)
        assert torch.equal(y, b)
    for one, two in zip(first.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, two)
    rows = {tuple(row) for x, _ in first.batches for row in x.tolist()}
    assert not rows & {tuple(row) for x, _ in other.batches for row in x.tolist()}


def test_the_study_has_the_first_eight():
    assert len(STREAMS) >= 14
    assert STUDY[0] == "two quadrants"
    assert STUDY[-1] == "waves"
