"""Learning while acting: from which frames, when, and what happens after a collision."""

import pytest
import torch
from torch import nn

from taskfree import Advice, Learner, onpolicy
from taskfree.onpolicy import OnPolicy


class Line:
    """A point on a line. The expert moves to the middle; beyond 3 there is a wall."""

    def __init__(self, start=2.5):
        self.start, self.resets = start, 0

    def reset(self, *, seed=None, options=None):
        self.x, self.resets = self.start, self.resets + 1
        return [self.x], self._info()

    def step(self, action):
        self.x += 1 if action else -1
        return [self.x], 0.0, False, False, self._info()

    def _info(self):
        return {"expert": int(self.x < 0), "collision": abs(self.x) > 3}


class Recovers(Line):
    recovered = 0

    def recover(self):
        self.x, self.recovered = 0.5, self.recovered + 1
        return [self.x], self._info()


def learner(**options):
    torch.manual_seed(0)
    model = nn.Linear(1, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return Learner(model, optimizer, loss=nn.CrossEntropyLoss(reduction="none"), **options)


class Recording(Learner):
    """Records the samples that it gets."""

    def learn(self, x, y):
        self.batches = [*getattr(self, "batches", []), (x.flatten().tolist(), y.tolist())]
        return super().learn(x, y)


def test_every_n_frames_it_learns_from_the_newest():
    plain = learner()
    recording = Recording(plain.model, plain.optimizer, loss=plain.loss)
    actions = [0, 0, 0, 1] * 3
    acting = OnPolicy(Line(), recording, recent=5, every=4, policy=lambda *_: actions.pop(0))
    moments = [acting.step() for _ in range(12)]
    assert [m.report is not None for m in moments] == [False, False, False, True] * 3
    x = [2.5, 1.5, 0.5, -0.5, 0.5, -0.5, -1.5, -2.5]
    assert recording.batches[0] == (x[:4], [0, 0, 0, 1])
    assert recording.batches[1] == (x[3:8], [1, 0, 1, 1, 1])
    assert [m.expert for m in moments[:4]] == [0, 0, 0, 1]
    assert [m.action for m in moments[:4]] == [0, 0, 0, 1]
    assert acting.frames == 12


def test_the_network_learns_to_act_like_the_expert():
    acting = OnPolicy(Recovers(), learner())
    moments = [acting.step() for _ in range(400)]
    agrees = [m.action == m.expert for m in moments]
    assert sum(agrees[-50:]) == 50
    assert sum(agrees[:50]) < 50


def test_after_a_collision_it_recovers_and_does_not_learn():
    env = Recovers()
    acting = OnPolicy(env, learner(), every=2, policy=lambda *_: 1)
    moments = [acting.step() for _ in range(7)]
    assert [m.collision for m in moments] == [True, False, False, True, False, False, True]
    assert acting.collisions == env.recovered == 3
    assert all(m.report is None for m in moments if m.collision)
    assert env.resets == 1
    plain = Line()
    OnPolicy(plain, learner(), policy=lambda *_: 1).step()
    assert plain.resets == 2, "an environment without recover is reset"


def test_an_environment_is_reset_when_its_episode_ends():
    class Short(Line):
        def step(self, action):
            *first, _, _, info = super().step(0)
            return *first, self.x < 0, False, info

    env = Short()
    acting = OnPolicy(env, learner())
    for _ in range(6):
        acting.step()
    assert env.resets == 3


def test_two_runs_are_equal():
    runs = [OnPolicy(Recovers(), learner()) for _ in range(2)]
    actions = [
        [(m.action, m.info["expert"]) for m, _ in zip(run, range(200), strict=False)]
        for run in runs
    ]
    assert actions[0] == actions[1]
    for one, two in zip(*(run.learner.model.parameters() for run in runs), strict=True):
        assert torch.equal(one, two)


class Clock:
    """A clock that stands still unless something takes time."""

    now = 0.0

    def __call__(self):
        return self.now


def test_learning_that_would_exceed_the_budget_is_postponed_and_counted(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(onpolicy, "perf_counter", clock)

    class Slow(nn.Linear):
        def forward(self, x):
            clock.now += 0.2 if len(x) > 1 else 0.0
            return super().forward(x)

    model = Slow(1, 2)
    slow = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.1), which=None, how=None,
        loss=nn.CrossEntropyLoss(reduction="none"),
    )  # fmt: skip
    acting = OnPolicy(Line(), slow, every=2, budget=0.1, policy=lambda _, info: info["expert"])
    first = [acting.step().report for _ in range(2)]
    assert first[1] is not None, "the first time, the cost is not known yet"
    assert [acting.step().report for _ in range(12)] == [None] * 12
    assert acting.postponed == 11
    for _ in range(8):
        acting.step()
    with pytest.warns(Advice, match=r"learning takes 0\.2 s and a control step may take 0\.1 s"):
        acting.step()


@pytest.mark.parametrize(("seconds", "postponed"), [(0.04, 0), (0.11, 9)])
def test_the_time_that_acting_takes_counts(monkeypatch, seconds, postponed):
    clock = Clock()
    monkeypatch.setattr(onpolicy, "perf_counter", clock)

    def policy(_, info):
        clock.now += seconds
        return info["expert"]

    acting = OnPolicy(Line(), learner(), every=2, budget=0.1, policy=policy)
    learned = [acting.step().report is not None for _ in range(10)]
    assert learned == ([False] * 10 if postponed else [False, True] * 5)
    assert acting.postponed == postponed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recent": 0}, "recent must be an integer of at least 1"),
        ({"every": 0}, "every must be an integer of at least 1"),
        ({"budget": 0}, "budget must be above 0"),
    ],
)
def test_invalid_settings_of_on_policy(options, message):
    with pytest.raises(ValueError, match=message):
        OnPolicy(Line(), learner(), **options)


def test_without_a_learner_it_only_acts():
    acting = OnPolicy(Recovers(), None, policy=lambda *_: 1)
    assert [acting.step().report for _ in range(30)] == [None] * 30
    assert acting.collisions == 10
    with pytest.raises(ValueError, match="nothing acts: pass a learner, a policy or both"):
        OnPolicy(Line(), None)


def test_an_environment_without_an_expert_is_refused():
    class WithoutExpert(Line):
        def _info(self):
            return {"speed": 3}

    with pytest.raises(ValueError, match="must hold the expert's action as 'expert'; it has speed"):
        OnPolicy(WithoutExpert(), learner())
