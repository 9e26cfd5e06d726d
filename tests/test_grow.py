"""Growing outputs and inputs: the old ones are kept bit for bit, and the new ones can be learned."""

import copy

import pytest
import torch
from torch import nn

from taskfree import Learner
from taskfree.grow import fit, grow, widen
from taskfree.how import MAS
from taskfree.when import Every
from taskfree.which import Hardest, Reservoir

OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, initial_accumulator_value=0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "Adadelta": lambda p: torch.optim.Adadelta(p, lr=0.5),
    "Rprop": lambda p: torch.optim.Rprop(p, lr=0.01),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "ASGD": lambda p: torch.optim.ASGD(p, lr=0.01),
}


def make(optimizer="SGD", **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    components = {"when": Every(10), "which": Hardest(20), "how": MAS(0.05, penalty="relative")}
    return Learner(
        model,
        OPTIMIZERS[optimizer](model.parameters()),
        loss=nn.CrossEntropyLoss(reduction="none"),
        **(components | options),
    )


def learn(learner, steps, classes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        x = torch.randn(10, 4, generator=generator)
        learner.learn(x, x[:, :classes].argmax(1))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_old_outputs_are_kept_and_new_classes_are_learned(name):
    learner = make(name)
    learn(learner, 35, classes=2)
    x = torch.randn(50, 4)
    head = learner.model[2]
    before = copy.deepcopy((learner.predict(x), learner.how.importance, learner.how.anchor))
    state = copy.deepcopy(learner.optimizer.state[head.weight])
    weight = head.weight

    grow(learner, 4)

    assert learner.model[2].weight is weight, "the same object, which others may hold"
    after = learner.predict(x)
    assert torch.equal(after[:, :2], before[0])
    assert (after[:, 2:] == 0).all()
    for now, then in ((learner.how.importance, before[1]), (learner.how.anchor, before[2])):
        for key, value in then.items():
            assert torch.equal(now[key][: len(value)], value), key
            assert (now[key][len(value) :] == 0).all()
            assert now[key].shape == dict(learner.model.named_parameters())[key].shape
    for key, value in learner.optimizer.state[weight].items():
        if isinstance(value, torch.Tensor) and value.dim():
            assert value.shape == (4, 8), key
            assert torch.equal(value[:2], state[key])
    learn(learner, 150, classes=4, seed=1)
    x = torch.randn(500, 4)
    right = (learner.predict(x).argmax(1) == x.argmax(1)).float().mean()
    assert right > (0.6 if name != "ASGD" else 0.4), "chance is 0.25"


def test_a_grown_learner_resumes_bit_for_bit():
    learner, other = make("Adam"), make("Adam")
    learn(learner, 25, classes=2)
    grow(learner, 3)
    learn(learner, 25, classes=3)
    grow(other, 3)
    other.load_state_dict(learner.state_dict())
    for one in (learner, other):
        learn(one, 25, classes=3, seed=2)
    for a, b in zip(learner.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_step_that_fails_after_growing_is_undone():
    learner = make(repeats=2)
    learn(learner, 25, classes=2)
    grow(learner, 3)
    x = torch.randn(2, 4)
    before = {key: value.clone() for key, value in learner.state_dict().items()}
    with pytest.raises(ValueError, match="loss refused"):
        learner.learn(x, torch.tensor([0, 7]))
    for key, value in learner.state_dict().items():
        assert torch.equal(value, before[key]), key


def test_old_classes_are_protected_and_new_ones_are_free():
    learner = make(how=MAS(1e6, penalty="relative"))
    learn(learner, 35, classes=2)
    grow(learner, 3)
    learn(learner, 4, classes=3, seed=1)  # before the next consolidation
    important = learner.how.importance["2.weight"][:2] > learner.how._mean()
    moved = (learner.model[2].weight - learner.how.anchor["2.weight"]).abs()
    assert moved[:2][important].max() < 1e-4
    assert moved[2].max() > 1e-3


def test_a_named_layer_without_bias_grows():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.answer = nn.Linear(4, 2, bias=False)
            self.unused = nn.Linear(4, 2)

        def forward(self, x):
            return self.answer(x)

    model = Two()
    learner = Learner(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        loss=nn.CrossEntropyLoss(reduction="none"),
    )
    grow(learner, 5, layer="answer")
    assert learner.predict(torch.ones(1, 4)).shape == (1, 5)
    assert model.unused.out_features == 2
    grow(learner, 5, layer="answer")
    learn(learner, 3, classes=4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: grow(make(), 1), "outputs must be an integer of at least 2, got 1"),
        (lambda: grow(make(), 3, layer="head"), "got 'head'; there is '0', '2'"),
    ],
)
def test_invalid_arguments_of_grow(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_lbfgs_cannot_grow():
    model = nn.Linear(2, 2)
    learner = Learner(
        model, torch.optim.LBFGS(model.parameters()), loss=nn.CrossEntropyLoss(reduction="none")
    )
    with pytest.raises(ValueError, match="LBFGS"):
        grow(learner, 3)
    assert model.out_features == 2


def test_fit_protects_the_old_outputs_of_a_replaced_layer():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    how = MAS(1e6)
    how.consolidate(model, torch.randn(20, 3))
    how.after_step(model, optimizer)  # caches the parameters of the model
    head = nn.Linear(4, 3)
    with torch.no_grad():
        head.weight[:2], head.bias[:2] = model[2].weight, model[2].bias
    model[2] = head
    old = model[2].weight[:2].detach().clone()
    fit(how, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = head.weight[2].detach().clone()
    with torch.no_grad():
        head.weight += 1
    how.after_step(model, optimizer)
    torch.testing.assert_close(head.weight[:2], old, atol=1e-3, rtol=0)
    assert torch.equal(head.weight[2], before + 1), "new outputs are free"
    how.consolidate(model, torch.randn(20, 3))


def test_fit_refuses_a_smaller_model():
    how = MAS(1.0)
    how.consolidate(nn.Linear(3, 4), torch.randn(5, 3))
    with pytest.raises(ValueError, match="weight has become smaller, \\[2, 3\\] after \\[4, 3\\]"):
        fit(how, nn.Linear(3, 2))
    assert how.importance["weight"].shape == (4, 3)


def test_new_inputs_change_nothing_and_are_learned():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    loss = nn.CrossEntropyLoss(reduction="none")
    learner = Learner(model, optimizer, loss=loss, which=Reservoir(60))
    for _ in range(20):
        x = torch.randn(10, 3)
        learner.learn(x, (x[:, 0] > 0).long())
    probe = torch.randn(50, 3)
    before, moments = learner.predict(probe), optimizer.state[model[0].weight]["exp_avg"].clone()
    held = learner.which.inputs.clone()
    widen(learner, 5, fill=7.0)
    after = learner.predict(nn.functional.pad(probe, (0, 2), value=3.0))
    assert torch.allclose(after, before, atol=1e-6)
    assert torch.equal(optimizer.state[model[0].weight]["exp_avg"][:, :3], moments)
    assert torch.equal(learner.which.inputs[:, :3], held)
    assert (learner.which.inputs[:, 3:] == 7).all()
    for _ in range(200):
        x = torch.randn(10, 5)
        learner.learn(x, (x[:, 4] > 0).long())
    test = torch.randn(500, 5)
    found = learner.predict(test).argmax(1) == (test[:, 4] > 0)
    assert found.float().mean() > 0.8, "the new inputs are used"


def test_inputs_that_cannot_grow_are_refused():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    loss = nn.CrossEntropyLoss(reduction="none")
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=loss)
    with pytest.raises(ValueError, match="inputs must be an integer of at least 4, got 3"):
        widen(learner, 3)
    learner.learn(torch.randn(3, 2, 2), torch.tensor([0, 1, 0]))
    with pytest.raises(ValueError, match="not rows of numbers"):
        widen(learner, 5)
    assert model[1].in_features == 4
