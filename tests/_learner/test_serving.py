"""Who answers, and what other threads see while one learns."""

import copy
import multiprocessing.reduction
import threading
import time

import pytest
import torch
from torch import nn

from same import assert_same, snapshot
from taskfree import Learner, Reservoir
from taskfree._learner import serving
from taskfree.how import Teacher

CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")


def make(model=None, how="teacher", lr=0.1, **options):
    torch.manual_seed(0)
    if model is None:
        model = nn.Sequential(nn.Linear(3, 20), nn.ReLU(), nn.Linear(20, 2))
    how = Teacher(weights=0.95) if how == "teacher" else how
    options = {"which": Reservoir(50), "when": None, "loss": CROSS_ENTROPY} | options
    return Learner(model, torch.optim.SGD(model.parameters(), lr=lr), how=how, **options)


def samples(count=10, turned=False):
    x = torch.randn(count, 3)
    return x, ((x[:, 0] > 0) != turned).long()


def sent(thing):
    """What another process gets: pickled and unpickled."""
    return multiprocessing.reduction.ForkingPickler.loads(
        multiprocessing.reduction.ForkingPickler.dumps(thing)
    )


def test_the_teacher_answers_while_nothing_changes_and_the_model_after_a_change():
    learner = make(lr=0.5, which=None)
    for _ in range(200):
        learner.learn(*samples())
    assert learner._serving.choice == "teacher"
    x, _ = samples(100)
    assert torch.equal(learner.predict(x), learner.how.network(x))
    for _ in range(12):
        learner.learn(*samples(turned=True))
    assert learner._serving.choice == "model"
    with torch.no_grad():
        assert torch.equal(learner.predict(x), learner.model(x))


@pytest.mark.parametrize(
    ("losses", "choice"),
    [
        ((1.0, 1.0, 1.0), "teacher"),
        ((1.05, 1.0, 1.02), "teacher"),
        ((1.2, 1.05, 1.0), "mean"),
        ((1.2, 1.2, 1.0), "model"),
        ((0.0, 0.0, 0.0), "teacher"),
        ((-1.0, -1.0, -2.0), "model"),
        ((-1.95, -1.0, -2.0), "teacher"),
    ],
)
def test_the_lowest_loss_answers_but_for_a_tenth(losses, choice):
    learner = make()
    learner._serving.losses = losses
    assert learner._serving.choice == choice


def test_the_mean_of_both_may_answer():
    learner = make()
    learner.learn(*samples())
    learner.learn(*samples())
    learner._serving.losses = (2.0, 1.0, 2.0)
    x, _ = samples(7)
    with torch.no_grad():
        expected = (learner.model(x) + learner.how.network(x)) / 2
    torch.testing.assert_close(learner.predict(x), expected)


def test_losses_are_those_before_learning_and_discounted():
    learner = make(which=None)
    expected = [0.0] * 3
    for step in range(12):
        x, y = samples()
        if step % 4 == 0:
            with torch.no_grad():
                model, teacher = learner.model(x), learner.how.attach(learner.model)(x)
            now = [CROSS_ENTROPY(o, y).mean() for o in (teacher, (teacher + model) / 2, model)]
            expected = [(a + float(b)) / 2 for a, b in zip(expected, now, strict=True)]
        learner.learn(x, y)
        assert learner._serving.losses == pytest.approx(expected, rel=1e-5)


def test_without_a_teacher_the_model_answers():
    learner = make(how=None)
    learner.learn(*samples())
    x, _ = samples(5)
    with torch.no_grad():
        assert torch.equal(learner.predict(x), learner.model(x))
    assert not any(name.startswith("serving") for name in learner.state_dict())


class Odd(nn.Module):
    """Depends on its mode, on an attribute, and on a buffer that every call replaces."""

    def __init__(self):
        super().__init__()
        self.layer, self.drop, self.temperature = nn.Linear(3, 2), nn.Dropout(0.5), 1.0
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls = self.calls + 1
        return self.drop(self.layer(x)) / self.temperature + self.calls


def test_the_model_answers_as_it_is_now_and_does_not_change():
    learner = make(Odd(), how=None)
    learner.learn(*samples())
    x, _ = samples(5)
    for temperature in (1.0, 2.0):
        learner.model.temperature = temperature
        before = snapshot(learner)
        with torch.no_grad():
            expected = learner.model.layer(x) / temperature + (learner.model.calls + 1)
        assert torch.equal(learner.predict(x), expected)
        assert torch.equal(learner.predict(x), expected)
        assert_same(snapshot(learner), before)
        assert learner.model.training
    learner.model.layer = nn.Linear(3, 2)  # another layer: the view is made anew
    with torch.no_grad():
        expected = learner.model.layer(x) / 2 + (learner.model.calls + 1)
    assert torch.equal(learner.predict(x), expected)


def test_a_snapshot_is_immutable_and_shares_nothing():
    learner = make()
    for _ in range(20):
        learner.learn(*samples())
    x, _ = samples(6)
    before, taken = learner.predict(x), learner.snapshot()
    assert torch.equal(taken.predict(x), before)
    assert taken.step == 20
    copied = sent(taken)
    for _ in range(20):
        learner.learn(*samples())
    assert torch.equal(taken.predict(x), before)
    assert torch.equal(copied.predict(x), before)
    assert not torch.equal(learner.predict(x), before)
    live = {tensor.data_ptr() for tensor in learner.state_dict().values()}
    mine = {t.data_ptr() for network in taken.networks for t in network.state_dict().values()}
    assert not live & mine
    with pytest.raises(ValueError, match="inputs holds no samples"):
        taken.predict(x[:0])


class Slow(nn.Module):
    """A network whose training pass waits for a permission, so that a test can look into a step."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.inside, self.go_on = [threading.Event()], [threading.Event()]

    def forward(self, x):
        if self.training:
            self.inside[0].set()
            assert self.go_on[0].wait(60)
        return self.layer(x)

    def __deepcopy__(self, memo):
        twin = Slow()
        twin.layer = copy.deepcopy(self.layer, memo)
        return twin


@pytest.mark.parametrize("how", ["teacher", None])
def test_predicting_does_not_wait_for_learning(how):
    model = Slow()
    learner = make(model, how=how)
    x, y = samples()
    model.go_on[0].set()
    learner.learn(x, y)
    learner.predict(x)
    learner._serving._wanted = 1  # as a prediction in the middle of a step would ask for
    learner.learn(x, y)
    expected = learner.predict(x)
    model.inside[0].clear()
    model.go_on[0].clear()
    thread = threading.Thread(target=learner.learn, args=(x, y))
    thread.start()
    try:
        assert model.inside[0].wait(60)
        assert torch.equal(learner.predict(x), expected), "of the last whole step"
        assert learner.snapshot().step == 2
        with pytest.raises(RuntimeError, match="learn was called while it runs already"):
            learner.learn(x, y)
    finally:
        model.go_on[0].set()
        thread.join(60)
    assert learner.step == 3
    assert not torch.equal(learner.predict(x), expected)


def test_an_old_snapshot_does_not_answer(monkeypatch):
    """After a pause, the first prediction in the middle of a step waits for its end."""
    monkeypatch.setattr(serving, "KEEP", 2)
    model = Slow()
    learner = make(model)
    x, y = samples()
    model.go_on[0].set()
    learner._serving._wanted = 2
    for _ in range(5):
        learner.learn(x, y)
    assert learner._serving._published is None
    model.inside[0].clear()
    model.go_on[0].clear()
    learning = threading.Thread(target=learner.learn, args=(x, y))
    taken = []
    learning.start()
    assert model.inside[0].wait(60)
    asking = threading.Thread(target=lambda: taken.append(learner.snapshot().step))
    asking.start()
    model.go_on[0].set()
    for thread in (learning, asking):
        thread.join(60)
    assert taken == [6]


class Bound(nn.Module):
    """Keeps a method of its own as an attribute."""

    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Linear(3, 2), nn.Dropout(0.9)
        self.last = self._drop

    def _drop(self, x):
        return self.drop(x)

    def forward(self, x):
        return self.last(self.layer(x))


def test_a_method_kept_as_an_attribute_is_in_eval_mode_too():
    learner = make(Bound(), how=None)
    learner.learn(*samples())
    x, _ = samples(5)
    with torch.no_grad():
        assert torch.equal(learner.predict(x), learner.model.layer(x))


def test_every_answer_is_that_of_a_whole_step():
    """A sanitizer: four threads predict while one learns; each answer must be one of the steps'."""
    learner = make(lr=0.5)
    x, _ = samples(4)
    answers, errors, done = [], [], threading.Event()

    def predict():
        try:
            while not done.is_set():
                answers.append(learner.predict(x))
        except BaseException as error:  # shown below
            errors.append(error)

    threads = [threading.Thread(target=predict) for _ in range(4)]
    for thread in threads:
        thread.start()
    reference = make(lr=0.5)
    torch.manual_seed(5)
    batches = [samples() for _ in range(150)]
    whole = {reference.predict(x).numpy().tobytes()}
    for step, batch in enumerate(batches):
        learner.learn(*batch)
        reference.learn(*batch)
        whole.add(reference.predict(x).numpy().tobytes())
        before = len(answers)
        while step % 10 == 0 and len(answers) < before + 10 and not errors:
            time.sleep(0.001)  # however slow the machine is, there are answers at many steps
    done.set()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert len(answers) > 100
    found = {answer.numpy().tobytes() for answer in answers}
    assert len(found) > 10
    assert found <= whole
    assert_same(snapshot(learner), snapshot(reference))


def test_of_many_threads_that_learn_at_once_one_does():
    """Each step is taken once or refused, whatever the threads do."""
    learner, refused = make(), []
    start = threading.Barrier(8)
    batches = [samples() for _ in range(8)]

    def learn(batch):
        start.wait(60)
        for _ in range(20):
            try:
                learner.learn(*batch)
            except RuntimeError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=learn, args=(batch,)) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert learner.step + len(refused) == 160
    assert learner.step >= 1
    assert all("call it from one thread at a time" in text for text in refused)
    learner.learn(*batches[0])


def test_a_model_may_predict_while_it_learns():
    learner = make(
        how=None,
        loss=lambda o, t: CROSS_ENTROPY(o, t) + 0 * learner.predict(torch.ones(1, 3)).sum(),
    )
    assert learner.learn(*samples()).step == 1


@pytest.mark.parametrize("copy_of", [copy.deepcopy, sent])
def test_copies_have_turns_of_their_own(copy_of):
    learner = make()
    learner.learn(*samples())
    with learner._serving.learning(lambda: 1):
        twin = copy_of(learner)
        twin.learn(*samples())
        twin.predict(samples()[0])
    assert twin.step == 2
