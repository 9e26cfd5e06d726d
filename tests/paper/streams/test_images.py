import pytest
import torch

from taskfree.paper.streams import images

pytestmark = pytest.mark.usefixtures("fashion_files")


def test_the_environments_transform_the_same_images():
    rotated = images.rotated(1, steps=1)
    shown = rotated.tests[0][0].view(-1, 28, 28)
    assert torch.equal(shown.rot90(2, (1, 2)), rotated.tests[2][0].view(-1, 28, 28))
    permuted = images.permuted(1, steps=1)
    assert torch.equal(permuted.tests[0][0].sort(1).values, permuted.tests[1][0].sort(1).values)
    assert not torch.equal(permuted.tests[0][0], permuted.tests[1][0])
    pairs = images.split(1, steps=1)
    assert all(set(y.tolist()) == {0, 1} for _, y in pairs.tests)


def test_recurring_environments_alternate():
    stream = images.recurring(1, steps=2)
    assert stream.environments == [0, 0, 1, 1, 0, 0, 1, 1]
    assert len(stream.tests) == 2
    assert stream.changes == [2, 4, 6]


def test_classes_come_in_pairs_and_all_have_an_output():
    stream = images.class_incremental(1, steps=20)
    pairs = [set(y.tolist()) for _, y in stream.tests]
    assert [len(pair) for pair in pairs] == [2] * 5
    assert set.union(*pairs) == set(range(10))
    for environment, (_, y) in zip(stream.environments, stream.batches, strict=True):
        assert set(y.tolist()) <= pairs[environment]
    assert stream.model(stream.batches[0][0]).shape == (20, 10)


@pytest.mark.parametrize("fraction", [0.1, 0.2])
def test_a_fraction_of_the_labels_is_wrong(fraction):
    right, wrong = images.permuted(1, steps=50), images.wrong_labels(1, fraction=fraction, steps=50)
    y, other = (torch.cat([y for _, y in stream.batches]) for stream in (right, wrong))
    assert float((y != other).float().mean()) == pytest.approx(fraction, abs=0.02)
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(right.tests, wrong.tests, strict=True))
    assert all(
        torch.equal(a, b) for (a, _), (b, _) in zip(right.batches, wrong.batches, strict=True)
    )


def test_one_class_is_one_in_fifty_but_for_the_tests():
    stream = images.imbalanced(1, steps=100)
    counts = torch.cat([y for _, y in stream.batches]).bincount(minlength=10) / 8000
    rare = int(counts.argmin())
    assert float(counts[rare]) == pytest.approx(0.02, abs=0.01)
    assert counts[torch.arange(10) != rare].min() > 0.05
    assert (stream.tests[0][1] == rare).float().mean() > 0.05


def test_a_tenth_of_every_batch_is_from_other_environments():
    sharp, mixed = images.rotated(1, steps=5), images.blurry(1, steps=5)
    for step, ((x, _), (other, _)) in enumerate(zip(sharp.batches, mixed.batches, strict=True)):
        assert (x != other).any(1).tolist() == [True] * 2 + [False] * 18
        elsewhere = torch.cat(
            [x for e, (x, _) in zip(sharp.environments, sharp.batches, strict=True)
             if e != sharp.environments[step]]
        )  # fmt: skip
        assert all((elsewhere == row).all(1).any() for row in other[:2])


def test_twenty_permutations():
    assert len(images.twenty(1, steps=1).tests) == 20
