import torch

from taskfree.robots import tiny


def test_bright_or_dark_makes_no_difference():
    torch.manual_seed(0)
    dark = torch.randint(20, 80, (3, 128, 128, 3), dtype=torch.uint8)
    bright = 3 * dark + 10
    close = torch.testing.assert_close
    close(tiny.scaled(dark), tiny.scaled(bright), rtol=1e-4, atol=1e-4)
    close(tiny.scaled(dark).mean((1, 2, 3)), torch.zeros(3), rtol=0, atol=1e-4)
    close(tiny.scaled(dark).std((1, 2, 3)), torch.ones(3), rtol=0, atol=1e-4)
    assert torch.equal(tiny.scaled(dark[:1]), tiny.scaled(dark)[:1]), "each picture by itself"


def test_a_picture_of_one_colour_is_nothing():
    assert not tiny.scaled(torch.full((1, 128, 128, 3), 7, dtype=torch.uint8)).any()
