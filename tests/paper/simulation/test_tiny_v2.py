import torch

from taskfree.paper.simulation import tiny_v2


def test_brightness_and_contrast_make_no_difference():
    torch.manual_seed(0)
    dark = torch.randint(20, 80, (3, 128, 128, 3), dtype=torch.uint8)
    bright = 3 * dark + 10
    close = torch.testing.assert_close
    close(tiny_v2.standardize(dark), tiny_v2.standardize(bright), rtol=1e-4, atol=1e-4)
    close(tiny_v2.standardize(dark).mean((1, 2, 3)), torch.zeros(3), rtol=0, atol=1e-4)
    close(tiny_v2.standardize(dark).std((1, 2, 3)), torch.ones(3), rtol=0, atol=1e-4)
    alone = tiny_v2.standardize(dark[:1])
    assert torch.equal(alone, tiny_v2.standardize(dark)[:1]), "each image by itself"


def test_an_image_of_one_colour_becomes_zero():
    assert not tiny_v2.standardize(torch.full((1, 128, 128, 3), 7, dtype=torch.uint8)).any()


def test_the_seed_determines_the_weights():
    one, again, other = (tiny_v2.network(seed=seed) for seed in (1, 1, 2))
    assert all(map(torch.equal, one.parameters(), again.parameters()))
    assert not torch.equal(one[0].weight, other[0].weight)
