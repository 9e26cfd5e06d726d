"""Models with every kind of layer, and their importance by definition."""

import torch
from torch import nn


def importance_by_definition(model, rows, output="squared"):
    """1/N sum_k |d f(x_k) / d theta|, with one backward pass per sample."""
    model.eval()
    learning = {name: value for name, value in model.named_parameters() if value.requires_grad}
    total = {name: torch.zeros_like(value) for name, value in learning.items()}
    for row in rows:
        if isinstance(row, dict):
            out = model(**{key: column[None] for key, column in row.items()})
        elif isinstance(row, tuple):
            out = model(*(column[None] for column in row))
        else:
            out = model(row[None])
        outs = out if isinstance(out, tuple) else (out,)
        squared = sum((part**2).sum() for part in outs)
        norm = squared if output == "squared" else squared.sqrt()
        gradients = torch.autograd.grad(norm, list(learning.values()), allow_unused=True)
        for name, gradient in zip(learning, gradients, strict=True):
            if gradient is not None:
                total[name] += gradient.abs() / len(rows)
    return total


def inputs_for(shape):
    """Inputs of this shape, or words."""
    return torch.randint(0, 10, (6, 5)) if shape == "words" else torch.randn(shape).double()


def warmed_up(make, x):
    """A model in float64 whose running statistics are not their initial values."""
    model = make().double()
    with torch.no_grad():
        model(x)
    return model


def assert_exact(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-10, atol=1e-10 * float(value.max()))
    assert any(float(value.max()) > 0 for value in expected.values())


class First(nn.Module):
    """A recurrent layer's sequence of outputs, without its last state."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)[0]


class Twice(nn.Module):
    """One layer used twice in a forward pass."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(torch.tanh(self.layer(x)))


class Tied(nn.Module):
    """An embedding whose weight is also the output layer's."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.out = nn.Linear(4, 10, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, words):
        return self.out(self.embedding(words).mean(1))


class Branching(nn.Module):
    """Control flow that depends on the data: vmap cannot trace it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.other = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else self.other(x)


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Bilinear(4, 3, 2)

    def forward(self, left, right):
        return self.mix(left, right)


class TwoOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x), self.layer(x).tanh()


NUMBERS = (6, 4)
MODELS = {
    "linear": (lambda: nn.Linear(4, 3), NUMBERS),
    "linear without bias": (lambda: nn.Linear(4, 3, bias=False), NUMBERS),
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 2)), NUMBERS),
    "linear over a sequence": (lambda: nn.Linear(4, 3), (5, 7, 4)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), (5, 4, 11)),
    "conv2d": (lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), (5, 4, 9, 8)),
    "conv2d same": (
        lambda: nn.Conv2d(4, 6, 3, padding="same", padding_mode="reflect"),
        (5, 4, 6, 6),
    ),
    "depthwise": (lambda: nn.Conv2d(4, 8, 3, groups=4), (5, 4, 6, 6)),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2), (3, 2, 4, 4, 4)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2), (5, 4, 5, 5)),
    "batch norm": (
        lambda: nn.Sequential(nn.Conv2d(4, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten()),
        (5, 4, 6, 6),
    ),
    "layer norm": (lambda: nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2)), NUMBERS),
    "group norm": (
        lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(12, 2)),
        (5, 4, 3),
    ),
    "dropout": (lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout(), nn.Linear(3, 2)), NUMBERS),
    "embedding": (lambda: nn.Sequential(nn.Embedding(10, 4), nn.Tanh()), "words"),
    "embedding bag": (lambda: nn.EmbeddingBag(10, 4), "words"),
    "lstm": (lambda: First(nn.LSTM(4, 3, batch_first=True)), (5, 7, 4)),
    "bidirectional lstm": (
        lambda: First(nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True)),
        (5, 7, 4),
    ),
    "gru": (lambda: First(nn.GRU(4, 3, batch_first=True)), (5, 7, 4)),
    "rnn": (lambda: First(nn.RNN(4, 3, batch_first=True)), (5, 7, 4)),
    "attention": (Attention, (5, 7, 8)),
    "transformer": (
        lambda: nn.Sequential(
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 3)
        ),
        (5, 7, 8),
    ),
    "used twice": (Twice, NUMBERS),
    "tied": (Tied, "words"),
    "prelu": (lambda: nn.Sequential(nn.Linear(4, 3), nn.PReLU(3)), NUMBERS),
    "branching": (Branching, NUMBERS),
    "two outputs": (TwoOutputs, NUMBERS),
}  # fmt: skip


class SequenceFirst(nn.Module):
    """Swaps samples and positions, as nn.LSTM expects by default: rows are not samples inside."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x.transpose(0, 1)).transpose(0, 1)


class Folded(nn.Module):
    """Folds positions into the batch: more rows than samples."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x.flatten(0, 1)).unflatten(0, x.shape[:2])


class UsedElsewhere(nn.Module):
    """A layer's weight is used a second time, without the layer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x).tanh() @ self.layer.weight


class HeldInAList(nn.Module):
    """Reaches a parameter in a second way, which functional calls do not see."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.shared = [self.embedding.weight]

    def forward(self, words):
        return self.embedding(words).tanh() @ self.shared[0].T


class InPlace(nn.Module):
    """As in AlexNet: the activation overwrites the layer's output."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 9),
            nn.ReLU(inplace=True),
            nn.Linear(9, 9),
            nn.ReLU(inplace=True),
            nn.Linear(9, 2),
        )

    def forward(self, x):
        return self.layers(x)


class ByKeyword(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(input=x)


UNUSUAL = {
    "by keyword": (ByKeyword, NUMBERS),
    "sequence first": (SequenceFirst, (5, 7, 4)),
    "sequence first, as many as samples": (SequenceFirst, (7, 7, 4)),
    "sequence first, two of each": (SequenceFirst, (2, 2, 4)),
    "folded": (Folded, (5, 7, 4)),
    "folded, one position": (Folded, (5, 1, 4)),
    "used elsewhere": (UsedElsewhere, NUMBERS),
    "held in a list": (HeldInAList, "words"),
    "in place": (InPlace, NUMBERS),
    "batch norm without statistics": (
        lambda: nn.Sequential(nn.Conv1d(4, 3, 2), nn.BatchNorm1d(3, track_running_stats=False)), (5, 4, 6),
    ),
    "padding": (lambda: nn.Sequential(nn.Embedding(10, 4, padding_idx=3), nn.Tanh()), "words"),
    "scaled by frequency": (lambda: nn.Embedding(10, 4, scale_grad_by_freq=True), "words"),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), NUMBERS),
    "spectral norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)), NUMBERS),
    "rms norm": (lambda: nn.Sequential(nn.RMSNorm(4), nn.Linear(4, 2)), (5, 3, 4)),
    "layer norm of an image": (lambda: nn.Sequential(nn.LayerNorm([3, 3]), nn.Flatten(), nn.Linear(18, 2)), (4, 2, 3, 3)),
    "a frozen bias": (lambda: nn.Linear(4, 3), NUMBERS),
}  # fmt: skip
