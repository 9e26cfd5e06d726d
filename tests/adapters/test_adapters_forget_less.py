"""Each example learns, in the real library, a stream that a plain network forgets.

Run as a script, it writes what they print to results/adapters.json.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from taskfree.paper import cache, publish

ROOT = Path(__file__).parents[2]
AVALANCHE = Path(sys.prefix) / "avalanche"


def run(script):
    command = [script]
    environment = {}
    if "avalanche" in script.name:
        assert AVALANCHE.is_dir(), "make test installs Avalanche there"
        command.insert(0, ROOT / "benchmarks" / "avalanche_here.py")
        environment["PYTHONPATH"] = str(AVALANCHE)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *map(str, command)], capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def example(name):
    output = run(ROOT / "examples" / f"{name}.py")
    return {name: int(percent) for name, percent in re.findall(r"(.*): (\d+) % ", output)}


@pytest.mark.parametrize("name", ["with_river", "with_sklearn"])
def test_classes_that_do_not_return(name):
    found = example(name)
    plain = {name: value for name, value in found.items() if "taskfree" not in name}
    assert max(plain.values()) < 40, "the plain network should forget"
    assert found["taskfree"] > 65


@pytest.mark.parametrize("name", ["own_loop", "with_lightning", "with_avalanche", "with_gymnasium"])
def test_an_environment_that_does_not_return(name):
    found = example(name)
    plain = found.pop("plain")
    assert plain < 80, "the plain network should forget"
    assert found
    assert min(found.values()) > plain + 10


GROWS = """
import torch
from avalanche.benchmarks import benchmark_from_datasets, with_classes_timeline
from avalanche.benchmarks.utils import as_classification_dataset
from avalanche.models import IncrementalClassifier
from avalanche.training.plugins import EvaluationPlugin
from avalanche.training.supervised import Naive
from torch import nn
from torch.utils.data import TensorDataset
from taskfree import MAS, Every
from taskfree.adapters.avalanche import Consolidation

torch.manual_seed(0)
experiences = []
for first in (0, 2, 4):
    y = torch.randint(2, (200,)) + first
    data = TensorDataset(torch.randn(200, 4) + y[:, None], y)
    data.targets = y.tolist()
    experiences.append(as_classification_dataset(data))
head = IncrementalClassifier(8, masking=False)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), head)
plugin = Consolidation(when=Every(5), how=MAS(1e9))
strategy = Naive(
    model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), train_mb_size=20,
    criterion=nn.CrossEntropyLoss(), plugins=[plugin], evaluator=EvaluationPlugin(loggers=[]),
)
benchmark = with_classes_timeline(benchmark_from_datasets(train=experiences, test=experiences))
for experience in benchmark.streams["train"]:
    strategy.train(experience)
    held = plugin.consolidator.how
    [name] = [name for name in held.anchor if name.endswith("classifier.weight")]
    strong = held.importance[name] > held.importance[name].mean()
    away = (head.classifier.weight - held.anchor[name])[strong].abs().max().item()
    print(list(held.anchor[name].shape), held.consolidations, away < 1e-3)
"""


def test_an_output_layer_that_avalanche_grows_stays_regularized(tmp_path):
    script = tmp_path / "avalanche_grows.py"
    script.write_text(GROWS)
    assert run(script).splitlines() == ["[2, 8] 2 True", "[4, 8] 4 True", "[6, 8] 6 True"]


if __name__ == "__main__":
    names = sorted(path.stem for path in (ROOT / "examples").glob("with_*.py"))
    results = {
        "command": "python tests/adapters/test_adapters_forget_less.py",
        "versions": cache.versions(),
        "percent": {name: example(name) for name in (*names, "own_loop")},
    }
    publish.write_results(ROOT / "results/adapters.json", results)
