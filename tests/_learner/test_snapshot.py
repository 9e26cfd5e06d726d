"""A checkpoint opened for inference alone."""

import pytest
import torch
from torch import nn

from same import assert_same
from taskfree import MAS, CheckpointError, Learner, Reservoir, Snapshot, checkpoint
from taskfree.how import Teacher


def network(outputs=2):
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, outputs))


def learned(how):
    torch.manual_seed(0)
    model = network()
    learner = Learner(
        model, torch.optim.Adam(model.parameters(), lr=0.01), which=Reservoir(50), how=how,
        loss=nn.CrossEntropyLoss(reduction="none"),
    )  # fmt: skip
    for _ in range(30):
        x = torch.randn(10, 3)
        learner.learn(x, (x[:, 0] > 0).long())
    return learner


@pytest.mark.parametrize("losses", [(1.0, 1.0, 1.0), (2.0, 1.0, 2.0), (2.0, 2.0, 1.0)])
@pytest.mark.parametrize(
    "how", [Teacher, lambda: [MAS(0.01), Teacher()], lambda: None], ids=["teacher", "list", "none"]
)
def test_it_answers_as_the_learner_does(how, losses, tmp_path):
    learner = learned(how())
    learner._serving.losses = losses
    checkpoint.save(tmp_path, brain=learner)
    model = network()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    snapshot = Snapshot.open(tmp_path, model, name="brain")
    x = torch.randn(20, 3)
    assert torch.equal(snapshot.predict(x), learner.predict(x))
    assert snapshot.step == 30
    assert_same(model.state_dict(), before)


def test_what_cannot_be_opened_says_why(tmp_path):
    with pytest.raises(
        CheckpointError, match=r"holds no checkpoint; save one with checkpoint\.save"
    ):
        Snapshot.open(tmp_path / "none", network())
    checkpoint.save(tmp_path, learner=learned(None))
    with pytest.raises(
        CheckpointError, match=r"for '3\.weight' and the model torch.float32 \[5, 8\]"
    ):
        Snapshot.open(tmp_path, network(5))
    with pytest.raises(CheckpointError, match=r"has nothing for '4\.weight'"):
        Snapshot.open(tmp_path, nn.Sequential(*network(), nn.Linear(2, 2)))
    with pytest.raises(CheckpointError, match="holds no brain"):
        Snapshot.open(tmp_path, network(), name="brain")
