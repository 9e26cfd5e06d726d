"""The teacher: averages of weights and outputs, and the pull towards them."""

import copy

import pytest
import torch
from torch import nn

from same import assert_same, snapshot
from taskfree import MAS, Every, Learner
from taskfree._core.batch import Recalled
from taskfree.grow import grow
from taskfree.how import Teacher
from taskfree.which import ClassBalanced, Hardest, Recent, Reservoir

CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2)).double()


def stream(steps, seed=0, size=5):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        x = torch.randn(size, 3, generator=generator).double()
        yield x, (x[:, 0] > 0).long()


def make(model=None, lr=0.1, **options):
    model = network() if model is None else model
    options = {"which": Reservoir(20, seed=1), "how": Teacher(), "when": None} | options
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    return Learner(model, optimizer, **({"loss": CROSS_ENTROPY} | options))


class Literal:
    """The same learner for logits or numbers, written down step by step, in plain autograd."""

    def __init__(self, learner, teacher):
        self.learner, self.teacher = learner, teacher
        self.model = copy.deepcopy(learner.model)
        self.average = copy.deepcopy(learner.model)
        self.buffer = copy.deepcopy(learner.which)
        self.outputs = {}  # of each sample, by its input: the average, and when
        self.scales = None
        self.known_losses = []  # of each time step: of new and of replayed samples
        self.gradient_steps = self.time_steps = 0

    def firmness(self):
        """By the discounted means of the losses, each from its first value on."""
        recent = usual = replayed = None
        for new, old in self.known_losses:
            recent = new if recent is None else 0.9 * recent + 0.1 * new
            usual = new if usual is None else 0.99 * usual + 0.01 * new
            if old is not None:
                replayed = old if replayed is None else 0.99 * replayed + 0.01 * old
        if replayed is None:
            return 1.0
        return min(10.0, usual / replayed) * min(1.0, usual / recent) ** 2

    def learn(self, x, y):
        learner, said = self.learner, {}
        joint = self.buffer.join(x, y)
        for repeat in range(learner.repeats):
            xs, ys = joint if repeat == 0 else self.buffer.redraw()
            replayed = len(xs) - len(x)
            outputs = self.model(xs)
            losses = learner.loss(outputs, ys)
            objective = losses[replayed:].mean()
            now = self.gradient_steps + 1
            if repeat == 0:
                old = losses[:replayed].mean().item() if replayed else None
                known_losses = losses[replayed:].mean().item(), old
            if replayed:
                objective = objective + losses[:replayed].mean()
                (gradient,) = torch.autograd.grad(losses.sum(), outputs, retain_graph=True)
                new = (
                    losses[:replayed].mean().item(),
                    gradient[:replayed].square().sum(1).mean().item(),
                )
                for row in range(replayed):
                    known = self.outputs.get(tuple(xs[row].tolist()))
                    average, share = outputs[row].detach(), 1.0
                    if known is not None:
                        average, share = known[0], 1 - self.teacher.outputs ** (now - known[1])
                    if self.scales is not None:
                        strength = self.teacher.strength * self.firmness()
                        c = strength * self.scales[1] / (2 * self.scales[0])
                        away = (outputs[row] - average).square().sum()
                        objective = objective + c * away / replayed
                    said[tuple(xs[row].tolist())] = (
                        average + share * (outputs[row].detach() - average),
                        now,
                    )
            self.model.zero_grad()
            objective.backward()
            if replayed and (self.scales is None or self.gradient_steps % 4 == 0):
                old = self.scales or new
                self.scales = tuple(a + 0.2 * (b - a) for a, b in zip(old, new, strict=True))
            with torch.no_grad():
                for value in self.model.parameters():
                    value -= learner.optimizer.param_groups[0]["lr"] * value.grad
            self.gradient_steps = now
        self.buffer.update(losses.detach())
        self.outputs |= said
        self.known_losses.append(known_losses)
        self.time_steps += 1
        share = max(1 - self.teacher.weights**learner.repeats, 1 / (self.time_steps + 1))
        with torch.no_grad():
            for a, b in zip(self.average.parameters(), self.model.parameters(), strict=True):
                a += share * (b - a)


def regression(outputs, targets):
    return (outputs - targets[:, None]).square().mean(1)


@pytest.mark.parametrize("loss", [CROSS_ENTROPY, regression], ids=["labels", "numbers"])
@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize(
    "which",
    [
        lambda: Reservoir(20, replay=6),
        lambda: Hardest(7),
        lambda: Recent(9),
        lambda: ClassBalanced(8),
    ],
    ids=["reservoir", "hardest", "recent", "balanced"],
)
def test_it_equals_its_definition(loss, repeats, which):
    teacher = Teacher(strength=1.5, outputs=0.9, weights=0.8)
    learner = make(which=which(), how=teacher, repeats=repeats, loss=loss)
    literal = Literal(learner, teacher)
    for x, y in stream(40):
        learner.learn(x, y)
        literal.learn(x, y)
        for mine, its in ((learner.model, literal.model), (teacher.network, literal.average)):
            for a, b in zip(mine.parameters(), its.parameters(), strict=True):
                torch.testing.assert_close(a.detach(), b.detach(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_the_scales_of_loss_and_outputs_do_not_matter(scale):
    """A loss times 100 with a rate divided by 100, or outputs times 100 and divided in the loss."""
    plain = make(lr=0.1)
    loss = make(lr=0.1 / scale, loss=lambda o, t: scale * CROSS_ENTROPY(o, t))
    model = network()
    with torch.no_grad():
        for value in model[2].parameters():
            value *= scale
    outputs = make(model, loss=lambda o, t: CROSS_ENTROPY(o / scale, t))
    outputs.optimizer = torch.optim.SGD(
        [
            {"params": model[0].parameters()},
            {"params": model[2].parameters(), "lr": 0.1 * scale**2},
        ],
        lr=0.1,
    )
    learners = (plain, loss, outputs)
    for x, y in stream(60):
        reports = [learner.learn(x, y) for learner in learners]
        assert reports[1].loss == pytest.approx(scale * reports[0].loss, rel=1e-9)
        assert reports[2].loss == pytest.approx(reports[0].loss, rel=1e-9)
    assert len({learner._serving.choice for learner in learners}) == 1
    x = torch.randn(50, 3).double()
    torch.testing.assert_close(plain.predict(x), loss.predict(x), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(plain.predict(x), outputs.predict(x) / scale, rtol=1e-9, atol=1e-12)


class Heads(nn.Module):
    """Outputs of every structure: a dict of two heads, one with a trailing dimension."""

    def __init__(self):
        super().__init__()
        self.body, self.left, self.right = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(4, 6)

    def forward(self, x):
        hidden = self.body(x).tanh()
        return {
            "left": self.left(hidden),
            "right": self.right(hidden).view(-1, 2, 3),
            "ids": x.argmax(1),
        }


def test_heads_are_held_each_by_its_own_scale():
    def loss(outputs, targets):
        right = (100 * outputs["right"]).square().mean((1, 2))
        return CROSS_ENTROPY(outputs["left"], targets) + right

    torch.manual_seed(0)
    learner = make(Heads().double(), loss=loss, lr=1e-4)
    for x, y in stream(30):
        learner.learn(x, y)
    scales = learner.how.state_dict()["scales"]
    assert len(scales) == 3, "the loss and two heads; labels are not held"
    assert scales[2] > 10 * scales[1] > 0
    outputs = learner.predict(x)
    assert outputs["right"].shape == (5, 2, 3)
    assert outputs["ids"].dtype == torch.long


def test_held_outputs_move_less():
    """The control: without the pull, the outputs for replayed samples move on."""
    moves = []
    for strength in (0.0, 1.0):
        learner = make(how=Teacher(strength), which=Reservoir(10))
        for x, y in stream(100):
            learner.learn(x, y)
        known = learner.which.inputs.clone()
        with torch.no_grad():
            before = learner.model(known)
        for x, y in stream(20, seed=9):
            learner.learn(x + 2, y)  # other inputs
        with torch.no_grad():
            moves.append(float((learner.model(known) - before).square().mean()))
    assert moves[1] < 0.7 * moves[0]


def test_frozen_parameters_are_shared_and_buffers_averaged():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()
    model[0].requires_grad_(False)
    learner = make(model)
    for x, y in stream(20):
        learner.learn(x, y)
    network = learner.how.network
    assert network[0].weight is model[0].weight
    assert network[2].weight is not model[2].weight
    assert not network[1].running_mean.equal(model[1].running_mean)
    assert torch.allclose(network[1].running_mean, model[1].running_mean, atol=0.5)
    assert network[1].num_batches_tracked == 20
    assert not network.training
    assert model.training


def test_a_teacher_without_a_buffer_only_averages():
    learner = make(which=None)
    plain = make(which=None, how=None)
    for x, y in stream(20):
        learner.learn(x, y)
        plain.learn(x, y)
    assert_same(learner.model.state_dict(), plain.model.state_dict())
    assert not learner.how.network[0].weight.equal(learner.model[0].weight)


def test_it_resumes_bit_for_bit():
    options = {"how": [Teacher(), MAS(0.01, penalty="relative")], "when": Every(7), "repeats": 2}
    learner = make(**options)
    batches = list(stream(40))
    for x, y in batches[:25]:
        learner.learn(x, y)
    saved = snapshot(learner)
    twin = make(network(1), **{**options, "how": [Teacher(), MAS(0.01, penalty="relative")],
                               "which": Reservoir(20, seed=5), "when": Every(7)})  # fmt: skip
    twin.load_state_dict(saved)
    assert_same(snapshot(twin), saved)
    x = torch.randn(30, 3).double()
    assert torch.equal(learner.predict(x), twin.predict(x))
    for x, y in batches[25:]:
        assert learner.learn(x, y) == twin.learn(x, y)
    assert_same(snapshot(twin), snapshot(learner))


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_failing_step_changes_nothing(repeats):
    failing = False

    def loss(outputs, targets):
        nonlocal calls
        calls += outputs.requires_grad
        if failing and outputs.requires_grad and calls == repeats:
            raise RuntimeError("no more")
        return CROSS_ENTROPY(outputs, targets)

    calls = 0
    learner = make(loss=loss, repeats=repeats, how=[Teacher(), MAS(0.01)], when=Every(5))
    twin = make(repeats=repeats, how=[Teacher(), MAS(0.01)], when=Every(5))
    for x, y in stream(12):
        calls, failing = 0, True
        before = snapshot(learner)
        with pytest.raises(ValueError, match="no more"):
            learner.learn(x, y)
        assert_same(snapshot(learner), before)
        calls, failing = 0, False
        learner.learn(x, y)
        twin.learn(x, y)
    assert_same(snapshot(learner), snapshot(twin))


def test_a_head_that_grows_keeps_its_teacher():
    learner = make()
    for x, y in stream(30):
        learner.learn(x, y)
    before = learner.how.network[2].weight.clone()
    grow(learner, 4)
    network = learner.how.attach(learner.model)
    assert torch.equal(network[2].weight[:2], before)
    assert not network[2].weight[2:].any()
    for x, y in stream(30, seed=1):
        learner.learn(x, y + 2 * (x[:, 1] > 0))
    assert learner.predict(x).shape == (5, 4)
    assert learner.which.recall(0).outputs[0].shape[1] == 4


def test_outputs_of_another_shape_are_remembered_anew():
    teacher = Teacher()
    outputs = torch.randn(4, 3, requires_grad=True)
    recalled = Recalled(2, 2, [torch.randn(2, 2)], torch.ones(2, dtype=torch.float64))
    remembered = teacher.before_backward(outputs, outputs.sum(1), recalled)
    assert torch.equal(remembered[0], outputs[:2].detach())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strength": -1}, "strength must be"),
        ({"outputs": 1.0}, r"outputs must be below 1, got 1\.0; 0\.99 averages over about 100"),
        ({"weights": 1.0}, r"weights must be below 1, got 1\.0; 0\.99 averages over about 100"),
        ({"weights": -0.1}, "weights must be"),
    ],
)
def test_invalid_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        Teacher(**arguments)


def test_a_model_that_cannot_be_copied_is_named():
    model = network()
    model.lock = __import__("threading").Lock()
    learner = make(model)
    x, y = next(stream(1))
    with pytest.raises(TypeError) as error:
        learner.learn(x, y)
    assert "in a copy of the model" in error.value.__notes__[0]


def test_outputs_of_any_precision_are_averaged_in_single():
    """Autocast may be on in some steps and off in others."""
    learner = make(network().float())
    for step, (x, y) in enumerate(stream(40)):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=step % 3 > 0):
            assert learner.learn(x.float(), y).step == step + 1
    assert learner.which.recall(0).outputs[0].dtype == torch.float32
    with torch.no_grad():
        half = make(network().bfloat16())
        for x, y in stream(20):
            half.learn(x.bfloat16(), y)
    assert half.which.recall(0).outputs[0].dtype == torch.float32
    assert half.how.network[0].weight.dtype == torch.bfloat16
