"""The drift detectors of river as triggers: they meet the contract and detect changes."""

import pytest
import torch
from river import drift
from torch import nn

from same import assert_same, snapshot
from taskfree import MAS, Hardest, Learner
from taskfree.checks import check_trigger
from taskfree.when.drift import MEMORY, Drift

LOSS = nn.CrossEntropyLoss(reduction="none")
DETECTORS = {
    "ADWIN": drift.ADWIN,
    "PageHinkley": lambda: drift.PageHinkley(min_instances=10, threshold=5.0),
    "KSWIN": lambda: drift.KSWIN(alpha=0.0001, seed=3),
}


@pytest.mark.parametrize("name", DETECTORS)
def test_a_drift_trigger_meets_the_contract(name):
    # The contract requires a bounded state that is full within the 300 steps of the check.
    check_trigger(lambda: Bounded(DETECTORS[name](), after=20))


class Bounded(Drift):
    """Restarts its detector after every 50 losses, so that its state is full early."""

    def update(self, loss):
        decision = super().update(loss)
        if len(self._losses) >= 50:
            self._start(self._losses[25:])
        return decision


def losses():
    generator = torch.Generator().manual_seed(1)
    noise = 0.1 * torch.randn(600, generator=generator)
    level = torch.cat([torch.full((200,), value) for value in (0.5, 2.0, 0.4)])
    return (level + noise).tolist()


@pytest.mark.parametrize("name", DETECTORS)
def test_drift_detects_changes_and_consolidates_after_them(name):
    trigger = Drift(DETECTORS[name](), after=60)
    decisions = {step: d for step, loss in enumerate(losses()) if (d := trigger.update(loss))}
    peaks = [step for step, decision in decisions.items() if decision == "peak"]
    plateaus = [step for step, decision in decisions.items() if decision == "plateau"]
    assert plateaus[0] == 59
    assert 200 <= peaks[0] < 260
    assert any(step == peaks[0] + 60 for step in plateaus)
    trigger.update(0.4)
    assert type(DETECTORS[name]()).__name__ in trigger.explain("peak").text


def test_the_memory_of_a_drift_trigger_is_bounded():
    trigger = Drift(drift.PageHinkley(threshold=1e9))
    for _ in range(3 * MEMORY):
        trigger.update(1.0)
        assert trigger.state_dict()["losses"].numel() < MEMORY


def test_a_failed_step_of_a_drift_trigger_is_undone():
    def make():
        torch.manual_seed(0)
        model = nn.Linear(2, 2)
        return Learner(
            model, torch.optim.SGD(model.parameters(), lr=0.1), loss=LOSS, repeats=2,
            when=Drift(drift.ADWIN(), after=5), which=Hardest(4), how=MAS(1.0),
        )  # fmt: skip

    def fails_at_every_second_call(outputs, targets):
        calls.append(outputs)
        return LOSS(outputs, targets) if len(calls) % 2 else None

    undisturbed, disturbed, calls = make(), make(), []
    generator = torch.Generator().manual_seed(2)
    for step in range(60):
        x = torch.randn(6, 2, generator=generator) + step // 30
        y = (x[:, 0] > 0).long()
        undisturbed.learn(x, y)
        disturbed.loss = fails_at_every_second_call  # when the trigger has already decided
        with pytest.raises(ValueError, match="one value per sample"):
            disturbed.learn(x, y)
        disturbed.loss = LOSS
        disturbed.learn(x, y)
    assert_same(snapshot(undisturbed), snapshot(disturbed))
