import pytest
import torch

from taskfree.paper.streams import fashion


def test_the_files_are_read_exactly(fashion_files):
    x, y = fashion.load(fashion_files, "t10k")
    generator = torch.Generator().manual_seed(0)
    torch.randint(256, (2000, 28, 28), dtype=torch.uint8, generator=generator)
    torch.randint(10, (2000,), dtype=torch.uint8, generator=generator)
    expected = torch.randint(256, (400, 28, 28), dtype=torch.uint8, generator=generator)
    assert torch.equal(x, expected)
    assert y.dtype == torch.long
    assert set(y.tolist()) == set(range(10))


def test_the_default_folders_are_searched(fashion_files):
    assert fashion.find() == fashion_files


def test_without_the_files_the_error_says_how_to_get_them(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is not in .*dataset-fashion-mnist"):
        fashion.find(tmp_path)
