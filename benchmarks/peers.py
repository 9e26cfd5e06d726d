"""Other libraries on the same task: Avalanche on the stream, Opacus and BackPACK for gradients.

`make bench` installs them in a separate environment.
"""

from __future__ import annotations

from collections.abc import Callable

import avalanche_here
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

Batches = list[tuple[Tensor, Tensor]]


def avalanche(
    batches: Batches, network: Callable[[], nn.Module], lr: float, repeats: int, capacity: int
) -> dict[str, Callable[[], None]]:
    """Avalanche's supervised strategy on the stream, one experience per time step.

    Datasets and experiences are created beforehand and logging is off: only learning is timed. The
    replay buffer uses reservoir sampling, the fastest of its policies on such a stream.
    """
    avalanche_here.prepare()
    from avalanche.benchmarks import benchmark_from_datasets
    from avalanche.benchmarks.utils import as_classification_dataset
    from avalanche.training.plugins import EvaluationPlugin, MASPlugin, ReplayPlugin
    from avalanche.training.storage_policy import ReservoirSamplingBuffer
    from avalanche.training.supervised import Naive

    def dataset(x: Tensor, y: Tensor) -> object:
        data = TensorDataset(x, y)
        data.targets = y.tolist()
        return as_classification_dataset(data)

    stream = benchmark_from_datasets(
        train=[dataset(*batch) for batch in batches], test=[dataset(*batches[0])]
    ).streams["train"]

    def run(*plugins: Callable[[], object]) -> None:
        model = network()
        strategy = Naive(
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=lr),
            criterion=nn.CrossEntropyLoss(),
            train_mb_size=len(batches[0][0]),
            train_epochs=repeats,
            plugins=[plugin() for plugin in plugins],
            evaluator=EvaluationPlugin(),
            device="cpu",
        )
        for experience in stream:
            strategy.train(experience)

    def replay() -> object:
        return ReplayPlugin(capacity, storage_policy=ReservoirSamplingBuffer(capacity))

    return {
        "Avalanche, no plugin": run,
        "Avalanche, replay": lambda: run(replay),
        "Avalanche, replay + MAS": lambda: run(replay, lambda: MASPlugin(0.5, 0.5)),
    }


def per_sample(make: Callable[[], nn.Module], x: Tensor) -> dict[str, Callable[[], None]]:
    """Exact importance from the per-sample gradients of Opacus and of BackPACK."""
    from backpack import backpack, extend
    from backpack.extensions import BatchGrad
    from opacus import GradSampleModule

    def network() -> nn.Module:  # their hooks do not support in-place operations
        model = make().eval()
        for module in model.modules():
            if isinstance(module, nn.ReLU):
                module.inplace = False
        return model

    sampled = GradSampleModule(network())
    for layer in sampled.modules():  # Opacus stores gradients only of layers in training mode
        layer.training = not isinstance(layer, nn.Dropout)
    extended, squares = extend(network()), extend(nn.MSELoss(reduction="sum"))

    def opacus() -> None:
        sampled.zero_grad()
        sampled(x).square().sum().backward()
        for value in sampled.parameters():
            value.grad_sample.abs().mean(0)

    def batch_grad() -> None:
        extended.zero_grad()
        outputs = extended(x)
        with backpack(BatchGrad()):
            squares(outputs, torch.zeros_like(outputs)).backward()
        for value in extended.parameters():
            value.grad_batch.abs().mean(0)
            del value.grad_batch

    return {"Opacus, exact": opacus, "BackPACK, exact": batch_grad}
