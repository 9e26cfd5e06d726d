import numpy as np
import pytest
import torch
from PIL import Image

from taskfree.observe.image import encode_png, hardest, to_image


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)])
def test_other_programs_read_an_encoded_png(tmp_path, shape):
    image = torch.randint(0, 256, shape, dtype=torch.uint8)
    (tmp_path / "a.png").write_bytes(encode_png(image))
    with Image.open(tmp_path / "a.png") as opened:
        assert np.array_equal(np.array(opened), image.numpy())
    assert encode_png(image) == encode_png(image.clone())


def test_an_input_that_does_not_look_like_an_image_gives_none():
    for shape in ((7,), (2, 9, 9), (4, 9, 9), (3, 2, 2)):
        assert to_image(torch.rand(shape)) is None, shape


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((1, 5, 7), (5, 7)), ((3, 5, 7), (5, 7, 3)), ((5, 7, 1), (5, 7)), ((5, 7, 3), (5, 7, 3))],
)
def test_channels_come_last_and_values_fill_the_range_of_bytes(shape, expected):
    values = torch.rand(shape)
    image = to_image(values)
    assert image.shape == expected
    assert image.dtype == torch.uint8
    assert (int(image.min()), int(image.max())) == (0, 255)


def test_bytes_stay_as_they_are_and_constants_are_black():
    values = torch.randint(0, 256, (3, 5, 7), dtype=torch.uint8)
    assert torch.equal(to_image(values), values.permute(1, 2, 0))
    assert int(to_image(torch.full((5, 7), 3.0)).max()) == 0


def test_the_hardest_are_the_largest_losses():
    assert hardest(torch.tensor([0.1, 3.0, 2.0, 0.5]), 3) == [1, 2, 3]
    assert hardest(torch.tensor([0.1]), 24) == [0]
