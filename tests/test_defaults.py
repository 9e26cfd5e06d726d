import pytest
import torch
from torch import nn

from taskfree import MAS, Every, Hardest, Learner, Reservoir, Settled, Teacher, defaults
from taskfree.when import Never

MODEL = nn.Linear(2, 2)


def learner(**options):
    optimizer = torch.optim.SGD(MODEL.parameters(), lr=0.1)
    return Learner(MODEL, optimizer, loss=nn.CrossEntropyLoss(reduction="none"), **options)


@pytest.mark.parametrize("options", [{}, {"when": "auto", "which": "auto", "how": "auto"}])
def test_by_default_a_learner_uses_the_whole_method(options):
    found = learner(**options)
    assert isinstance(found.when, Settled)
    assert (found.when.size, found.when.min_steps) == (5, 60)
    assert isinstance(found.which, Reservoir)
    assert (found.which.capacity, found.which.balanced, found.which.replay) == (500, "auto", None)
    teacher, mas = found.how.parts
    assert isinstance(teacher, Teacher)
    assert (teacher.strength, teacher.outputs, teacher.weights) == (0.1, 0.999, 0.995)
    assert isinstance(mas, MAS)
    assert (mas.strength, mas.penalty, mas.cover) == (0.01, "relative", 200)
    assert (mas.accumulate, mas.output) == ("mean", "squared")


def test_none_leaves_a_component_out():
    found = learner(when=None, which=None, how=None)
    assert isinstance(found.when, Never)
    assert found.which is None
    assert found.how is None


def test_a_given_component_is_used_itself():
    when, which, how = Every(3), Hardest(2), MAS(1.0)
    found = learner(when=when, which=which, how=how)
    assert (found.when, found.which, found.how) == (when, which, how)


@pytest.mark.parametrize("make", [defaults.trigger, defaults.buffer, defaults.regularizer])
def test_learners_do_not_share_default_components(make):
    assert make("auto") is not make("auto")
