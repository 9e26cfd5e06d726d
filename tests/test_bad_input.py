"""Bad input raises an error that names the argument, its value and a remedy; nothing changes."""

import pytest
import torch
from torch import nn

from same import assert_same, snapshot
from taskfree import MAS, Every, Hardest, Learner, NotFiniteError, Plateau, Reservoir

X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 2, 0, 1])
CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 3))


def learner_in_use(which=None, repeats=2, loss=CROSS_ENTROPY):
    torch.manual_seed(0)
    model = network()
    learner = Learner(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        loss=loss,
        when=Plateau(window=3, mean=3, variance=1),
        which=which or Hardest(6),
        how=MAS(1.0),
        repeats=repeats,
    )
    for _ in range(7):
        learner.learn(torch.randn(5, 4), Y)
    assert learner.how.consolidations > 0
    return learner


def not_finite(out, y):
    return CROSS_ENTROPY(out, y) * torch.nan


def with_nan(column):
    changed = column.clone()
    changed[2, 1] = torch.nan
    return changed


BAD_SAMPLES = {
    "no samples": (X[:0], Y[:0], "inputs holds no samples"),
    "no targets": (X, Y[:0], "targets holds no samples"),
    "different lengths": (X, Y[:3], "inputs has 5 rows and targets 3"),
    "not tensors": (X.tolist(), Y, "inputs must be a tensor.* got a list that holds list"),
    "a number": (X, torch.tensor(1), "targets is a single value without rows"),
    "an empty tuple": ((), Y, "inputs is an empty tuple"),
    "uneven tuple": ((X, X[:2]), Y, "inputs holds tensors of 5 and of 2 rows"),
    "another dtype": (X.double(), Y, r"inputs of float64\[4\] per sample do not fit the buffer, which"),
    "another shape": (X[:, :3], Y, r"inputs of float32\[3\] per sample do not fit the buffer"),
    "another structure": ((X,), Y, r"inputs of \(float32\[4\]\) per sample do not fit the buffer"),
    "another target dtype": (X, Y.float(), r"targets of float32\[\] per sample do not fit the buffer"),
    "nan in": (with_nan(X), Y, r"nan or inf in 1 of 5 new samples \(row 2 is the first\)"),
    "inf in": (X * torch.inf, Y, r"nan or inf in 5 of 5 new samples \(row 0 is the first\)"),
    "a label out of range": (X, Y + 9, "loss refused targets of int64.*out of bounds"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_SAMPLES)
@pytest.mark.parametrize("repeats", [1, 3])
def test_bad_samples_are_refused(case, repeats):
    x, y, message = BAD_SAMPLES[case]
    learner = learner_in_use(repeats=repeats)
    before = snapshot(learner)
    with pytest.raises((ValueError, TypeError), match=message):
        learner.learn(x, y)
    assert_same(snapshot(learner), before)
    learner.learn(X, Y)  # and it continues


@pytest.mark.parametrize(
    "which", [Hardest(6, balanced=True), Reservoir(6), Hardest(6, rescore=True)]
)
def test_a_failed_step_does_not_change_the_buffer(which):
    learner = learner_in_use(which=which)
    before = snapshot(learner)
    learner.loss = not_finite
    with pytest.raises(ValueError, match="loss is nan or inf for 5 of 5 new samples"):
        learner.learn(X, Y)
    assert_same(snapshot(learner), before)


BAD_LOSSES = {
    "reduced": (lambda out, y: nn.functional.cross_entropy(out, y), r"shape \[11\], got \[\]; make it"),
    "broadcast": (lambda out, y: out[:, :1] - y, r"returned shape \[11, 11\] for 11 samples: outputs of .* broadcast"),
    "one value too few": (lambda out, y: CROSS_ENTROPY(out, y)[1:], r"shape \[11\], got \[10\]"),
    "not a tensor": (lambda out, y: 1.0, "got float"),
    "its own error": (lambda out, y: {}["margin"], "loss refused targets of .*'margin'"),
    "inf for some": (lambda out, y: CROSS_ENTROPY(out, y) / (y > 0), "is nan or inf for 2 of 5 new samples"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_LOSSES)
def test_bad_losses_are_refused(case):
    loss, message = BAD_LOSSES[case]
    learner = learner_in_use()
    before = snapshot(learner)
    learner.loss = loss
    with pytest.raises(ValueError, match=message):
        learner.learn(X, Y)
    learner.loss = CROSS_ENTROPY
    assert_same(snapshot(learner), before)


def test_a_target_dtype_that_the_loss_does_not_take():
    model = network()
    learner = Learner(model, torch.optim.SGD(model.parameters()), loss=CROSS_ENTROPY)
    before = snapshot(learner)
    with pytest.raises(
        ValueError, match=r"loss refused targets of float32\[\] per sample.*Long.*Float"
    ):
        learner.learn(X, Y.float())
    assert_same(snapshot(learner), before)


def test_learning_that_diverges_is_reported():
    model = nn.Linear(4, 1)
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=1e12), repeats=9, which=None, how=None,
        loss=lambda out, y: (out[:, 0] - y) ** 2,
    )  # fmt: skip
    before = snapshot(learner)
    with pytest.raises(ValueError, match=r"nothing was learned: .*(diverges|learning rate)"):
        learner.learn(X, Y.float())
    assert_same(snapshot(learner), before)


def test_an_interrupt_in_the_middle_changes_nothing():
    learner = learner_in_use(repeats=3)
    before = snapshot(learner)
    calls = []

    def interrupted(out, y):
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return CROSS_ENTROPY(out, y)

    learner.loss = interrupted
    with pytest.raises(KeyboardInterrupt):
        learner.learn(X, Y)
    learner.loss = CROSS_ENTROPY
    assert_same(snapshot(learner), before)


def test_a_consolidation_that_fails_changes_nothing():
    class Fails(MAS):
        def consolidate(self, model, inputs):
            if self.consolidations:
                raise RuntimeError("out of memory")
            super().consolidate(model, inputs)

    torch.manual_seed(0)
    model = network()
    learner = Learner(
        model, torch.optim.Adam(model.parameters()), loss=CROSS_ENTROPY, when=Every(2),
        which=Hardest(6), how=Fails(1.0),
    )  # fmt: skip
    for _ in range(3):
        learner.learn(X, Y)
    before = snapshot(learner)
    with pytest.raises(RuntimeError, match="out of memory"):
        learner.learn(X, Y)
    assert_same(snapshot(learner), before)


def test_inputs_that_the_model_does_not_take_are_described():
    model = network()
    learner = Learner(model, torch.optim.SGD(model.parameters()), loss=CROSS_ENTROPY)
    with pytest.raises(RuntimeError) as raised:
        learner.learn(torch.randn(5, 7), Y)
    assert raised.value.__notes__ == ["the model was given inputs of float32[7] per sample"]


def test_invalid_arguments_of_a_learner():
    model = network()
    optimizer = torch.optim.SGD(model.parameters())
    complex_model = nn.Linear(2, 2, dtype=torch.complex64)
    integers = nn.Parameter(torch.ones(3, dtype=torch.long), requires_grad=False)
    lazy = nn.LazyLinear(3)
    for arguments, message in [
        ((lambda x: x, optimizer, CROSS_ENTROPY), "model must be a torch.nn.Module, got function"),
        ((model, model.parameters(), CROSS_ENTROPY), "optimizer must be a torch.optim.Optimizer"),
        ((model, optimizer, "cross entropy"), "loss must be a function of outputs and targets"),
        ((model, optimizer, nn.CrossEntropyLoss()), "reduction='mean'; make it with reduction='none'"),
        ((network(), optimizer, CROSS_ENTROPY), "optimizer holds none of the model's trainable"),
        ((network().requires_grad_(False), optimizer, CROSS_ENTROPY), "optimizer holds none of the"),
        (
            (complex_model, torch.optim.SGD(complex_model.parameters()), CROSS_ENTROPY),
            "optimizer holds a parameter of torch.complex64",
        ),
        (
            (model, torch.optim.SGD([*model.parameters(), integers]), CROSS_ENTROPY),
            r"optimizer holds a parameter of torch.int64, shape \[3\]; only floating point",
        ),
        ((lazy, optimizer, CROSS_ENTROPY), "model has parameters whose shape is not known yet"),
    ]:  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=message):
            Learner(arguments[0], arguments[1], loss=arguments[2])
    with pytest.raises(ValueError, match="repeats must be an integer of at least 1, got 0"):
        Learner(model, optimizer, loss=CROSS_ENTROPY, repeats=0)


def test_inference_mode_is_refused_and_changes_nothing():
    learner = learner_in_use()
    before = snapshot(learner)
    with (
        torch.inference_mode(),
        pytest.raises(RuntimeError, match=r"outside of torch\.inference_mode"),
    ):
        learner.learn(X, Y)
    assert_same(snapshot(learner), before)
    learner.learn(X, Y)


@pytest.mark.parametrize(
    ("components", "message"),
    [
        (
            {"when": "plateau"},
            "when must be 'auto', None or an object of taskfree.when, got 'plateau'",
        ),
        ({"which": 30}, "which must be 'auto', None or an object of taskfree.which, got 30"),
        (
            {"how": MAS},
            "how must be 'auto', None or an object of taskfree.how or a list of them, got <class",
        ),
        ({"how": []}, r"how must be .* or a list of them, got \[\]"),
        ({"how": [MAS(1.0), "teacher"]}, "how must be .* or a list of them, got .*'teacher'"),
    ],
)
def test_invalid_components(components, message):
    model = network()
    with pytest.raises(TypeError, match=message):
        Learner(model, torch.optim.SGD(model.parameters()), loss=CROSS_ENTROPY, **components)


def test_lbfgs_is_refused_with_a_penalty_outside_its_line_search():
    model = network()
    with pytest.raises(ValueError, match="use penalty='proximal'"):
        Learner(
            model, torch.optim.LBFGS(model.parameters()), loss=CROSS_ENTROPY,
            how=MAS(1.0, penalty="gradient"),
        )  # fmt: skip


def test_a_loss_that_depends_on_no_parameter():
    learner = learner_in_use()
    before = snapshot(learner)
    learner.loss = lambda out, y: torch.ones(len(y))
    with pytest.raises(ValueError, match="loss does not depend on any trainable parameter"):
        learner.learn(X, Y)
    learner.loss = CROSS_ENTROPY
    assert_same(snapshot(learner), before)


def test_finite_losses_whose_mean_overflows():
    learner = learner_in_use()
    learner.loss = lambda out, y: CROSS_ENTROPY(out, y).double() * 1e308
    with pytest.raises(NotFiniteError):
        learner.learn(X, Y)


def test_parameters_that_are_not_finite_are_distinguished_from_bad_data():
    learner = learner_in_use()
    with torch.no_grad():
        learner.model[0].weight[0, 0] = torch.nan
    with pytest.raises(NotFiniteError, match="the model's parameters are not finite themselves"):
        learner.learn(X, Y)


def test_rescored_losses_are_checked():
    model = nn.Linear(4, 1)
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=1e30), which=Hardest(4, rescore=True), how=None,
        loss=lambda out, y: (out[:, 0] - y) ** 2,
    )  # fmt: skip
    before = snapshot(learner)
    with pytest.raises(NotFiniteError, match="learning diverges"):
        learner.learn(X, Y.float())
    assert_same(snapshot(learner), before)


def test_a_failed_call_keeps_the_mode_of_the_model():
    learner = learner_in_use()
    learner.model.eval()
    learner.loss = not_finite
    with pytest.raises(NotFiniteError):
        learner.learn(X, Y)
    assert not learner.model.training


def test_a_learning_rate_schedule_in_a_hook_is_undone():
    learner = learner_in_use(repeats=2)
    schedule = torch.optim.lr_scheduler.ExponentialLR(learner.optimizer, 0.5)
    learner.optimizer.register_step_post_hook(lambda *_: schedule.step())
    calls = []

    def fails_later(out, y):
        calls.append(None)
        return CROSS_ENTROPY(out, y) * (torch.nan if len(calls) == 2 else 1)

    learner.loss = fails_later
    with pytest.raises(NotFiniteError):
        learner.learn(X, Y)
    assert learner.optimizer.param_groups[0]["lr"] == 0.1


class WritesToItsInputs(nn.Linear):
    def forward(self, x):
        return super().forward(x.sub_(0.5))


def test_a_model_that_writes_to_its_inputs_is_refused_with_a_buffer():
    model = WritesToItsInputs(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    learner = Learner(model, optimizer, loss=CROSS_ENTROPY, which=Hardest(4))
    before = snapshot(learner)
    with pytest.raises(ValueError, match="model or loss writes to its inputs or targets"):
        learner.learn(X, Y)
    assert_same(snapshot(learner), before)
    assert len(learner.which) == 0
    Learner(model, optimizer, loss=CROSS_ENTROPY, which=None).learn(X.clone(), Y)
