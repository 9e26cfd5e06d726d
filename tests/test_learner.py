import copy
import gc
import inspect
import math
import weakref
from statistics import median

import pytest
import torch
from torch import nn

from same import assert_same, snapshot
from taskfree import (
    MAS,
    Every,
    Hardest,
    Learner,
    Plateau,
    Recent,
    Reservoir,
)
from taskfree.when import Never, RelativePlateau

CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")


def mlp(dtype=torch.float32):
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)).to(dtype)


def stream(steps, seed=1, dtype=torch.float32, samples=6):
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        x = torch.randn(samples, 4, generator=generator)
        y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
        yield x.to(dtype), (y + step // (steps // 2)) % 3


def full(model, optimizer=None, repeats=2, **components):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    components = {
        "when": Plateau(window=3, mean=2.0, variance=0.5),
        "which": Hardest(10),
        "how": MAS(1.0),
    } | components
    return Learner(model, optimizer, loss=CROSS_ENTROPY, repeats=repeats, **components)


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.SGD(p, lr=0.1),
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3),
    lambda p: torch.optim.Adam(p, lr=0.01),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_components_it_is_plain_online_learning_bit_for_bit(make, dtype):
    model = mlp(dtype)
    plain = copy.deepcopy(model)
    learner = Learner(
        model, make(model.parameters()), loss=CROSS_ENTROPY, which=None, how=None, repeats=3
    )
    optimizer = make(plain.parameters())
    for x, y in stream(100, dtype=dtype):
        report = learner.learn(x, y)
        for repeat in range(3):
            loss = nn.functional.cross_entropy(plain(x), y)
            if repeat == 0:
                assert report.loss == pytest.approx(loss.item(), rel=1e-6)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert_same(dict(model.named_parameters()), dict(plain.named_parameters()))


def test_the_report_describes_the_time_step():
    model = mlp(torch.float64)
    learner = full(model, which=Recent(4), when=Plateau(window=2, mean=100, variance=100))
    (x, y), (x2, y2), *_ = stream(4, dtype=torch.float64)
    first_loss = CROSS_ENTROPY(model(x), y).mean().item()
    first = learner.learn(x, y)
    assert (first.step, first.consolidated, first.peak) == (1, False, False)
    assert first.loss == first.window_loss == pytest.approx(first_loss)
    assert math.isnan(first.buffer_loss)
    assert math.isnan(first.window_mean)
    held = CROSS_ENTROPY(model(learner.which.inputs), learner.which.targets).mean().item()
    new = CROSS_ENTROPY(model(x2), y2).mean().item()
    second = learner.learn(x2, y2)
    assert second.loss == pytest.approx(new)
    assert second.buffer_loss == pytest.approx(held)
    assert second.window_loss == pytest.approx(new + held)
    assert second.window_mean == pytest.approx((first.window_loss + second.window_loss) / 2)
    assert second.consolidated
    assert (second.step, learner.step) == (2, 2)
    assert len(learner.which) == 4


def test_loss_optimizer_and_buffer_may_be_replaced_between_steps():
    model = mlp(torch.float64)
    learner = full(model, repeats=1, which=None, how=None)
    (x, y), *_ = stream(2, dtype=torch.float64)
    learner.learn(x, y)
    learner.loss = lambda outputs, targets: 3 * CROSS_ENTROPY(outputs, targets)
    learner.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    learner.which = Hardest(4)
    plain = copy.deepcopy(model)
    loss = 3 * CROSS_ENTROPY(plain(x), y).mean()
    loss.backward()
    report = learner.learn(x, y)
    assert report.loss == pytest.approx(loss.item())
    for value, expected in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(value, expected - 0.01 * expected.grad)
    assert len(learner.which) == 4
    learner.loss = lambda outputs, targets: CROSS_ENTROPY(outputs, targets.fill_(0))
    with pytest.raises(ValueError, match="model or loss writes to its inputs or targets"):
        learner.learn(x, y)


OPTIMIZERS = [
    name
    for name, kind in vars(torch.optim).items()
    if inspect.isclass(kind) and kind.__base__ is torch.optim.Optimizer
]


def make_optimizer(name, model):
    values = list(model.parameters())
    if name == "Muon":
        values = [value for value in values if value.dim() == 2]
    options = {
        "Adafactor": {},
        "Adadelta": {"lr": 1.0},
        "LBFGS": {"lr": 0.5, "max_iter": 2, "history_size": 2, "line_search_fn": "strong_wolfe"},
    }.get(name, {"lr": 0.01})
    return getattr(torch.optim, name)(values, **options)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_any_optimizer_learns_resumes_and_is_undone(name):
    def make():
        torch.manual_seed(0)
        words = name == "SparseAdam"
        model = nn.EmbeddingBag(50, 3, sparse=True) if words else mlp()
        learner = full(model, make_optimizer(name, model), when=Every(7), how=MAS(0.1))
        return learner, (lambda x: (x.abs() * 12).long().clamp(max=49)) if words else (lambda x: x)

    learner, inputs = make()
    losses = []
    for x, y in list(stream(60))[:30]:
        losses.append(learner.learn(inputs(x), y).loss)
    assert median(losses[-10:]) < median(losses[:10]), "it learns"

    before = snapshot(learner)
    learner.loss = lambda outputs, y: CROSS_ENTROPY(outputs, y) * torch.nan
    with pytest.raises(ValueError, match="loss is nan or inf for 6 of 6 new samples"):
        learner.learn(inputs(x), y)
    assert_same(snapshot(learner), before)
    learner.loss = CROSS_ENTROPY

    other, _ = make()
    other.load_state_dict(before)
    for x, y in stream(20, seed=2):
        assert repr(learner.learn(inputs(x), y)) == repr(other.learn(inputs(x), y))
    assert_same(snapshot(learner), snapshot(other))


class Norms(nn.Module):
    """Dropout and batch norm: learning draws random numbers and changes statistics."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3)
        )

    def forward(self, x):
        return self.layers(x)


@pytest.mark.parametrize("make_which", [
    lambda: None, lambda: Hardest(8), lambda: Hardest(8, balanced=True), lambda: Recent(8),
    lambda: Hardest(8, rescore=True), lambda: Reservoir(8),
])  # fmt: skip
@pytest.mark.parametrize("make_when", [
    lambda: Plateau(window=3, mean=3.0, variance=1.0), lambda: RelativePlateau(window=2, fall=0.9),
    lambda: Every(5), Never,
])  # fmt: skip
@pytest.mark.parametrize("cut", [1, 4, 23])
def test_a_loaded_learner_continues_bit_for_bit(make_which, make_when, cut):
    def make():
        torch.manual_seed(5)
        model = Norms()
        optimizer = torch.optim.SGD(
            [{"params": model.layers[0].parameters(), "lr": 0.05}, {"params": model.layers[4].parameters()}],
            lr=0.1, momentum=0.9,
        )  # fmt: skip
        return full(model, optimizer, when=make_when(), which=make_which())

    learner = make()
    data = list(stream(60))
    for x, y in data[:cut]:
        learner.learn(x, y)
    learner.optimizer.param_groups[0]["lr"] = 0.025  # as a schedule does
    saved = snapshot(learner)
    expected = [repr(learner.learn(x, y)) for x, y in data[cut:]]
    finished = snapshot(learner)

    resumed = make()
    torch.manual_seed(99)  # whatever happens in between
    torch.rand(7)
    resumed.load_state_dict(saved)
    assert [repr(resumed.learn(x, y)) for x, y in data[cut:]] == expected
    assert_same(snapshot(resumed), finished)


def test_a_lost_momentum_is_found():
    """The control of the test above: a checkpoint without the state of the optimizer."""

    def make():
        torch.manual_seed(5)
        model = mlp()
        return full(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))

    learner, resumed = make(), make()
    data = list(stream(40))
    for x, y in data[:20]:
        learner.learn(x, y)
    resumed.load_state_dict(snapshot(learner))
    resumed.optimizer.state.clear()
    for one in (learner, resumed):
        for x, y in data[20:]:
            one.learn(x, y)
    with pytest.raises(AssertionError, match="differs"):
        assert_same(dict(learner.model.named_parameters()), dict(resumed.model.named_parameters()))


def test_the_state_is_a_flat_dict_of_tensors():
    learner = full(Norms())
    for x, y in stream(10):
        learner.learn(x, y)
    state = learner.state_dict()
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    assert "model.layers.0.weight" in state
    assert "how.importance.layers.0.weight" in state
    assert "which.inputs" in state
    assert {name.split(".")[0] for name in state} == {
        "step", "parts", "model", "optimizer", "random", "when", "which", "how",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda s: s.pop("model.0.weight"), "the saved state has nothing for '0.weight' and this"),
        (lambda s: s.update({"model.0.weight": torch.zeros(2, 2)}), r"the saved state has torch.float32 \[2, 2\]"),
        (lambda s: s.update({"model.new": torch.zeros(2)}), "this learner has nothing"),
        (lambda s: s.update(parts=torch.tensor([True, False])), "saved without a component for 'how', unlike"),
        (lambda s: s.update(parts=torch.tensor([False, True])), "saved without a component for 'which'"),
        (lambda s: s.update({"model.0.weight": s["model.0.weight"].double()}), "torch.float64"),
        (lambda s: s.pop("parts"), "lacks 'parts'"),
        (lambda s: s.pop("when.armed"), "when.armed"),
        (lambda s: s.pop("optimizer.layout"), "optimizer.layout"),
        (lambda s: s.pop("step"), "step"),
        (lambda s: s.pop("random.0.cpu"), "random.0.cpu"),
    ],
)  # fmt: skip
def test_a_state_that_does_not_fit_changes_nothing(damage, message):
    source, target = full(mlp()), full(mlp())
    for x, y in stream(20):
        source.learn(x, y)
    for x, y in stream(10, seed=3):
        target.learn(x, y)
    state, before = snapshot(source), snapshot(target)
    damage(state)
    with pytest.raises(ValueError, match=message):
        target.load_state_dict(state)
    assert_same(snapshot(target), before)


def test_the_papers_learner_has_its_components_and_settings():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    learner = Learner.paper(
        model, optimizer, loss=CROSS_ENTROPY, capacity=40, variance=0.1, balanced=True, repeats=2
    )
    assert (learner.when.size, learner.when.mean, learner.when.variance) == (5, 0.5, 0.1)
    assert (learner.which.capacity, learner.which.balanced, learner.which.rescore) == (
        40,
        True,
        False,
    )
    how = learner.how
    assert (how.strength, how.accumulate, how.penalty, how.output) == (
        0.5,
        "mean",
        "gradient",
        "squared",
    )
    assert learner.repeats == 2


def test_predict_is_in_eval_mode_and_changes_nothing():
    learner = full(Norms())
    for x, y in stream(5):
        learner.learn(x, y)
    learner.model.layers[1].eval()  # as the user wants it
    before = snapshot(learner)
    first, second = learner.predict(x), learner.predict(x)
    assert torch.equal(first, second), "no dropout"
    assert not first.requires_grad
    assert_same(snapshot(learner), before)
    assert learner.model.training
    assert not learner.model.layers[1].training


def test_learning_is_in_training_mode_even_after_eval():
    learner = full(Norms())
    learner.model.eval()
    for x, y in stream(3):
        learner.learn(x, y)
    assert int(learner.model.layers[1].num_batches_tracked) == 3 * 2


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 3)

    def forward(self, left, right):
        return self.mix(torch.cat([left, right], dim=1))


@pytest.mark.parametrize("kind", ["tuple", "list", "dict"])
@pytest.mark.parametrize("rescore", [False, True])
def test_inputs_and_targets_in_tuples_lists_and_dicts_learn_the_same(kind, rescore):
    def loss(outputs, y):
        if isinstance(y, dict):
            return CROSS_ENTROPY(outputs, y["label"]) * y["weight"]
        label, weight = y
        return CROSS_ENTROPY(outputs, label) * weight

    def run(make_inputs, make_targets):
        torch.manual_seed(0)
        model = Pair()
        learner = full(model, which=Hardest(7, rescore=rescore))
        learner.loss = loss
        for x, y in stream(40):
            weight = torch.rand(len(x), generator=torch.Generator().manual_seed(int(y.sum())))
            learner.learn(make_inputs(x, x.flip(0)), make_targets(y, weight))
        assert learner.how.consolidations > 0
        return dict(model.named_parameters())

    structures = {
        "tuple": (lambda a, b: (a, b), lambda y, w: (y, w)),
        "list": (lambda a, b: [a, b], lambda y, w: [y, w]),
        "dict": (lambda a, b: {"right": b, "left": a}, lambda y, w: {"label": y, "weight": w}),
    }
    assert_same(run(*structures[kind]), run(*structures["tuple"]))


class TiedAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(4, 4, bias=False)
        self.decode = nn.Linear(4, 4, bias=False)
        self.decode.weight = self.encode.weight

    def forward(self, x):
        return self.decode(torch.tanh(self.encode(x)))


def test_tied_parameters_count_once_and_survive_saving():
    model = TiedAutoencoder()
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.05), when=Every(5), which=Hardest(6),
        how=MAS(1.0), loss=lambda out, y: (out - y).square().mean(1),
    )  # fmt: skip
    for x, _ in stream(20):
        learner.learn(x, x)
    assert list(learner.how.importance) == ["encode.weight"]
    assert [name for name in learner.state_dict() if name.startswith("model.")] == [
        "model.encode.weight"
    ]
    state = snapshot(learner)
    nn.init.zeros_(model.decode.weight)
    learner.load_state_dict(state)
    assert_same(snapshot(learner), state)
    assert model.decode.weight is model.encode.weight


def test_frozen_parameters_do_not_change():
    model = mlp()
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    learner = full(model, when=Every(3))
    for x, y in stream(20):
        learner.learn(x, y)
    assert torch.equal(model[0].weight, before)
    assert set(learner.how.importance) == {"2.weight", "2.bias"}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("penalty", ["proximal", "gradient"])
def test_any_dtype(dtype, penalty):
    model = mlp(dtype)
    learner = full(model, when=Every(5), how=MAS(0.1, penalty=penalty))
    for x, y in stream(30, dtype=dtype):
        learner.learn(x, y)
    assert learner.which.inputs.dtype == dtype
    for name, value in model.named_parameters():
        assert learner.how.importance[name].dtype == value.dtype == dtype
        assert value.isfinite().all()


def test_learning_ignores_an_outer_no_grad():
    losses = []
    for context in (torch.no_grad, torch.enable_grad):
        torch.manual_seed(0)
        learner = full(mlp())
        with context():
            losses.append([learner.learn(x, y).loss for x, y in stream(20)])
    assert losses[0] == losses[1]


def test_batch_sizes_may_change():
    learner = full(mlp())
    for samples in (1, 30, 2, 7):
        for x, y in stream(4, samples=samples):
            learner.learn(x, y)
    assert len(learner.which) == 10


def test_the_state_does_not_grow_with_the_stream():
    """The long version is `make endless`."""

    def numbers(learner):
        return sum(value.numel() for value in learner.state_dict().values())

    for when in (Plateau(window=5, mean=2, variance=1), RelativePlateau(), Every(10)):
        learner = full(mlp(), when=when)
        sizes = set()
        for x, y in stream(400):
            learner.learn(x, y)
            if learner.how.importance and len(learner.which) == learner.which.capacity:
                sizes.add(numbers(learner))
        assert sizes
        assert max(sizes) - min(sizes) <= 5, "the window fills and empties, nothing else changes"


def test_past_samples_are_not_held_in_memory():
    learner = full(mlp(), which=Recent(3))
    storages = []
    for x, y in stream(20):
        learner.learn(x, y)
        storages.append(weakref.ref(x.untyped_storage()))
    del x, y
    gc.collect()
    assert all(storage() is None for storage in storages)


def test_a_state_can_be_loaded_twice():
    """Learning after loading does not write to the loaded state."""
    model = mlp()
    learner = full(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    data = list(stream(20))
    for x, y in data:
        learner.learn(x, y)
    saved = snapshot(learner)
    before = {name: value.clone() for name, value in saved.items()}
    ends = []
    for _ in range(2):
        learner.load_state_dict(saved)
        for x, y in data:
            learner.learn(x, y)
        ends.append(snapshot(learner))
    assert_same(saved, before)
    assert_same(*ends)


@pytest.mark.parametrize("name", ["NAdam", "ASGD", "Adam", "Rprop"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_state_of_the_optimizer_keeps_its_dtype(name, dtype):
    def make():
        torch.manual_seed(0)
        model = mlp(dtype)
        return full(model, getattr(torch.optim, name)(model.parameters(), lr=0.01))

    learner, other = make(), make()
    for x, y in stream(10, dtype=dtype):
        learner.learn(x, y)
    other.load_state_dict(snapshot(learner))
    assert_same(snapshot(learner), snapshot(other))
    for x, y in stream(10, seed=2, dtype=dtype):
        learner.learn(x, y)
        other.learn(x, y)
    assert_same(snapshot(learner), snapshot(other))


class Tempered(nn.Module):
    """A loss with a parameter and a buffer."""

    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(1))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, outputs, targets):
        self.calls += 1
        return CROSS_ENTROPY(outputs / self.temperature, targets)


def test_a_loss_with_parameters_is_part_of_the_state_and_is_undone():
    def make():
        torch.manual_seed(0)
        model, loss = mlp(), Tempered()
        optimizer = torch.optim.Adam([*model.parameters(), *loss.parameters()], lr=0.01)
        return Learner(model, optimizer, loss=loss, when=Every(4), repeats=2)

    learner, other = make(), make()
    data = list(stream(30))
    for x, y in data[:10]:
        learner.learn(x, y)
    assert float(learner.loss.temperature.detach()) != 1
    other.load_state_dict(snapshot(learner))
    for x, y in data[10:]:
        assert repr(learner.learn(x, y)) == repr(other.learn(x, y))
    before = snapshot(learner)
    learner.loss.register_forward_hook(lambda *given: given[-1] * torch.nan)
    with pytest.raises(ValueError, match="loss is nan or inf"):
        learner.learn(x, y)
    assert_same(snapshot(learner), before)


def test_a_parameter_known_only_to_the_optimizer_is_part_of_the_state():
    model, scale = mlp(), nn.Parameter(torch.ones(1))
    learner = Learner(
        model, torch.optim.SGD([*model.parameters(), scale], lr=0.1),
        loss=lambda outputs, y: CROSS_ENTROPY(outputs * scale, y),
    )  # fmt: skip
    for x, y in stream(5):
        learner.learn(x, y)
    saved, value = snapshot(learner), scale.detach().clone()
    with torch.no_grad():
        scale.zero_()
    learner.load_state_dict(saved)
    assert torch.equal(scale, value)


def test_the_graph_of_inputs_is_cut_off():
    encoder, model = nn.Linear(4, 4), mlp()
    for which in (None, Hardest(5)):
        learner = full(model, which=which)
        x, y = next(stream(2))
        learner.learn(encoder(x), y)
        assert encoder.weight.grad is None


def test_gradients_of_parameters_outside_the_optimizer_do_not_accumulate():
    model = mlp()
    learner = full(model, torch.optim.SGD(model[2].parameters(), lr=0.01))
    sizes = []
    for x, y in stream(30):
        learner.learn(x, y)
        sizes.append(float(model[0].weight.grad.norm()))
    assert max(sizes[15:]) < 5 * max(sizes[:15])


def test_parameter_groups_may_be_added_while_it_learns():
    model = mlp()
    model[0].requires_grad_(False)
    learner = full(model, torch.optim.SGD(model[2].parameters(), lr=0.1), when=Every(3))
    for x, y in stream(10):
        learner.learn(x, y)
    before = model[0].weight.clone()
    model[0].requires_grad_(True)
    learner.optimizer.add_param_group({"params": list(model[0].parameters()), "lr": 0.05})
    for x, y in stream(10):
        learner.learn(x, y)
    assert not torch.equal(model[0].weight, before)
    assert set(learner.how.importance) == {"0.weight", "0.bias", "2.weight", "2.bias"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_compiled_model_learns_the_same_and_shares_its_state():
    def run(wrap):
        torch.manual_seed(0)
        model = mlp(torch.float64)
        wrapped = wrap(model)
        learner = full(wrapped, torch.optim.SGD(model.parameters(), lr=0.1), when=Every(6))
        for x, y in stream(30, dtype=torch.float64):
            learner.learn(x, y)
        assert torch.equal(learner.predict(x), wrapped.eval()(x).detach())
        return learner

    plain, compiled = run(lambda m: m), run(lambda m: torch.compile(m, backend="aot_eager"))
    assert plain.state_dict().keys() == compiled.state_dict().keys()
    for name, value in plain.how.importance.items():
        torch.testing.assert_close(compiled.how.importance[name], value, rtol=1e-9, atol=1e-12)
    plain.load_state_dict(snapshot(compiled))
    compiled.load_state_dict(snapshot(plain))


def test_channels_last_learns_the_same():
    def run(layout):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 3)
        ).double()
        model = model.to(memory_format=layout)
        learner = full(model, when=Every(4))
        generator = torch.Generator().manual_seed(0)
        for _ in range(12):
            x = (
                torch.rand(5, 3, 8, 8, generator=generator)
                .double()
                .contiguous(memory_format=layout)
            )
            learner.learn(x, (x.mean((1, 2, 3)) * 30).long() % 3)
        return learner

    plain, last = run(torch.contiguous_format), run(torch.channels_last)
    for name, value in plain.how.importance.items():
        torch.testing.assert_close(last.how.importance[name], value, rtol=1e-9, atol=1e-12)
    state = snapshot(last)
    last.load_state_dict(state)
    assert_same(snapshot(last), state)
