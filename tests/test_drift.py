"""river's drift detectors as triggers: the same contract, and changes are found."""

import pytest
import torch
from river import drift
from torch import nn

from same import assert_same, snapshot
from taskfree import MAS, Hardest, Learner
from taskfree.checks import check_trigger
from taskfree.drift import MEMORY, Drift

LOSS = nn.CrossEntropyLoss(reduction="none")
DETECTORS = {
    "ADWIN": drift.ADWIN,
    "PageHinkley": lambda: drift.PageHinkley(min_instances=10, threshold=5.0),
    "KSWIN": lambda: drift.KSWIN(alpha=0.0001, seed=3),
}


@pytest.mark.parametrize("name", DETECTORS)
def test_contract(name):
    # The contract wants a bounded state that is full within the check's 300 steps.
    check_trigger(lambda: Bounded(DETECTORS[name](), after=20))


class Bounded(Drift):
    """Starts its detector anew after each 50 losses, so that its state is full early."""

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
def test_it_finds_the_changes_and_consolidates_after_them(name):
    trigger = Drift(DETECTORS[name](), after=60)
    decisions = {step: d for step, loss in enumerate(losses()) if (d := trigger.update(loss))}
    peaks = [step for step, decision in decisions.items() if decision == "peak"]
    plateaus = [step for step, decision in decisions.items() if decision == "plateau"]
    assert plateaus[0] == 59
    assert 200 <= peaks[0] < 260
    assert any(step == peaks[0] + 60 for step in plateaus)
    trigger.update(0.4)
    assert type(DETECTORS[name]()).__name__ in trigger.explain("peak").text


def test_memory_is_bounded():
    trigger = Drift(drift.PageHinkley(threshold=1e9))
    for _ in range(3 * MEMORY):
        trigger.update(1.0)
        assert trigger.state_dict()["losses"].numel() < MEMORY


def test_a_step_that_fails_is_taken_back():
    def make():
        torch.manual_seed(0)
        model = nn.Linear(2, 2)
        return Learner(
            model, torch.optim.SGD(model.parameters(), lr=0.1), loss=LOSS, repeats=2,
            when=Drift(drift.ADWIN(), after=5), which=Hardest(4), how=MAS(1.0),
        )  # fmt: skip

    def fails_at_the_second_call(outputs, targets):
        calls.append(outputs)
        return LOSS(outputs, targets) if len(calls) % 2 else None

    clean, troubled, calls = make(), make(), []
    generator = torch.Generator().manual_seed(2)
    for step in range(60):
        x = torch.randn(6, 2, generator=generator) + step // 30
        y = (x[:, 0] > 0).long()
        clean.learn(x, y)
        troubled.loss = fails_at_the_second_call  # when the trigger has already decided
        with pytest.raises(ValueError, match="one value a sample"):
            troubled.learn(x, y)
        troubled.loss = LOSS
        troubled.learn(x, y)
    assert_same(snapshot(clean), snapshot(troubled))
