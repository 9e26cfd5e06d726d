import pytest
import torch

from taskfree.paper.streams import ball


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("flat", [False, True])
def test_the_points_of_a_quadrant(number, flat):
    x, y = ball.quadrant(number, 1001, torch.Generator().manual_seed(0), flat=flat)
    assert x.shape == (1001, 4)
    assert int(y.sum()) == 501, "half inside, half outside"
    signs = torch.tensor(ball.SIGNS[number - 1])
    assert bool((x[:, :2] * signs >= 0.5).all() & (x[:, :2] * signs <= 1).all())
    radius = x.norm(dim=1)
    assert torch.equal(y, (radius < 1).long())
    assert float((radius - 1).abs().min()) > ball.GAP
    assert bool((x[:, 2:] == 0).all()) == flat
    assert float(x[:, 2:].abs().max()) <= 1


def test_the_order_is_random_and_the_seed_determines_the_points():
    x, y = ball.quadrant(1, 1000, torch.Generator().manual_seed(0))
    again, _ = ball.quadrant(1, 1000, torch.Generator().manual_seed(0))
    other, _ = ball.quadrant(1, 1000, torch.Generator().manual_seed(1))
    assert torch.equal(x, again)
    assert not torch.equal(x, other)
    assert 400 < int(y[:500].sum()) * 2 < 600
