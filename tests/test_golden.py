"""Results do not change, and checkpoints of the first version still load."""

import json
import shutil

import pytest
import torch

from golden import runs
from taskfree import checkpoint
from taskfree.cli import learn

EXPECTED = json.loads((runs.HERE / "expected.json").read_text())


def assert_expected(found, expected):
    """Bit for bit if this machine rounds as the one that wrote them; otherwise approximately."""
    if runs.arithmetic() == EXPECTED["arithmetic"]:
        assert found == {name: list(value) for name, value in expected.items()}
    else:
        assert runs.close(found, expected)


@pytest.mark.parametrize("name", runs.LEARNERS)
def test_a_learner_ends_in_the_same_state(name):
    learner = runs.LEARNERS[name]()
    torch.manual_seed(1)
    reports = runs.learned(learner, range(runs.STEPS))
    assert any(report.consolidated for report in reports)
    assert_expected(runs.summary(runs.content(learner, reports)), EXPECTED["learners"][name])


@pytest.mark.parametrize("name", runs.LEARNERS)
def test_an_old_checkpoint_continues(name, tmp_path):
    shutil.copytree(runs.HERE / name, tmp_path / name)
    learner = runs.LEARNERS[name]()
    assert checkpoint.resume(tmp_path / name, learner=learner) == 1
    assert learner.step == runs.HALF
    runs.learned(learner, range(runs.HALF, runs.STEPS))
    found = runs.summary(runs.content(learner, []))
    expected = {key: EXPECTED["learners"][name][key] for key in found}
    assert_expected(found, expected)


def test_an_old_state_of_taskfree_learn_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs.write_table(tmp_path)
    shutil.copytree(runs.HERE / "kind", tmp_path / "kind")
    command = learn.Learn(source="table.csv", state=tmp_path / "kind", target="kind")
    with pytest.raises(ValueError, match="earlier version of taskfree"):
        learn.run(command)


@pytest.mark.parametrize("target", runs.TARGETS)
def test_taskfree_learn_ends_in_the_same_state(target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs.write_table(tmp_path)
    session = learn.run(runs.learn_command(target, tmp_path / "state"))
    found = runs.summary(runs.content(session.learner, []))
    found.pop("random")
    assert_expected(found, EXPECTED["learn"][target])
