"""Fixed runs whose results must never change, and what is compared of them.

`python tests/golden/runs.py` writes the expected contents and a checkpoint of each run. It was run
once, on the code before it was split into packages. Whoever runs it again must say why the numbers
changed. What `taskfree learn` ends with was written again when rows came to be mixed and stored as
they are; its states of before cannot be continued (`kind` is one).
"""

import hashlib
import json
import math
import os
import random
import shutil
from pathlib import Path

import torch
from torch import nn

from taskfree import (
    MAS,
    Every,
    Hardest,
    Learner,
    Plateau,
    Recent,
    Reservoir,
    Settled,
    checkpoint,
)
from taskfree.cli import learn
from taskfree.when import At, RelativePlateau

HERE = Path(__file__).parent
STEPS, HALF = 400, 250
"""Time steps of a run, and after how many of them its checkpoint was written."""
CHANGE = 200
"""The step at which the stream changes."""
ROWS = 3000
"""Rows of the table."""


TARGETS = {"kind": "classification", "height": "regression"}
"""Columns of the table that `taskfree learn` learns, and their task."""


def stream():
    """Points around one centre, then around another; inside or outside a ball."""
    generator = torch.Generator().manual_seed(7)
    for step in range(STEPS):
        centre = 0.75 if step < CHANGE else -0.75
        x = torch.empty(10, 4).uniform_(-1, 1, generator=generator)
        x[:, 0] = x[:, 0] / 4 + centre
        yield x, (x.square().sum(1) < 1).long()


def _model(*hidden):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 16), *hidden, nn.ReLU(), nn.Linear(16, 2))


def _make(model=None, *, optimizer=torch.optim.SGD, lr=0.05, **parts):
    model = _model() if model is None else model
    loss = nn.CrossEntropyLoss(reduction="none")
    return Learner(model, optimizer(model.parameters(), lr=lr), loss=loss, **parts)


LEARNERS = {
    "settled": lambda: _make(
        when=Settled(), which=Hardest(30), how=MAS(0.01, penalty="relative"), lr=0.2
    ),
    "paper": lambda: _make(
        when=Plateau(window=5, mean=1.0, variance=0.1), which=Hardest(30), how=MAS(10), repeats=5
    ),
    "gradient": lambda: _make(
        when=RelativePlateau(window=5, fall=0.6),
        which=Reservoir(20, seed=5),
        how=MAS(0.5, accumulate="decay", penalty="gradient", output="norm"),
    ),
    "every": lambda: _make(
        _model(nn.Dropout(0.2), nn.BatchNorm1d(16)),
        optimizer=torch.optim.Adam,
        lr=0.003,
        when=Every(60),
        which=Hardest(24, balanced=True, rescore=True),
        how=MAS(0.01, accumulate="sum", penalty="relative"),
    ),
    "at": lambda: _make(when=At([100, CHANGE]), which=Recent(20), how=MAS(2.0)),
}
"""By name, what makes a learner: every trigger, buffer, accumulation and penalty is in one."""


def learned(learner, steps):
    """The reports of these steps of the stream."""
    return [learner.learn(x, y) for step, (x, y) in enumerate(stream()) if step in steps]


def content(learner, reports):
    """All that a learner has become, whatever its state is called in a checkpoint."""
    found = {f"model.{name}": value for name, value in learner.model.state_dict().items()}
    for number, state in learner.optimizer.state_dict()["state"].items():
        found |= {f"optimizer.{number}.{key}": torch.as_tensor(v) for key, v in state.items()}
    if learner.how is not None:
        found |= {f"importance.{name}": value for name, value in learner.how.importance.items()}
        found |= {f"anchor.{name}": value for name, value in learner.how.anchor.items()}
    if learner.which is not None and len(learner.which):
        found |= {
            "buffer.inputs": learner.which.inputs,
            "buffer.targets": learner.which.targets,
            "buffer.losses": learner.which.losses,
        }
    found["random"] = torch.get_rng_state()
    if reports:
        rows = [
            [r.step, r.loss, r.buffer_loss, r.window_loss, r.window_mean, r.consolidated, r.peak]
            for r in reports
        ]
        found["reports"] = torch.tensor(rows, dtype=torch.float64)
    return {name: value.detach().clone() for name, value in found.items()}


def summary(tensors):
    """By name: a digest of the bits, and the sum of what is finite."""
    found = {}
    for name, value in sorted(tensors.items()):
        bits = value.contiguous().flatten().view(torch.uint8)
        digest = hashlib.sha256(bytes(bits.tolist())).hexdigest()[:16]
        finite = value.double()[value.double().isfinite()]
        found[name] = [digest, float(finite.sum())]
    return found


def arithmetic():
    """A digest of how this machine rounds: another processor may sum in another order."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, 100, generator=generator)
    layers = torch.randn(3, 100, 100, generator=generator) / 10
    for layer in layers:
        x = (x @ layer).tanh()
    return summary({"x": torch.cat([x.flatten(), x.softmax(1).log().flatten()])})["x"][0]


def write_table(folder):
    """A table with numbers, a category, gaps, late classes and a line that cannot be read."""
    draw = random.Random(11)
    lines = ["speed,height,road,kind"]
    for row in range(ROWS):
        speed, height = draw.uniform(0, 10), draw.gauss(3, 2)
        road = draw.choice(["wet", "dry", "icy"])
        kind = "fast" if speed + height > 8 else "slow"
        kind = "late" if row > 2000 and height > 5 else kind
        gap = draw.random() < 0.05
        lines.append(f"{'' if gap else f'{speed:.3f}'},{height:.3f},{road},{kind}")
    lines[700] = "what,is,this,then"
    (folder / "table.csv").write_text("\n".join(lines) + "\n")


def learn_command(target, state):
    """The options of `taskfree learn` for one of the targets."""
    return learn.Learn(
        source="table.csv", state=state, target=target, task=TARGETS[target],
        batch_size=8, buffer_size=50,
    )  # fmt: skip


def close(found, expected):
    """Whether sums are those expected, up to another order of summing."""
    return found.keys() == expected.keys() and all(
        math.isclose(found[name][1], expected[name][1], rel_tol=0.02, abs_tol=0.5) for name in found
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    expected = {"arithmetic": arithmetic(), "learners": {}, "learn": {}}
    for name, make in LEARNERS.items():
        learner = make()
        torch.manual_seed(1)
        reports = learned(learner, range(HALF))
        checkpoint.save(HERE / name, keep=1, learner=learner)
        reports += learned(learner, range(HALF, STEPS))
        expected["learners"][name] = summary(content(learner, reports))
        print(  # noqa: T201
            name, [r.step for r in reports if r.consolidated], [r.step for r in reports if r.peak]
        )
    os.chdir(HERE)
    write_table(HERE)
    for target in TARGETS:
        session = learn.run(learn_command(target, Path("whole")))
        expected["learn"][target] = summary(content(session.learner, []))
        expected["learn"][target].pop("random")
        shutil.rmtree("whole")
    Path("table.csv").unlink()
    Path("expected.json").write_text(json.dumps(expected, indent=1) + "\n")
