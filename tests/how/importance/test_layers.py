"""Each closed form alone, against one backward pass per sample."""

import pytest
import torch
from torch import nn

from taskfree.how.importance import layers

LAYERS = {
    "linear": (lambda: nn.Linear(4, 3), (5, 4)),
    "linear over positions": (lambda: nn.Linear(4, 3), (5, 2, 4)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), (5, 4, 11)),
    "conv2d, reflected": (
        lambda: nn.Conv2d(2, 3, 3, padding="same", padding_mode="reflect"), (5, 2, 6, 6),
    ),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2), (3, 2, 4, 4, 4)),
    "batch norm": (lambda: nn.BatchNorm1d(4).eval(), (5, 4)),
    "batch norm of images": (lambda: nn.BatchNorm2d(4).eval(), (5, 4, 3, 3)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (5, 4, 3)),
    "layer norm": (lambda: nn.LayerNorm(4), (5, 2, 4)),
    "rms norm": (lambda: nn.RMSNorm(4), (5, 4)),
    "embedding": (lambda: nn.Embedding(10, 4, padding_idx=3), "words"),
}  # fmt: skip


def calls_and_gradients(layer, shape, count):
    """The calls of a layer, and the absolute gradients of its parameters, summed over samples."""
    words = shape == "words"
    inputs = [
        torch.randint(0, 10, (6, 5)) if words else torch.randn(shape).double() for _ in range(count)
    ]
    deltas = [torch.randn_like(layer(a)) for a in inputs]
    total = {name: torch.zeros_like(value) for name, value in layer.named_parameters()}
    for row in range(len(inputs[0])):
        outputs = [layer(a[row : row + 1]) for a in inputs]
        ahead = [delta[row : row + 1] for delta in deltas]
        gradients = torch.autograd.grad(outputs, list(layer.parameters()), ahead)
        for name, gradient in zip(total, gradients, strict=True):
            total[name] += gradient.abs()
    return [(a, delta.detach()) for a, delta in zip(inputs, deltas, strict=True)], total


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", LAYERS)
def test_a_closed_form_is_the_sum_of_absolute_gradients(name, count):
    make, shape = LAYERS[name]
    layer = make().double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    calls, expected = calls_and_gradients(layer, shape, count)
    form = next(form for kind, form in layers.FORMS.items() if isinstance(layer, kind))
    found = {name: torch.ones_like(value) for name, value in layer.named_parameters()}
    form(layer, calls, found, 2.0)  # adds 2 times the sum
    for key, value in expected.items():
        assert float(value.max()) > 0
        torch.testing.assert_close(found[key], 1 + 2 * value, rtol=1e-10, atol=1e-10)


def test_a_closed_form_leaves_out_parameters_without_a_sum():
    layer = nn.Linear(4, 3).double()
    calls, expected = calls_and_gradients(layer, (5, 4), 1)
    found = {"bias": torch.zeros(3).double()}
    layers.linear(layer, calls, found, 1.0)
    assert list(found) == ["bias"]
    torch.testing.assert_close(found["bias"], expected["bias"])


@pytest.mark.parametrize(("samples", "numbers"), [(1, 1), (7, 2**23), (7, 2**30), (0, 5), (3, 0)])
def test_chunks_cover_every_sample_once(samples, numbers):
    slices = list(layers.chunks(samples, numbers))
    rows = [row for part in slices for row in range(samples)[part]]
    assert rows == list(range(samples))
    sizes = [len(range(samples)[part]) for part in slices]
    assert all(size == 1 or size * numbers <= layers.CHUNK for size in sizes)
