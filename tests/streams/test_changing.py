import gzip

import pytest
import torch

from taskfree.streams import changing, fashion

STREAMS = list(changing.STREAMS)


@pytest.fixture(autouse=True, scope="module")
def pictures(tmp_path_factory):
    """Files in Fashion-MNIST's format, small and random: what is in the pictures is not tested."""
    folder = tmp_path_factory.mktemp("fashion")
    generator = torch.Generator().manual_seed(0)
    for part, count in (("train", 2000), ("t10k", 400)):
        bytes_ = torch.randint(256, (count, 28, 28), dtype=torch.uint8, generator=generator)
        labels = torch.randint(10, (count,), dtype=torch.uint8, generator=generator)
        for name, header, content in (("images-idx3", 16, bytes_), ("labels-idx1", 8, labels)):
            with gzip.open(folder / f"{part}-{name}-ubyte.gz", "wb") as file:
                file.write(bytes(header) + content.numpy().tobytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fashion, "FOLDERS", (folder,))
        yield folder


def test_the_files_are_read_as_they_are(pictures):
    x, y = fashion.load(pictures, "t10k")
    generator = torch.Generator().manual_seed(0)
    torch.randint(256, (2000, 28, 28), dtype=torch.uint8, generator=generator)
    torch.randint(10, (2000,), dtype=torch.uint8, generator=generator)
    expected = torch.randint(256, (400, 28, 28), dtype=torch.uint8, generator=generator)
    assert torch.equal(x, expected)
    assert y.dtype == torch.long
    assert set(y.tolist()) == set(range(10))


@pytest.mark.parametrize("name", STREAMS)
def test_it_is_what_it_says(name):
    stream = changing.STREAMS[name](3)
    assert len(stream.batches) == len(stream.environments)
    assert set(stream.environments) == set(range(len(stream.tests)))
    assert all(len(x) == len(y) == 20 for x, y in stream.batches)
    assert len(stream.changes) >= 1
    assert min(b - a for a, b in zip([0, *stream.changes], stream.changes, strict=False)) >= 100
    x, y = stream.batches[0]
    assert stream.loss(stream.model(x), y).shape == (20,)
    for x, y in stream.tests:
        with torch.no_grad():
            assert 0 <= stream.score(stream.model(x), y) <= 1


@pytest.mark.parametrize("name", STREAMS)
def test_a_seed_makes_it_again_and_another_part_is_other_data(name):
    first, again, other = (changing.STREAMS[name](3, part) for part in (0, 0, 1))
    for (x, y), (a, b) in zip(first.batches, again.batches, strict=True):
        assert torch.equal(x, a)
        assert torch.equal(y, b)
    for one, two in zip(first.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, two)
    rows = {tuple(row) for x, _ in first.batches for row in x.tolist()}
    assert not rows & {tuple(row) for x, _ in other.batches for row in x.tolist()}


def test_drift_is_gradual():
    stream = changing.drifting(0)
    signs = torch.stack([(x[:, 0] > 0).float().mean() for x, _ in stream.batches])
    assert signs[:140].eq(1).all()
    assert ((signs > 0) & (signs < 1)).sum() > 60
    assert stream.changes == pytest.approx([200, 400, 600], abs=12)


def test_without_the_pictures_it_says_how_to_get_them(tmp_path):
    with pytest.raises(FileNotFoundError, match="dataset-fashion-mnist"):
        fashion.find(tmp_path)


def test_the_views_are_of_the_same_pictures():
    turned = changing.rotated(1, steps=1)
    flat = turned.tests[0][0].view(-1, 28, 28)
    assert torch.equal(flat.rot90(2, (1, 2)), turned.tests[2][0].view(-1, 28, 28))
    mixed = changing.permuted(1, steps=1)
    assert torch.equal(mixed.tests[0][0].sort(1).values, mixed.tests[1][0].sort(1).values)
    pairs = changing.split(1, steps=1)
    assert all(set(y.tolist()) == {0, 1} for _, y in pairs.tests)


def test_scores():
    assert changing.accuracy(torch.tensor([[1.0, 0], [1, 0]]), torch.tensor([0, 1])) == 0.5
    y = torch.randn(50, 2)
    assert changing.explained(y, y) == 1
    assert changing.explained(torch.zeros(50, 2), y) < 0.1
    assert changing.explained(10 * y, y) == 0
