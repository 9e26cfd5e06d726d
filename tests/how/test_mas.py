import pytest
import torch
from torch import nn

from same import assert_same, snapshot
from taskfree.how import MAS
from taskfree.how.importance import estimate


def network():
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()


def move(model, amount=0.1):
    with torch.no_grad():
        for value in model.parameters():
            value += amount * torch.randn_like(value)


def parameters(model):
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("accumulate", "expected"),
    [
        ("mean", lambda a, b, c: (a + b + c) / 3),
        ("decay", lambda a, b, c: a / 8 + b / 4 + c / 2),
        ("sum", lambda a, b, c: a + b + c),
    ],
)
def test_accumulation_of_importance(accumulate, expected):
    model, how = network(), MAS(1.0, accumulate=accumulate)
    estimates = []
    for _ in range(3):
        x = torch.randn(4, 3).double()
        fresh = MAS(1.0, accumulate="sum")
        fresh.consolidate(model, x)
        estimates.append(fresh.importance)
        how.consolidate(model, x)
        move(model)
    for name, value in how.importance.items():
        close(value, expected(*(estimate[name] for estimate in estimates)))


def test_the_relative_penalty_grows_with_the_square_of_the_relative_importance():
    model, how = network(), MAS(0.3, penalty="relative")
    how.consolidate(model, torch.randn(4, 3).double())
    move(model)
    before = parameters(model)
    every = torch.cat([value.flatten() for value in how.importance.values()])
    how.after_step(model, torch.optim.SGD(model.parameters(), lr=123.0))
    for name, value in model.named_parameters():
        a = 0.3 * (how.importance[name] / every.mean()) ** 2
        close(value.detach(), before[name] + a / (1 + a) * (how.anchor[name] - before[name]))


@pytest.mark.parametrize("change", ["the scale of the outputs", "the learning rate"])
def test_the_relative_penalty_has_no_units(change):
    moved = []
    for changed in (False, True):
        torch.manual_seed(4)
        model, how = network(), MAS(0.3, penalty="relative")
        lr = 0.01 if changed and change == "the learning rate" else 1.0
        scale = 1000.0 if changed and change == "the scale of the outputs" else 1.0
        x = torch.randn(4, 3).double()
        how.consolidate(nn.Sequential(model, Scaled(scale)), x)
        how.importance = {name.partition(".")[2]: v for name, v in how.importance.items()}
        how.anchor = {name.partition(".")[2]: v for name, v in how.anchor.items()}
        move(model)
        how.after_step(model, torch.optim.SGD(model.parameters(), lr=lr))
        moved.append(parameters(model))
    for name, value in moved[0].items():
        close(value, moved[1][name])


class Scaled(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return self.scale * x


def test_a_relative_penalty_without_any_importance_holds_nothing():
    model, how = network(), MAS(0.3, penalty="relative")
    with torch.no_grad():
        for value in model[2].parameters():
            value.zero_()  # the outputs are 0 everywhere, and so is the importance
    how.consolidate(model, torch.randn(4, 3).double())
    move(model)
    before = parameters(model)
    how.after_step(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for name, value in model.named_parameters():
        close(value.detach(), before[name])


def test_the_gradient_penalty_adds_the_gradient_of_the_penalty():
    model, how = network(), MAS(0.7, penalty="gradient")
    how.consolidate(model, torch.randn(4, 3).double())
    move(model)
    penalty = sum(
        0.7 / 2 * (how.importance[name] * (value - how.anchor[name]) ** 2).sum()
        for name, value in model.named_parameters()
    )
    expected = torch.autograd.grad(penalty, list(model.parameters()))
    how.after_backward(model)  # without gradients yet
    for value, gradient in zip(model.parameters(), expected, strict=True):
        close(value.grad, gradient)
    how.after_backward(model)  # added to those that are there
    for value, gradient in zip(model.parameters(), expected, strict=True):
        close(value.grad, 2 * gradient)


@pytest.mark.parametrize("strength", [0.5, 1e6, 1e300])
def test_the_proximal_penalty_is_the_closed_formula_with_the_rate_of_each_group(strength):
    model, how = network(), MAS(strength)
    how.consolidate(model, torch.randn(4, 3).double())
    move(model)
    before = parameters(model)
    optimizer = torch.optim.SGD(
        [{"params": model[0].parameters(), "lr": 0.3}, {"params": model[2].parameters()}], lr=0.01
    )
    how.after_step(model, optimizer)
    for name, value in model.named_parameters():
        a = (0.3 if name.startswith("0.") else 0.01) * strength * how.importance[name]
        weight = torch.where(a.isinf(), 1.0, a / (1 + a))
        close(value.detach(), before[name] + weight * (how.anchor[name] - before[name]))


def test_the_proximal_penalty_follows_a_changing_learning_rate():
    model, how = network(), MAS(1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.5))
    how.consolidate(model, torch.randn(4, 3).double())
    for rate in (0.5, 0.5, 0.05):
        optimizer.param_groups[0]["lr"] = torch.tensor(rate)
        move(model)
        before = parameters(model)
        how.after_step(model, optimizer)
        for name, value in model.named_parameters():
            a = float(torch.tensor(rate)) * how.importance[name]
            close(value.detach(), before[name] + a / (1 + a) * (how.anchor[name] - before[name]))


@pytest.mark.parametrize("penalty", ["gradient", "proximal"])
def test_a_parameter_frozen_later_does_not_move(penalty):
    model, how = network(), MAS(1.0, penalty=penalty)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    how.consolidate(model, torch.randn(4, 3).double())
    how.after_step(model, optimizer)
    move(model)
    model[0].requires_grad_(False)
    before = parameters(model)
    how.after_backward(model)
    how.after_step(model, optimizer)
    assert torch.equal(model[0].weight, before["0.weight"])
    assert model[0].weight.grad is None
    changed = (
        model[2].weight.grad
        if penalty == "gradient"
        else (model[2].weight - before["2.weight"]).detach()
    )
    assert float(changed.abs().max()) > 0
    how.consolidate(model, torch.randn(4, 3).double())
    model[0].requires_grad_(True)  # held again, at its last anchor
    move(model)
    how.after_step(model, optimizer)
    assert set(how.importance) == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_a_parameter_outside_the_optimizer_does_not_move():
    model, how = network(), MAS(1.0)
    how.consolidate(model, torch.randn(4, 3).double())
    move(model)
    before = parameters(model)
    how.after_step(model, torch.optim.SGD(model[2].parameters(), lr=0.1))
    assert torch.equal(model[0].weight, before["0.weight"])
    assert not torch.equal(model[2].weight, before["2.weight"])


def test_mas_in_a_training_loop_without_a_learner():
    model = network()
    optimizer, how = torch.optim.SGD(model.parameters(), lr=0.1), MAS(1e9)
    how.consolidate(model, torch.randn(50, 3).double())
    x, anchor = torch.randn(20, 3).double(), parameters(model)
    for _ in range(20):
        optimizer.zero_grad()
        (model(x) - 1).square().mean().backward()
        how.after_backward(model)
        optimizer.step()
        how.after_step(model, optimizer)
    for name, value in model.named_parameters():
        torch.testing.assert_close(value.detach(), anchor[name], rtol=0, atol=1e-6)


def test_importance_that_is_not_finite_is_refused_and_changes_nothing():
    model, how = network(), MAS(1.0)
    how.consolidate(model, torch.randn(4, 3).double())
    before = snapshot(how)
    move(model)
    with pytest.raises(ValueError, match=r"the importance of 0\.weight is not finite"):
        how.consolidate(model, torch.full((2, 3), torch.nan).double())
    assert_same(snapshot(how), before)


def test_sparse_gradients_need_the_proximal_penalty():
    model = nn.Embedding(5, 2, sparse=True)
    words = torch.tensor([1, 2, 1])
    how = MAS(1.0, penalty="gradient")
    how.consolidate(model, words)
    model(words).sum().backward()
    with pytest.raises(ValueError, match="weight's are sparse; use penalty='proximal'"):
        how.after_backward(model)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strength": -1}, "strength must be finite and at least 0, got -1"),
        ({"strength": float("nan")}, "strength must be finite and at least 0, got nan"),
        ({"strength": float("inf")}, "strength must be finite and at least 0, got inf"),
        ({"strength": "strong"}, "strength must be finite and at least 0, got 'strong'"),
        ({"strength": 1, "accumulate": "average"}, "accumulate must be 'mean' or 'decay' or 'sum'"),
        (
            {"strength": 1, "penalty": "l2"},
            "penalty must be 'relative' or 'proximal' or 'gradient', got 'l2'",
        ),
        ({"strength": 1, "output": None}, "output must be 'squared' or 'norm', got None"),
    ],
)
def test_invalid_settings_of_mas(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        MAS(**arguments)


def test_strength_and_frozen_parameters_may_change_at_any_time():
    model, how = network(), MAS(0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[0].requires_grad_(True)
    how.consolidate(model, torch.randn(9, 3).double())
    model[0].requires_grad_(False)
    how.after_step(model, optimizer)
    how.strength = 1e12
    model[0].requires_grad_(True)
    move(model)
    how.after_step(model, optimizer)
    for name, value in model.named_parameters():
        torch.testing.assert_close(value.detach(), how.anchor[name], rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_strength_is_too_high_in_any_precision(dtype):
    model, how = network().to(dtype), MAS(1e300)
    with torch.no_grad():
        model[2].weight[:, 0] = 0  # a unit without importance
    how.consolidate(model, torch.randn(4, 3).to(dtype))
    move(model)
    how.after_step(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert all(bool(value.isfinite().all()) for value in model.parameters())


def test_a_parameter_with_another_shape_is_refused():
    model, how = network(), MAS(1.0)
    how.consolidate(model, torch.randn(4, 3).double())
    before = snapshot(how)
    model[2] = nn.Linear(5, 4).double()
    with pytest.raises(
        ValueError, match=r"2\.weight has shape \[4, 5\] and its importance \[2, 5\]"
    ):
        how.consolidate(model, torch.randn(4, 3).double())
    assert_same(snapshot(how), before)


@pytest.mark.parametrize("output", ["squared", "norm"])
def test_the_importance_is_of_the_chosen_output(output):
    torch.manual_seed(0)
    model, x = nn.Linear(3, 2), torch.randn(7, 3)
    how = MAS(1.0, output=output)
    how.consolidate(model, x)
    expected = estimate(model, x, output)
    assert torch.equal(how.importance["weight"], expected["weight"])
    assert not torch.equal(
        expected["weight"],
        estimate(model, x, "norm" if output == "squared" else "squared")["weight"],
    )


def test_the_gradient_penalty_has_no_proximal_step():
    torch.manual_seed(0)
    model, x = nn.Linear(3, 2), torch.randn(7, 3)
    how = MAS(10.0, penalty="gradient")
    how.consolidate(model, x)
    with torch.no_grad():
        model.weight += 1
    before = model.weight.detach().clone()
    how.after_step(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert torch.equal(model.weight, before)


def covered(rows, losses, cover=10, steps=1):
    """MAS after these losses of new and replayed samples, consolidated on so many samples."""
    model, how = network(), MAS(0.3, penalty="relative", cover=cover)
    for _ in range(steps):
        how.after_time_step(model, *losses)
    how.consolidate(model, torch.randn(rows, 3).double())
    return model, how


@pytest.mark.parametrize(
    ("losses", "factor"),
    [
        ((0.5, 0.5), 0.0),  # replayed samples are no better known than new ones
        ((0.4, 0.5), 0.0),
        ((1.7, 0.1), 0.25),  # (17 - 1) / 32, squared
        ((9.0, 0.1), 1.0),  # learned by heart
        ((1.0, 0.0), 1.0),
        ((1.0, float("nan")), 1.0),  # nothing is replayed
    ],
)
def test_parameters_are_held_as_far_as_replayed_samples_are_learned_by_heart(losses, factor):
    model, how = covered(8, losses, steps=3)
    assert how.factor == pytest.approx(factor)
    assert bool(how.importance) == (factor > 0)
    if factor:
        plain = MAS(0.3 * factor, penalty="relative")
        plain.importance, plain.anchor = how.importance, how.anchor
        move(model)
        start = {name: value.clone() for name, value in model.state_dict().items()}
        moved = []
        for one in (how, plain):
            model.load_state_dict(start)
            one.after_step(model, torch.optim.SGD(model.parameters(), lr=0.1))
            moved.append(parameters(model))
        assert_same(*moved)


@pytest.mark.parametrize(("rows", "held"), [(9, True), (10, False), (11, False)])
def test_where_the_buffer_covers_what_was_learned_nothing_is_held(rows, held):
    model, how = covered(rows, (9.0, 0.1))
    assert bool(how.factor) is bool(how.importance) is held
    before = parameters(model)
    how.after_step(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert_same(parameters(model), before)


def test_a_buffer_that_grows_beyond_cover_sets_the_parameters_free():
    model, how = covered(5, (9.0, 0.1))
    assert how.importance
    how.consolidate(model, torch.randn(12, 3).double())
    move(model)
    before = parameters(model)
    how.after_step(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert_same(parameters(model), before)
    assert not how.importance
    assert not how.anchor


def test_the_losses_are_averaged_over_about_twenty_time_steps():
    how, model = MAS(1.0, cover=5), network()
    how.after_time_step(model, 2.0, float("nan"))
    how.after_time_step(model, 4.0, 1.0)
    how.after_time_step(model, 4.0, float("nan"))
    assert how.losses == pytest.approx((2.195, 1.0))


@pytest.mark.parametrize("cover", [0, 2.5, -1])
def test_cover_is_a_number_of_samples(cover):
    with pytest.raises((ValueError, TypeError), match="cover must be an integer of at least 1"):
        MAS(1.0, cover=cover)
