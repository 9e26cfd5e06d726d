"""Avalanche: one plugin. Points from one quadrant, then from another; tested on the first."""

import torch
from avalanche.benchmarks import benchmark_from_datasets
from avalanche.benchmarks.utils import as_classification_dataset
from avalanche.training.plugins import EvaluationPlugin
from avalanche.training.supervised import Naive
from torch import nn
from torch.utils.data import TensorDataset

from taskfree.adapters.avalanche import Consolidation
from taskfree.paper.streams import ball


def dataset(x, y):
    """A dataset for Avalanche."""
    data = TensorDataset(x, y)
    data.targets = y.tolist()
    return as_classification_dataset(data)


generator = torch.Generator().manual_seed(0)
experiences = [dataset(*ball.quadrant(q, 4000, generator)) for q in (1, 2)]
tests, answers = ball.quadrant(1, 1000, generator)
stream = benchmark_from_datasets(train=experiences, test=experiences).streams["train"]

for name, plugins in {
    "plain": [],
    "taskfree without a buffer": [Consolidation(loss=None)],
    "taskfree": [Consolidation()],
}.items():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Linear(100, 2))
    strategy = Naive(
        model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.2),
        criterion=nn.CrossEntropyLoss(), train_mb_size=20, train_epochs=1,
        plugins=plugins, evaluator=EvaluationPlugin(loggers=[]),
    )  # fmt: skip
    for experience in stream:
        strategy.train(experience)
    accuracy = (model.eval()(tests).argmax(1) == answers).float().mean()
    print(f"{name}: {100 * accuracy:.0f} % in the first quadrant")
