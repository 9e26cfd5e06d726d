import torch
from torch import nn

from taskfree import MAS, Learner
from taskfree.how import Teacher
from taskfree.how.several import Several
from taskfree.when import Every


def test_a_list_of_regularizers_acts_as_one():
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    parts = [Teacher(), MAS(0.5)]
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.1),
        loss=nn.CrossEntropyLoss(reduction="none"), how=parts, when=Every(5),
    )  # fmt: skip
    assert isinstance(learner.how, Several)
    assert learner.how.parts == tuple(parts)
    for _ in range(12):
        learner.learn(torch.randn(4, 3), torch.tensor([0, 1, 0, 1]))
    assert learner.how.importance is parts[1].importance
    assert learner.how.anchor is parts[1].anchor
    assert list(learner.how.importance) == ["weight", "bias"]
    assert parts[0].network is not None
    names = {name.partition(".")[0] for name in learner.how.state_dict()}
    assert names == {"0", "1"}


def test_parts_without_importance_have_none():
    how = Several([Teacher()])
    assert how.importance == how.anchor == {}
