"""Learning while acting: what is learned from, when, and what is not."""

import time

import pytest
import torch
from torch import nn

from taskfree import Advice, Learner
from taskfree.onpolicy import OnPolicy


class Line:
    """A point on a line; the expert goes to the middle. Beyond 3 it hits a wall."""

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


class Seen(Learner):
    """Keeps what it was given."""

    def learn(self, x, y):
        self.given = [*getattr(self, "given", []), (x.flatten().tolist(), y.tolist())]
        return super().learn(x, y)


def test_it_learns_every_so_many_frames_from_the_most_recent():
    seen = Seen((one := learner()).model, one.optimizer, loss=nn.CrossEntropyLoss(reduction="none"))
    way = [0, 0, 0, 1] * 3
    acting = OnPolicy(Line(), seen, recent=5, every=4, policy=lambda *_: way.pop(0))
    moments = [acting.step() for _ in range(12)]
    assert [m.report is not None for m in moments] == [False, False, False, True] * 3
    x = [2.5, 1.5, 0.5, -0.5, 0.5, -0.5, -1.5, -2.5]
    assert seen.given[0] == (x[:4], [0, 0, 0, 1])
    assert seen.given[1] == (x[3:8], [1, 0, 1, 1, 1])
    assert [m.expert for m in moments[:4]] == [0, 0, 0, 1]
    assert [m.action for m in moments[:4]] == [0, 0, 0, 1]
    assert acting.frames == 12


def test_the_network_acts_and_comes_to_do_what_the_expert_would():
    acting = OnPolicy(Recovers(), learner())
    moments = [acting.step() for _ in range(400)]
    agree = [m.action == m.expert for m in moments]
    assert sum(agree[-50:]) == 50
    assert sum(agree[:50]) < 50


def test_a_collision_is_recovered_from_and_not_learned_at():
    env = Recovers()
    acting = OnPolicy(env, learner(), every=2, policy=lambda *_: 1)
    moments = [acting.step() for _ in range(7)]
    hits = [m.collision for m in moments]
    assert hits == [True, False, False, True, False, False, True]
    assert acting.collisions == env.recovered == 3
    assert all(m.report is None for m in moments if m.collision)
    assert env.resets == 1
    plain = Line()
    OnPolicy(plain, learner(), policy=lambda *_: 1).step()
    assert plain.resets == 2, "who cannot recover is reset"


def test_an_episode_that_ends_begins_again():
    class Short(Line):
        def step(self, action):
            *start, _, _, info = super().step(0)
            return *start, self.x < 0, False, info

    env = Short()
    acting = OnPolicy(env, learner())
    for _ in range(6):
        acting.step()
    assert env.resets == 3


def test_two_runs_are_the_same():
    runs = [OnPolicy(Recovers(), learner()) for _ in range(2)]
    ways = [
        [(m.action, m.info["expert"]) for m, _ in zip(run, range(200), strict=False)]
        for run in runs
    ]
    assert ways[0] == ways[1]
    for one, two in zip(*(run.learner.model.parameters() for run in runs), strict=True):
        assert torch.equal(one, two)


def test_learning_that_would_take_too_long_is_put_off_and_counted():
    class Slow(nn.Module):
        wait = 0.0

        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(1, 2)

        def forward(self, x):
            if len(x) > 1:
                time.sleep(self.wait)
            return self.layer(x)

    model = Slow()
    slow = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.1), which=None,
        loss=nn.CrossEntropyLoss(reduction="none"),
    )  # fmt: skip
    model.wait = 0.2
    acting = OnPolicy(Line(), slow, every=2, budget=0.1, policy=lambda _, info: info["expert"])
    first = [acting.step().report for _ in range(2)]
    assert first[1] is not None, "nobody knows yet how long it takes"
    assert [acting.step().report for _ in range(12)] == [None] * 12
    assert acting.put_off == 11
    for _ in range(8):
        acting.step()
    with pytest.warns(Advice, match=r"learning takes 0\.\d+ s and a control step may take 0\.1 s"):
        acting.step()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recent": 0}, "recent must be a whole number of at least 1"),
        ({"every": 0}, "every must be a whole number of at least 1"),
        ({"budget": 0}, "budget must be above 0"),
    ],
)
def test_settings_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        OnPolicy(Line(), learner(), **options)


def test_who_only_acts():
    acting = OnPolicy(Recovers(), None, policy=lambda *_: 1)
    assert [acting.step().report for _ in range(30)] == [None] * 30
    assert acting.collisions == 10
    with pytest.raises(ValueError, match="somebody must act: pass a learner, a policy or both"):
        OnPolicy(Line(), None)


def test_an_environment_without_an_expert_is_told_so():
    class Alone(Line):
        def _info(self):
            return {"speed": 3}

    with pytest.raises(
        ValueError, match="must carry the expert's action as 'expert'; it has speed"
    ):
        OnPolicy(Alone(), learner())
