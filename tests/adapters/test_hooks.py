import math

import pytest
import torch
from torch import nn

from taskfree import MAS, Hardest, Learner, Plateau, Recent
from taskfree.adapters.hooks import Consolidator
from taskfree.paper.streams import ball

LOSS = nn.CrossEntropyLoss(reduction="none")


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 20), nn.ReLU(), nn.Linear(20, 2)).double()


def stream(samples=1000):
    generator = torch.Generator().manual_seed(0)
    for quadrant in (1, 2):
        for x, y in ball.batches(*ball.quadrant(quadrant, samples, generator), 20):
            yield x.double(), y


def components(penalty="proximal"):
    return {"when": Plateau(5, 0.9, 0.1), "how": MAS(2.0, penalty=penalty)}


def train(consolidator, batches, model, optimizer):
    for x, y in batches:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        consolidator.after_backward(model)
        consolidator.before_step(model)
        optimizer.step()
        consolidator.after_step(model, [optimizer], x, y, loss.item())


@pytest.mark.parametrize("penalty", ["proximal", "gradient", "relative"])
def test_it_learns_the_same_as_the_learner(penalty):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
    consolidator = Consolidator(LOSS, which=Hardest(10), **components(penalty))
    train(consolidator, stream(), model, optimizer)
    own = network()
    learner = Learner(
        own, torch.optim.SGD(own.parameters(), lr=0.2, momentum=0.5), loss=LOSS,
        which=Hardest(10, rescore=True), **components(penalty),
    )  # fmt: skip
    reports = [learner.learn(x, y) for x, y in stream()]
    assert consolidator.consolidations == sum(report.consolidated for report in reports) > 0
    for ours, learners in zip(model.parameters(), own.parameters(), strict=True):
        torch.testing.assert_close(ours, learners, rtol=1e-9, atol=1e-12)


def test_without_a_loss_the_newest_samples_estimate_importance():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    consolidator = Consolidator(**components())
    train(consolidator, stream(), model, optimizer)
    assert isinstance(consolidator.which, Recent)
    last = torch.cat([x for x, _ in stream()])[-100:]
    assert torch.equal(consolidator.which.inputs.sum(1).sort()[0], last.sum(1).sort()[0])
    assert consolidator.consolidations


def test_the_state_continues_exactly():
    batches = list(stream())
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    first = Consolidator(LOSS, **components())
    train(first, batches[:50], model, optimizer)
    second = Consolidator(LOSS, **components())
    second.load_state_dict({name: value.clone() for name, value in first.state_dict().items()})
    train(second, batches[50:], model, optimizer)
    whole = network()
    consolidator = Consolidator(LOSS, **components())
    train(consolidator, batches, whole, torch.optim.SGD(whole.parameters(), lr=0.2))
    assert consolidator.consolidations == second.consolidations
    for ours, others in zip(model.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, others)


def test_accumulated_gradients_weigh_the_buffer_once():
    model = network()
    consolidator = Consolidator(LOSS, **components())
    x, y = next(stream())
    consolidator.which.join(x, y)
    consolidator.which.update(LOSS(model(x), y))
    consolidator.after_backward(model)
    once = [value.grad.clone() for value in model.parameters()]
    model.zero_grad()
    for _ in range(4):
        consolidator.after_backward(model, share=0.25)
    for value, expected in zip(model.parameters(), once, strict=True):
        torch.testing.assert_close(value.grad, expected)


def test_none_means_none_as_in_the_learner():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    consolidator = Consolidator(when=None, which=None, how=None)
    train(consolidator, stream(), model, optimizer)
    plain = network()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.2)
    for x, y in stream():
        optimizer.zero_grad()
        nn.functional.cross_entropy(plain(x), y).backward()
        optimizer.step()
    for ours, expected in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, expected)
    assert list(consolidator.state_dict()) == ["consolidations"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"which": Hardest(10)}, "pass loss"),
        ({"loss": nn.CrossEntropyLoss()}, "reduction='none'"),
        ({"when": Plateau}, "when must be 'auto', None or an object"),
        ({"loss": 3}, "loss must be a function"),
    ],
)
def test_wrong_components_are_named(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Consolidator(**arguments)


def test_missing_targets_are_reported():
    model = network()
    x, _ = next(stream())
    with pytest.raises(ValueError, match="no targets to replay its samples with"):
        Consolidator(LOSS).after_step(model, [], x, None, 0.5)


def test_samples_of_another_shape_or_type_are_refused():
    model, consolidator = network(), Consolidator(LOSS)
    x, y = next(stream())
    consolidator.after_step(model, [], x, y, 0.5)
    with pytest.raises(ValueError, match="do not fit the buffer"):
        consolidator.after_step(model, [], x, y.double(), 0.5)


def test_a_loss_that_is_not_per_sample_is_refused():
    x, y = next(stream())
    with pytest.raises(ValueError, match="one value per sample"):
        Consolidator(lambda outputs, targets: outputs.mean()).after_step(network(), [], x, y, 0.5)


def test_a_sample_whose_loss_is_not_finite_is_not_stored():
    model, consolidator = network(), Consolidator(LOSS)
    x, y = next(stream())
    x = x.clone()
    x[3] = math.nan
    consolidator.after_step(model, [], x, y, 0.5)
    assert len(consolidator.which) == 19
    consolidator.after_step(model, [], x * math.nan, y, 0.5)
    consolidator.after_backward(model)
    assert all(value.grad.isfinite().all() for value in model.parameters())
