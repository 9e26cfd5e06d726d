"""Learners that were copied, pickled or saved half way learn on as if nothing had happened."""

import copy
import io
import pickle  # noqa: TID251  # what users do with a learner

import joblib  # noqa: TID251  # what scikit-learn's users do
import pytest
import torch
from torch import nn

from golden import runs
from same import assert_same, snapshot
from taskfree import Learner, checkpoint
from taskfree.which import ClassBalanced, Reservoir

CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")


def default(**options):
    model = runs._model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    return Learner(model, optimizer, loss=CROSS_ENTROPY, **options)


LEARNERS = runs.LEARNERS | {
    "default": default,
    "small": lambda: default(which=Reservoir(25, balanced="auto"), repeats=2),
    "balanced": lambda: default(which=ClassBalanced(20)),
}


def pickled(learner, *_):
    return pickle.loads(pickle.dumps(learner))  # noqa: S301  # our own bytes


def saved_by_torch(learner, *_):
    content = io.BytesIO()
    torch.save(learner, content)  # noqa: TID251  # what users do
    content.seek(0)
    return torch.load(content, weights_only=False)  # noqa: TID251  # our own bytes


def dumped_by_joblib(learner, _, folder):
    joblib.dump(learner, folder / "learner")
    return joblib.load(folder / "learner")


def saved_by_checkpoint(learner, make, folder):
    checkpoint.save(folder, learner=learner)
    resumed = make()
    checkpoint.resume(folder, learner=resumed)
    return resumed


def deep_copied(learner, *_):
    return copy.deepcopy(learner)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize(
    "copied", [deep_copied, pickled, saved_by_torch, dumped_by_joblib, saved_by_checkpoint]
)
def test_a_copy_learns_on_bit_for_bit(name, copied, tmp_path):
    make, batches = LEARNERS[name], list(runs.stream())[:140]
    torch.manual_seed(0)
    learner = make()
    for x, y in batches[:70]:
        learner.learn(x, y)
    random = torch.get_rng_state()
    twin = copied(learner, make, tmp_path)
    before = snapshot(learner)
    found = []
    for one in (twin, learner):
        torch.set_rng_state(random)
        reports = [one.learn(x, y) for x, y in batches[70:]]
        found.append((snapshot(one), [report.loss for report in reports]))
    assert_same(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
    inputs = next(name for name in before if name.startswith("which") and "inputs" in name)
    assert not torch.equal(found[0][0][inputs], before[inputs]), "the copy keeps new samples"


def test_learning_leaves_the_copied_one_as_it_was():
    learner = default()
    batches = list(runs.stream())[:40]
    for x, y in batches[:20]:
        learner.learn(x, y)
    before, twin = snapshot(learner), copy.deepcopy(learner)
    for x, y in batches[20:]:
        twin.learn(x, y)
    assert_same({k: v for k, v in snapshot(learner).items() if not k.startswith("random")},
                {k: v for k, v in before.items() if not k.startswith("random")})  # fmt: skip
