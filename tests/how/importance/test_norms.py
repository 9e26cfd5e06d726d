import pytest
import torch

from taskfree.how.importance.norms import norm_slopes, output_norm, squared_slopes


@pytest.mark.parametrize("shapes", [[(4, 3)], [(4, 2, 3)], [(4,)], [(4, 3), (4, 2, 2)]])
def test_slopes_are_the_gradients_of_the_norm(shapes):
    outputs = [torch.randn(shape).double().requires_grad_() for shape in shapes]
    with torch.no_grad():
        for part in outputs:
            part[1] = 0  # a sample whose norm is 0
    rows = torch.stack([part.reshape(4, -1).square().sum(1) for part in outputs]).sum(0)
    for slopes, norms in ((squared_slopes, rows), (norm_slopes, rows[rows > 0].sqrt())):
        expected = torch.autograd.grad(norms.sum(), outputs, retain_graph=True)
        found = slopes([part.detach() for part in outputs])
        for slope, gradient, part in zip(found, expected, outputs, strict=True):
            torch.testing.assert_close(slope, gradient.nan_to_num())
            assert slope.dtype == part.dtype


@pytest.mark.parametrize("kind", ["squared", "norm"])
def test_the_norm_of_an_output(kind):
    parts = [torch.tensor([[3.0, 0.0]]), torch.tensor([[4.0]])]
    assert output_norm(parts, kind) == {"squared": 25, "norm": 5}[kind]
    nothing = torch.zeros(1, 2, requires_grad=True)
    norm = output_norm([nothing], kind)
    assert norm == 0
    assert torch.equal(torch.autograd.grad(norm, nothing)[0], torch.zeros(1, 2))
