"""Exact importance: equal to one backward pass a sample, for every kind of layer."""

import gc
import weakref

import pytest
import torch
from torch import nn

from same import assert_same
from taskfree import closed, forms, importance


def one_sample_at_a_time(model, rows, output="squared"):
    """The definition: 1/N sum_k |d f(x_k) / d theta|."""
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
        size = squared if output == "squared" else squared.sqrt()
        gradients = torch.autograd.grad(size, list(learning.values()), allow_unused=True)
        for name, gradient in zip(learning, gradients, strict=True):
            if gradient is not None:
                total[name] += gradient.abs() / len(rows)
    return total


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


def samples(shape):
    return torch.randint(0, 10, (6, 5)) if shape == "words" else torch.randn(shape).double()


def warmed_up(make, x):
    """A model in float64, its statistics moved from where they start."""
    model = make().double()
    with torch.no_grad():
        model(x)
    return model


def assert_exact(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-10, atol=1e-10 * float(value.max()))
    assert any(float(value.max()) > 0 for value in expected.values())


@pytest.mark.parametrize("output", ["squared", "norm"])
@pytest.mark.parametrize("name", MODELS)
def test_exact_for_every_layer(name, output):
    make, shape = MODELS[name]
    x = samples(shape)
    model = warmed_up(make, x)
    assert_exact(importance.estimate(model, x, output), one_sample_at_a_time(model, x, output))


def test_a_batch_gradient_would_not_be_exact():
    """The control: |mean gradient|, which other libraries use, is a different number."""
    model = nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 2)).double()
    x = torch.randn(50, 4).double()
    (model(x).square().sum() / len(x)).backward()
    exact = importance.estimate(model, x)
    for name, value in model.named_parameters():
        assert float(value.grad.abs().sum() / exact[name].sum()) < 0.95


def test_tuples_and_dicts_of_inputs():
    model = TwoInputs().double()
    left, right = torch.randn(6, 4).double(), torch.randn(6, 3).double()
    expected = one_sample_at_a_time(model, list(zip(left, right, strict=True)))
    assert_exact(importance.estimate(model, (left, right)), expected)
    assert_exact(importance.estimate(model, {"right": right, "left": left}), expected)


def test_samples_are_added_up_in_chunks(monkeypatch):
    model, x = nn.Linear(4, 3).double(), torch.randn(10, 4).double()
    expected = importance.estimate(model, x)
    monkeypatch.setattr(closed, "FORMS", {})
    monkeypatch.setattr(forms, "CHUNK", 45)  # three samples' gradients at a time
    assert_exact(importance.estimate(model, x), expected)


def test_frozen_parameters_stay_out_and_shared_ones_count_once():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[0].requires_grad_(False)
    assert list(importance.estimate(model, torch.randn(3, 4))) == ["1.weight", "1.bias"]
    assert list(importance.estimate(Tied(), torch.randint(0, 10, (3, 5)))) == ["embedding.weight"]


def test_a_parameter_the_output_does_not_depend_on_has_none():
    model = Branching().double()
    x = torch.rand(5, 4).double()  # positive, so that the other layer is never used
    found = importance.estimate(model, x)
    assert float(found["other.weight"].abs().max()) == 0
    assert float(found["layer.weight"].min()) > 0


def test_a_zero_output_has_a_gradient_of_zero():
    model = nn.Linear(2, 2)
    nn.init.zeros_(model.weight), nn.init.zeros_(model.bias)
    for output in ("squared", "norm"):
        assert (
            float(importance.estimate(model, torch.ones(3, 2), output)["weight"].abs().max()) == 0
        )


@pytest.mark.parametrize("make", [MODELS["batch norm"][0], MODELS["branching"][0]])
def test_the_model_is_left_as_it_was(make):
    x = torch.randn(5, 4, 6, 6) if make is MODELS["batch norm"][0] else torch.randn(5, 4)
    model = nn.Sequential(make(), nn.Dropout())
    model[0].eval()  # a part that its owner keeps in eval mode
    model[1].train()
    model(x).sum().backward()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gradients = {name: value.grad.clone() for name, value in model.named_parameters()
                 if value.grad is not None}  # fmt: skip
    generator = torch.get_rng_state()
    importance.estimate(model, x)
    assert_same(before, model.state_dict())
    for name, gradient in gradients.items():
        assert torch.equal(model.get_parameter(name).grad, gradient)
    assert torch.equal(generator, torch.get_rng_state())
    assert (model[0].training, model[1].training) == (False, True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_low_precision_adds_up_in_single_precision(dtype):
    model = nn.Linear(4, 3).to(dtype)
    x = torch.rand(3000, 4).to(dtype)
    found = importance.estimate(model, x)["weight"]
    exact = one_sample_at_a_time(model.double(), x.double())["weight"]
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), exact, rtol=0.02, atol=0.02)


def test_an_output_that_is_no_tensor_is_named():
    class Text(nn.Linear):
        def forward(self, x):
            return "outputs"

    with pytest.raises(
        TypeError, match=r"importance needs a model whose output is a tensor.*got str"
    ):
        importance.estimate(Text(2, 2), torch.ones(3, 2))


CLOSED = {
    "linear": "all", "linear without bias": "all", "mlp": "all", "linear over a sequence": "all",
    "conv1d": "all", "conv2d": "all", "conv2d same": "all", "depthwise": "all", "conv3d": "all",
    "transposed": "none", "batch norm": "all", "layer norm": "all", "group norm": "all",
    "dropout": "all", "embedding": "all", "embedding bag": "none", "lstm": "none", "gru": "none",
    "attention": "none", "used twice": "all", "tied": "none", "branching": "none",
    "prelu": ["0.weight", "0.bias"], "two outputs": "all",
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSED)
def test_which_parameters_take_the_closed_form(name):
    make, shape = MODELS[name]
    x = samples(shape)
    model = warmed_up(make, x).eval()
    parameters = dict(model.named_parameters())
    taken = closed.sums(model, parameters, x, importance._squared_slopes)
    expected = {"all": list(parameters), "none": []}.get(str(CLOSED[name]), CLOSED[name])
    assert sorted(taken) == sorted(expected)


@pytest.mark.parametrize("path", ["closed", "closed in chunks", "vmap", "one by one"])
@pytest.mark.parametrize("name", ["mlp", "conv2d", "batch norm", "layer norm", "embedding", "used twice",
                                  "linear over a sequence"])  # fmt: skip
def test_every_path_is_exact(name, path, monkeypatch):
    make, shape = MODELS[name]
    x = torch.cat([samples(shape)] * 4)
    model = warmed_up(make, x)
    if path == "closed in chunks":
        monkeypatch.setattr(forms, "CHUNK", 1)
        monkeypatch.setattr(closed, "PASS", 1)  # 8 rows a pass
        monkeypatch.setattr(closed, "VECTORS", 60)
    elif path != "closed":
        monkeypatch.setattr(closed, "FORMS", {})
    if path == "one by one":
        monkeypatch.setattr(importance, "_agree", lambda *_: False)
    assert_exact(importance.estimate(model, x), one_sample_at_a_time(model, x))


class SequenceFirst(nn.Module):
    """Turns samples and positions around, as nn.LSTM likes it: rows are not samples inside."""

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
    """A second way to a parameter that functional calls do not see."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.shared = [self.embedding.weight]

    def forward(self, words):
        return self.embedding(words).tanh() @ self.shared[0].T


class InPlace(nn.Module):
    """What AlexNet does: the activation overwrites the layer's output."""

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


class MixesSamples(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x - x.mean(0))


class AlsoGivesItsInput(nn.Module):
    """One output depends on no parameter, one is of whole numbers."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        out = self.layer(x)
        return x, out, out.argmax(1)


class ByKeyword(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(input=x)


STRANGE = {
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
    "layer norm of a picture": (lambda: nn.Sequential(nn.LayerNorm([3, 3]), nn.Flatten(), nn.Linear(18, 2)), (4, 2, 3, 3)),
    "a frozen bias": (lambda: nn.Linear(4, 3), NUMBERS),
}  # fmt: skip


@pytest.mark.parametrize("output", ["squared", "norm"])
@pytest.mark.parametrize("name", STRANGE)
def test_strange_models_are_exact_too(name, output):
    make, shape = STRANGE[name]
    x = samples(shape)
    model = warmed_up(make, x)
    if name == "a frozen bias":
        model.bias.requires_grad_(False)
    assert_exact(importance.estimate(model, x, output), one_sample_at_a_time(model, x, output))
    more = torch.cat([x, x.flip(0)])  # with the plan already made
    assert_exact(
        importance.estimate(model, more, output), one_sample_at_a_time(model, more, output)
    )


def test_samples_that_mix_are_looked_at_one_by_one():
    model, x = MixesSamples().double(), torch.randn(6, 4).double()
    found = importance.estimate(model, x)
    assert float(found["layer.weight"].abs().max()) == 0, "alone, a sample is its own mean"


def test_a_model_that_changes_is_tried_again():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()).double(), torch.randn(6, 4).double()
    importance.estimate(model, x)
    model.append(nn.Linear(4, 2).double())
    assert_exact(importance.estimate(model, x), one_sample_at_a_time(model, x))
    model[0].weight.requires_grad_(False)
    assert_exact(importance.estimate(model, x), one_sample_at_a_time(model, x))


def test_plans_do_not_keep_a_model_alive():
    model = nn.Linear(4, 3)
    importance.estimate(model, torch.randn(3, 4))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


class Remembers(nn.Module):
    """Keeps its activation, counts its calls and replaces a buffer, in eval mode too."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        self.calls += 1
        self.last = self.layer(x)
        self.mean = 0.9 * self.mean + 0.1 * self.last.mean(0).detach()
        return self.last


@pytest.mark.parametrize("by_forms", [True, False])
def test_what_a_model_keeps_for_itself_is_left_as_it_was(by_forms, monkeypatch):
    if not by_forms:
        monkeypatch.setattr(closed, "FORMS", {})
    model, x = Remembers(), torch.randn(5, 4)
    model(x)
    last, mean = model.last, model.mean
    importance.estimate(model, x)
    assert model.last is last
    assert model.mean is mean
    assert float(model.calls) == 1


@pytest.mark.parametrize("size", [1e-4, 300.0])
def test_the_norm_does_not_leave_the_range_of_half_precision(size):
    model = nn.Linear(4, 3).half()
    x = (torch.rand(5, 4) * size).half()
    found = importance.estimate(model, x, "norm")["bias"].double()
    exact = one_sample_at_a_time(model.double(), x.double(), "norm")["bias"]
    torch.testing.assert_close(found, exact, rtol=0.02, atol=0.01)


def test_outputs_that_do_not_depend_on_parameters_or_are_whole_numbers():
    model, x = AlsoGivesItsInput().double(), torch.randn(6, 4).double()
    plain = nn.Sequential(model.layer)
    expected = one_sample_at_a_time(plain, x)
    found = importance.estimate(model, x)
    assert_exact({name.replace("layer", "0"): value for name, value in found.items()}, expected)


def test_a_gradient_of_zero_proves_nothing():
    model, x = (
        nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double(),
        torch.randn(6, 4).double(),
    )
    with torch.no_grad():
        model[2].weight.zero_(), model[2].bias.zero_()  # an output layer that starts at zero
    assert all(float(value.max()) == 0 for value in importance.estimate(model, x).values())
    assert model not in closed._plans, "to be tried again when there is something to compare"
    nn.init.ones_(model[2].weight)
    assert_exact(importance.estimate(model, x), one_sample_at_a_time(model, x))
    assert model in closed._plans


# The slopes and the general way, each alone: elsewhere a wrong one is noticed and another way taken


@pytest.mark.parametrize("shapes", [[(4, 3)], [(4, 2, 3)], [(4,)], [(4, 3), (4, 2, 2)]])
def test_slopes_are_the_gradients_of_the_size(shapes):
    outputs = [torch.randn(shape).double().requires_grad_() for shape in shapes]
    with torch.no_grad():
        for part in outputs:
            part[1] = 0  # a sample whose norm is 0
    rows = torch.stack([part.reshape(4, -1).square().sum(1) for part in outputs]).sum(0)
    for kind, sizes in (("squared", rows), ("norm", rows[rows > 0].sqrt())):
        slopes = {"squared": importance._squared_slopes, "norm": importance._norm_slopes}[kind]
        expected = torch.autograd.grad(sizes.sum(), outputs, retain_graph=True)
        for found, want, part in zip(
            slopes([o.detach() for o in outputs]), expected, outputs, strict=True
        ):
            torch.testing.assert_close(found, want.nan_to_num())
            assert found.dtype == part.dtype


@pytest.mark.parametrize("kind", ["squared", "norm"])
def test_the_size_of_an_output(kind):
    parts = [torch.tensor([[3.0, 0.0]]), torch.tensor([[4.0]])]
    assert importance._size(parts, kind) == {"squared": 25, "norm": 5}[kind]
    nothing = torch.zeros(1, 2, requires_grad=True)
    size = importance._size([nothing], kind)
    assert size == 0
    assert torch.equal(torch.autograd.grad(size, nothing)[0], torch.zeros(1, 2))


@pytest.mark.parametrize("output", ["squared", "norm"])
@pytest.mark.parametrize("form", ["tensor", "tuple", "dict"])
def test_the_vectorised_way_alone(monkeypatch, form, output):
    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, a, b=None):
            return self.layer(a if b is None else a + 2 * b)

    model, a, b = Adds().double(), torch.randn(7, 3).double(), torch.randn(7, 3).double()
    inputs = {"tensor": a, "tuple": (a, b), "dict": {"b": b, "a": a}}[form]
    parameters = dict(model.named_parameters())
    monkeypatch.setattr(importance.forms, "chunks", lambda rows, _: [slice(0, 3), slice(3, rows)])
    found = importance._vectorised(model, parameters, inputs, output)
    expected = importance._one_by_one(model, parameters, inputs, output)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)


def test_one_by_one_goes_on_after_a_sample_that_depends_on_nothing():
    class Sometimes(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 1)

        def forward(self, x):
            return self.layer(x) if x.sum() > 0 else x

    model, x = Sometimes(), torch.tensor([[1.0, 2.0], [-1.0, -1.0], [3.0, 1.0]])
    parameters = dict(model.named_parameters())
    every = importance._one_by_one(model, parameters, x, "squared")
    without = importance._one_by_one(model, parameters, x[[0, 2]], "squared")
    for name, value in every.items():
        torch.testing.assert_close(value, without[name])
        assert value.abs().sum() > 0


def test_agreement_is_within_half_of_the_digits():
    one = {"a": torch.tensor([1.0, 2.0], dtype=torch.float64)}
    assert importance._agree(one, one)
    assert importance._agree({"a": one["a"] + 2e-8}, one)
    assert not importance._agree({"a": one["a"] + 6e-8}, one)
    assert not importance._agree({"a": one["a"] - 6e-8}, one)
    assert not importance._agree({"a": torch.zeros(2).double()}, one)
