"""The study of triggers, end to end on a short stream, and the properties of the default."""

import json
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from taskfree import Learner
from taskfree.paper.streams import STREAMS, points
from taskfree.paper.streams.changing import CROSS_ENTROPY
from taskfree.paper.triggers import experiment as triggers

STEPS = 75
"""Steps of each of the two quadrants."""
SMALL = triggers.TriggersConfig(
    seeds=2, tuning_seeds=1, streams=("two quadrants",), means=(0.2, 1.0), variances=(0.2,),
    strengths=(0.01, 0.3), workers=1,
)  # fmt: skip


def short_stream(seed, part=0):
    return replace(points.quadrants(seed, part, steps=STEPS), repeats=2, lr=0.1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("triggers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STREAMS, "two quadrants", short_stream)
        return triggers.run(replace(SMALL, out=out)), out


def test_everything_is_run_and_written(finished):
    results, out = finished
    assert json.loads((out / "results.json").read_text()) == json.loads(json.dumps(results))
    ran = {(one["setting"], one["seed"]) for one in results["runs"]}
    names = [*triggers.SETTINGS, "strength 0.01", "strength 0.3"]
    assert ran == {(name, seed) for name in names for seed in (0, 1)}
    assert {path.name for path in out.iterdir()} == {
        "results.json", "report.html", "triggers.png", "timeline.png", "strengths.png",
    }  # fmt: skip


def test_each_trigger_consolidates_when_it_should(finished):
    results, _ = finished
    for one in results["runs"]:
        if one["setting"] == triggers.ORACLE:
            assert one["consolidations"] == [STEPS, 2 * STEPS]
        if one["setting"] == triggers.ONLINE:
            assert one["consolidations"] == []
        if one["setting"] == "every 100":
            assert one["consolidations"] == [100]
    default, same, stronger = (
        [(o["final"], o["consolidations"]) for o in results["runs"] if o["setting"] == name]
        for name in (triggers.DEFAULT, "strength 0.01", "strength 0.3")
    )
    assert default == same, "the default's strength is on the grid"
    assert default != stronger
    assert any(steps for _, steps in default)


def test_thresholds_are_chosen_on_the_other_part(finished):
    results, _ = finished
    scores = {tuple(one["thresholds"]): one["final"] for one in results["tuning"]}
    assert tuple(results["tuned"]["two quadrants"]) == max(scores, key=scores.get)
    tuned = [one for one in results["runs"] if one["setting"] == triggers.TUNED]
    assert {tuple(one["thresholds"]) for one in tuned} == {max(scores, key=scores.get)}
    assert {one["part"] for one in results["runs"]} == {0}


def test_consolidations_between_changes_are_counted_in_long_stretches():
    one = {"changes": [150, 200], "steps": 400, "consolidations": [1, 150, 151, 201, 202]}
    assert triggers._between(one) == [2, 2]


def consolidations(*, scale=1.0, shift=None):
    """When the default learner consolidates, with another scale of the loss or of the inputs."""
    stream = points.quadrants(0, steps=150)
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(4, eps=1e-12, affine=False), stream.model).double()
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.05 / scale), repeats=5,
        loss=lambda outputs, targets: scale * CROSS_ENTROPY(outputs, targets),
    )  # fmt: skip
    found = []
    for x, y in stream.batches:
        x = x.double() if shift is None else shift[0] * x.double() + shift[1]
        found.append(learner.learn(x, y).consolidated)
    return [step for step, one in enumerate(found, 1) if one]


def test_the_scales_of_loss_and_inputs_change_nothing():
    plain = consolidations()
    assert len(plain) >= 2
    assert consolidations(scale=100.0) == plain
    assert consolidations(shift=(1000.0, -300.0)) == plain


def test_the_default_learns_the_quadrants_without_forgetting():
    finals = {}
    for setting in (triggers.ONLINE, triggers.DEFAULT):
        found = [
            triggers.run_one(triggers.TriggerJob("two quadrants", setting, seed, part=1))["final"]
            for seed in range(3)
        ]
        finals[setting] = sum(found) / 3
    assert finals[triggers.DEFAULT] > finals[triggers.ONLINE] + 0.05


NETWORKS = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks/networks.py"))


@pytest.mark.parametrize(
    ("name", "shape"),
    [("mlp", (64, 4)), ("tiny", (16, 3, 128, 128)), ("alexnet", (2, 3, 224, 224))],
)
def test_the_default_strength_acts_alike_on_networks_of_any_size(name, shape):
    """About 3 % of the way back per step, from ten thousand parameters to 57 million."""
    torch.manual_seed(0)
    model = NETWORKS[name]().eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    how = Learner(model, optimizer, loss=nn.CrossEntropyLoss(reduction="none")).how
    how.consolidate(model, torch.randn(shape))
    with torch.no_grad():
        for value in model.parameters():
            value.add_(1)  # one away from the anchor
    how.after_step(model, optimizer)
    with torch.no_grad():
        back = [
            1 - (value - how.anchor[name]).sum() / value.numel()
            for name, value in model.named_parameters()
        ]
    sizes = torch.tensor([float(value.numel()) for value in model.parameters()])
    fraction = float((torch.stack(back) * sizes).sum() / sizes.sum())
    assert 0.02 < fraction < 0.05
