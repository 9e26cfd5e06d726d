"""The learner equals a literal float64 implementation of Algorithm 1 at every step."""

import copy
import itertools

import pytest
import torch
from torch import nn

from paper.reference import Algorithm1
from taskfree import MAS, Hardest, Learner, Plateau

STEPS = 300
OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "groups": lambda parameters: torch.optim.SGD(
        [{"params": parameters[:2], "lr": 0.2}, {"params": parameters[2:], "lr": 0.05}], lr=1.0
    ),
}


def stream(steps):
    """Three classes by angle; the plane is rotated by 120 degrees in the middle, then back."""
    generator = torch.Generator().manual_seed(1)
    for step in range(steps):
        x = torch.randn(4, 2, generator=generator, dtype=torch.float64)
        turn = step // (steps // 3) % 2
        y = (torch.atan2(x[:, 1], x[:, 0]) / 2.0944 + 1.5).long().clamp(0, 2)
        yield x, (y + turn) % 3


def run_both(optimizer, strength, how, penalty="gradient", keep_buffer=True, steps=STEPS, **which):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    twin = copy.deepcopy(model)
    loss = nn.CrossEntropyLoss(reduction="none")
    reference = Algorithm1(
        twin, OPTIMIZERS[optimizer](list(twin.parameters())), loss, repeats=2, window=3,
        delta_mu=1.6, delta_sigma=0.2, capacity=7, strength=strength, penalty=penalty,
        keep_buffer=keep_buffer, **how, **({"balanced": False, "rescore": False} | which),
    )  # fmt: skip
    learner = Learner(
        model, OPTIMIZERS[optimizer](list(model.parameters())), loss=loss,
        when=Plateau(window=3, mean=1.6, variance=0.2),
        which=Hardest(7, **which) if keep_buffer else None,
        how=MAS(strength, penalty=penalty, **how), repeats=2,
    )  # fmt: skip
    torch.set_num_threads(1)
    for x, y in stream(steps):
        reference.step(x, y)
        report = learner.learn(x, y)
        yield reference, learner, report


def numbers(values):
    return torch.tensor(list(values), dtype=torch.float64)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def assert_equal(reference, learner, report):
    for name, value in learner.model.named_parameters():
        close(value, reference.theta[name])
    event = "plateau" if report.consolidated else "peak" if report.peak else ""
    assert event == reference.events[-1]
    for name, omega in learner.how.importance.items():
        close(omega, reference.omega[name])
        close(learner.how.anchor[name], reference.theta_star[name])
    assert bool(learner.how.importance) == (reference.updates > 0)
    assert learner.when.armed == (not reference.P)
    close(numbers(learner.when.window), numbers(reference.W))
    if learner.which is not None:
        assert len(learner.which) == len(reference.B)
        order = learner.which.losses.argsort(descending=True, stable=True)
        theirs = sorted(reference.B, key=lambda sample: -sample.loss)
        close(learner.which.losses[order], numbers(sample.loss for sample in theirs))
        assert torch.equal(learner.which.inputs[order], torch.stack([s.x for s in theirs]))
        assert torch.equal(learner.which.targets[order], torch.stack([s.y for s in theirs]))


HOW = [
    {"accumulate": accumulate, "output": output}
    for accumulate, output in itertools.product(["mean", "decay", "sum"], ["squared", "norm"])
]
WHICH = [
    {"balanced": balanced, "rescore": rescore}
    for balanced, rescore in itertools.product([False, True], repeat=2)
]


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
@pytest.mark.parametrize("which", WHICH, ids=str)
@pytest.mark.parametrize("how", HOW, ids=str)
def test_every_combination_equals_the_reference_at_every_step(how, which, optimizer):
    for reference, learner, report in run_both(optimizer, 0.2, how, **which):
        assert_equal(reference, learner, report)
    assert reference.updates >= 3, "the run must consolidate several times"
    assert reference.events.count("peak") >= 2


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("strength", [0.5, 1e3])
def test_the_proximal_penalty_equals_the_reference(optimizer, strength):
    how = {"accumulate": "mean", "output": "squared"}
    for reference, learner, report in run_both(optimizer, strength, how, penalty="proximal"):
        assert_equal(reference, learner, report)
    assert reference.updates >= 1


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_without_a_buffer_importance_is_estimated_on_the_new_samples(optimizer):
    how = {"accumulate": "mean", "output": "squared"}
    for reference, learner, report in run_both(optimizer, 0.5, how, keep_buffer=False):
        assert_equal(reference, learner, report)
    assert reference.updates >= 2
