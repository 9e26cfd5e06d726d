"""The estimate equals one backward pass per sample, for every kind of layer and model."""

import pytest
import torch
from torch import nn

from architectures import (
    MODELS,
    UNUSUAL,
    Branching,
    Tied,
    TwoInputs,
    assert_exact,
    importance_by_definition,
    inputs_for,
    warmed_up,
)
from same import assert_same
from taskfree.how.importance import estimate, fast, general, layers


@pytest.mark.parametrize("output", ["squared", "norm"])
@pytest.mark.parametrize("name", MODELS)
def test_the_estimate_is_exact_for_every_layer(name, output):
    make, shape = MODELS[name]
    x = inputs_for(shape)
    model = warmed_up(make, x)
    assert_exact(estimate(model, x, output), importance_by_definition(model, x, output))


@pytest.mark.parametrize("output", ["squared", "norm"])
@pytest.mark.parametrize("name", UNUSUAL)
def test_the_estimate_is_exact_for_unusual_models(name, output):
    make, shape = UNUSUAL[name]
    x = inputs_for(shape)
    model = warmed_up(make, x)
    if name == "a frozen bias":
        model.bias.requires_grad_(False)
    assert_exact(estimate(model, x, output), importance_by_definition(model, x, output))
    more = torch.cat([x, x.flip(0)])  # with the plan already made
    assert_exact(estimate(model, more, output), importance_by_definition(model, more, output))


@pytest.mark.parametrize("path", ["closed", "closed in chunks", "vmap", "one by one"])
@pytest.mark.parametrize("name", ["mlp", "conv2d", "batch norm", "layer norm", "embedding", "used twice",
                                  "linear over a sequence"])  # fmt: skip
def test_every_path_is_exact(name, path, monkeypatch):
    make, shape = MODELS[name]
    x = torch.cat([inputs_for(shape)] * 4)
    model = warmed_up(make, x)
    if path == "closed in chunks":
        monkeypatch.setattr(layers, "CHUNK", 1)
        monkeypatch.setattr(fast, "PASS", 1)  # 8 rows per pass
        monkeypatch.setattr(fast, "VECTORS", 60)
    elif path != "closed":
        monkeypatch.setattr(fast, "FORMS", {})
    if path == "one by one":
        monkeypatch.setattr(general, "_agree", lambda *_: False)
    assert_exact(estimate(model, x), importance_by_definition(model, x))


def test_the_gradient_of_a_batch_is_not_exact():
    """The control: |mean gradient|, which other libraries use, is a different number."""
    model = nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 2)).double()
    x = torch.randn(50, 4).double()
    (model(x).square().sum() / len(x)).backward()
    exact = estimate(model, x)
    for name, value in model.named_parameters():
        assert float(value.grad.abs().sum() / exact[name].sum()) < 0.95


def test_inputs_may_be_tuples_and_dicts():
    model = TwoInputs().double()
    left, right = torch.randn(6, 4).double(), torch.randn(6, 3).double()
    expected = importance_by_definition(model, list(zip(left, right, strict=True)))
    assert_exact(estimate(model, (left, right)), expected)
    assert_exact(estimate(model, {"right": right, "left": left}), expected)


def test_frozen_parameters_are_left_out_and_shared_ones_count_once():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[0].requires_grad_(False)
    assert list(estimate(model, torch.randn(3, 4))) == ["1.weight", "1.bias"]
    assert list(estimate(Tied(), torch.randint(0, 10, (3, 5)))) == ["embedding.weight"]


def test_an_unused_parameter_has_no_importance():
    model = Branching().double()
    x = torch.rand(5, 4).double()  # positive, so that the other layer is never used
    found = estimate(model, x)
    assert float(found["other.weight"].abs().max()) == 0
    assert float(found["layer.weight"].min()) > 0


@pytest.mark.parametrize("output", ["squared", "norm"])
def test_an_output_of_zero_gives_no_importance(output):
    model = nn.Linear(2, 2)
    nn.init.zeros_(model.weight), nn.init.zeros_(model.bias)
    found = estimate(model, torch.ones(3, 2), output)
    assert float(found["weight"].abs().max()) == 0


class MixesSamples(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x - x.mean(0))


def test_a_model_that_mixes_samples_gets_them_one_by_one():
    model, x = MixesSamples().double(), torch.randn(6, 4).double()
    found = estimate(model, x)
    assert float(found["layer.weight"].abs().max()) == 0, "alone, a sample is its own mean"


class AlsoReturnsItsInput(nn.Module):
    """One output depends on no parameter, one holds integers."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        out = self.layer(x)
        return x, out, out.argmax(1)


def test_outputs_without_parameters_and_of_integers_do_not_count():
    model, x = AlsoReturnsItsInput().double(), torch.randn(6, 4).double()
    plain = nn.Sequential(model.layer)
    expected = importance_by_definition(plain, x)
    found = estimate(model, x)
    assert_exact({name.replace("layer", "0"): value for name, value in found.items()}, expected)


@pytest.mark.parametrize("make", [MODELS["batch norm"][0], MODELS["branching"][0]])
def test_the_model_is_unchanged(make):
    x = torch.randn(5, 4, 6, 6) if make is MODELS["batch norm"][0] else torch.randn(5, 4)
    model = nn.Sequential(make(), nn.Dropout())
    model[0].eval()  # a part that the user keeps in eval mode
    model[1].train()
    model(x).sum().backward()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gradients = {name: value.grad.clone() for name, value in model.named_parameters()
                 if value.grad is not None}  # fmt: skip
    generator = torch.get_rng_state()
    estimate(model, x)
    assert_same(before, model.state_dict())
    for name, gradient in gradients.items():
        assert torch.equal(model.get_parameter(name).grad, gradient)
    assert torch.equal(generator, torch.get_rng_state())
    assert (model[0].training, model[1].training) == (False, True)


class Remembers(nn.Module):
    """Stores its activation, counts its calls and replaces a buffer, in eval mode too."""

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


@pytest.mark.parametrize("closed", [True, False])
def test_what_a_model_stores_is_unchanged(closed, monkeypatch):
    if not closed:
        monkeypatch.setattr(fast, "FORMS", {})
    model, x = Remembers(), torch.randn(5, 4)
    model(x)
    last, mean = model.last, model.mean
    estimate(model, x)
    assert model.last is last
    assert model.mean is mean
    assert float(model.calls) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_low_precision_is_summed_in_single_precision(dtype):
    model = nn.Linear(4, 3).to(dtype)
    x = torch.rand(3000, 4).to(dtype)
    found = estimate(model, x)["weight"]
    exact = importance_by_definition(model.double(), x.double())["weight"]
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), exact, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("size", [1e-4, 300.0])
def test_the_norm_stays_in_the_range_of_half_precision(size):
    model = nn.Linear(4, 3).half()
    x = (torch.rand(5, 4) * size).half()
    found = estimate(model, x, "norm")["bias"].double()
    exact = importance_by_definition(model.double(), x.double(), "norm")["bias"]
    torch.testing.assert_close(found, exact, rtol=0.02, atol=0.01)


def test_an_output_that_is_not_a_tensor_is_refused():
    class Text(nn.Linear):
        def forward(self, x):
            return "outputs"

    message = r"importance needs a model whose output is a tensor.*got str"
    with pytest.raises(TypeError, match=message):
        estimate(Text(2, 2), torch.ones(3, 2))
