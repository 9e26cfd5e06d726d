"""Methods of Avalanche, run by its own code.

Those that learn from a stream get one experience per time step. Those that consolidate at the end
of a task (EWC, MAS, A-GEM) get one experience per environment: they are told where it changes. So
does GSS, whose code stops if a batch has more samples than the memory holds so far.

Avalanche imports torchvision, whose wheel may require another build of torch. No vision operator
runs here, so the two that torchvision's Python code needs are declared without an implementation.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from taskfree.paper.methods.ours import Method, Setting
from taskfree.paper.methods.watching import Predict, Watcher
from taskfree.paper.streams.changing import ChangingStream

REPLAY = 2
"""How many samples are replayed for each new one, as our buffers do."""

_operators: list[torch.library.Library] = []
"""They exist as long as their library does."""


@cache
def prepare() -> None:
    """Make Avalanche importable without a matching torchvision, and without its loggers."""
    operators = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]  # torch
    _operators.append(operators)
    for name in ("nms", "qnms"):
        schema = f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        operators.define(schema)  # type: ignore[no-untyped-call]  # torch
    logger = types.ModuleType("wandb")
    logger.__spec__ = importlib.machinery.ModuleSpec("wandb", None)
    sys.modules.setdefault("wandb", logger)
    warnings.showwarning = lambda *_, **__: None  # deprecation warnings of its own at every step


def _dataset(x: Tensor, y: Tensor) -> Any:
    from avalanche.benchmarks.utils import _make_taskaware_classification_dataset

    data = TensorDataset(x, y)
    data.targets = y.tolist()  # type: ignore[attr-defined]  # as Avalanche wants it
    return _make_taskaware_classification_dataset(data, task_labels=0)  # all have one label


def _experiences(samples: list[tuple[Tensor, Tensor]]) -> Any:
    """An experience for each part of one data set: Avalanche is four times faster on these."""
    from avalanche.benchmarks import benchmark_from_datasets

    whole = _dataset(*(torch.cat(column) for column in zip(*samples, strict=True)))
    ends = list(accumulate(len(x) for x, _ in samples))
    datasets = [whole.subset(list(range(*part))) for part in pairwise([0, *ends])]
    return benchmark_from_datasets(train=datasets, test=datasets[:1]).streams["train"]


def _options(stream: ChangingStream, rate: float = 1.0) -> dict[str, Any]:
    """What all strategies need; `rate` multiplies the stream's learning rate."""
    from avalanche.training.plugins import EvaluationPlugin

    return {
        "model": stream.model,
        "optimizer": torch.optim.SGD(stream.model.parameters(), lr=rate * stream.lr),
        "criterion": nn.CrossEntropyLoss(),
        "train_mb_size": len(stream.batches[0][0]),
        "train_epochs": stream.repeats,
        "evaluator": EvaluationPlugin(),
        "device": "cpu",
    }


def _online(make: Callable[[dict[str, Any], int, int, Setting], Any]) -> Method:
    """A method that gets one experience per time step."""

    def learn(
        stream: ChangingStream, memory: int, seed: int, setting: Setting, watcher: Watcher
    ) -> Predict:
        prepare()
        torch.manual_seed(seed)
        replayed = min(memory, REPLAY * len(stream.batches[0][0]))
        rate, own = _split(setting)
        strategy = make(_options(stream, rate), memory, replayed, own)
        predict = _predict(strategy)
        for step, experience in enumerate(_experiences(stream.batches)):
            watcher.before(step, predict)
            with redirect_stdout(StringIO()):
                strategy.train(experience)
        return predict

    return learn


def _by_environment(make: Callable[[dict[str, Any], int, int, Setting], Any]) -> Method:
    """A method that gets one experience per environment, its batches in order."""

    def learn(
        stream: ChangingStream, memory: int, seed: int, setting: Setting, watcher: Watcher
    ) -> Predict:
        prepare()
        torch.manual_seed(seed)
        from avalanche.training.plugins import SupervisedPlugin

        segments = list(_segments(stream))
        rate, own = _split(setting)
        options = _options(stream, rate) | {"train_epochs": 1}
        strategy = make(options, memory, len(segments), own)
        predict, steps = _predict(strategy), iter(range(10**9))

        class Ask(SupervisedPlugin):  # type: ignore[misc]  # no types
            def before_training_iteration(self, strategy: Any, **_: Any) -> None:
                number = next(steps)
                if number % stream.repeats == 0:
                    watcher.before(number // stream.repeats, predict)
                    strategy.model.train()

        strategy.plugins.append(Ask())
        for experience in _experiences(segments):
            with redirect_stdout(StringIO()):
                strategy.train(experience, shuffle=False)
        return predict

    return learn


def _split(setting: Setting) -> tuple[float, Setting]:
    """The factor of the learning rate, and the other settings."""
    return setting.get("rate", 1.0), {k: v for k, v in setting.items() if k != "rate"}


def _segments(stream: ChangingStream) -> Iterator[tuple[Tensor, Tensor]]:
    """The samples of each environment in turn, every batch as often as there are gradient steps."""
    ends = [*stream.changes, len(stream.batches)]
    for start, end in zip([0, *ends], ends, strict=False):
        batches = [b for b in stream.batches[start:end] for _ in range(stream.repeats)]
        x, y = (torch.cat(column) for column in zip(*batches, strict=True))
        yield x, y


def _predict(strategy: Any) -> Predict:
    """The outputs of a strategy's model or, with CoPE, its nearest prototypes."""
    nearest = [p for p in strategy.plugins if hasattr(p, "_get_nearest_neigbor_distr")]

    def predict(x: Tensor) -> Tensor:
        strategy.model.eval()
        with torch.no_grad():
            outputs: Tensor = strategy.model(x)
            if nearest and nearest[0].initialized:
                prototypes = torch.cat([nearest[0].p_mem[c] for c in sorted(nearest[0].p_mem)])
                return outputs @ prototypes.T
            return outputs

    return predict


def _er(options: dict[str, Any], memory: int, replayed: int, setting: Setting) -> Any:
    from avalanche.training.plugins import ReplayPlugin
    from avalanche.training.storage_policy import ReservoirSamplingBuffer
    from avalanche.training.supervised import Naive

    del setting
    plugin = ReplayPlugin(
        memory,
        batch_size=options["train_mb_size"],
        batch_size_mem=replayed,
        storage_policy=ReservoirSamplingBuffer(memory),
    )
    return Naive(**options, plugins=[plugin])


def _rar(options: dict[str, Any], memory: int, replayed: int, setting: Setting) -> Any:
    from avalanche.training.plugins import RARPlugin
    from avalanche.training.supervised import Naive

    plugin = RARPlugin(batch_size_mem=replayed, mem_size=memory, opt_lr=0.1, **setting)
    return Naive(**options, plugins=[plugin])


def _mir(options: dict[str, Any], memory: int, replayed: int, setting: Setting) -> Any:
    from avalanche.training.supervised import MIR

    return MIR(**options, mem_size=memory, batch_size_mem=replayed, **setting)


def _er_ace(options: dict[str, Any], memory: int, replayed: int, setting: Setting) -> Any:
    from avalanche.training.supervised import ER_ACE

    return ER_ACE(**options, mem_size=memory, batch_size_mem=replayed, **setting)


def _der(options: dict[str, Any], memory: int, replayed: int, setting: Setting) -> Any:
    from avalanche.training.supervised import DER

    return DER(**options, mem_size=memory, batch_size_mem=replayed, **setting)


def _gss(options: dict[str, Any], memory: int, environments: int, setting: Setting) -> Any:
    from avalanche.training.supervised import GSS_greedy

    del environments
    shape = [next(options["model"].parameters()).shape[1]]
    return GSS_greedy(**options, mem_size=memory, input_size=shape, **setting)


def _cope(options: dict[str, Any], memory: int, replayed: int, setting: Setting) -> Any:
    from avalanche.training.supervised import CoPE

    del replayed
    classes = list(options["model"].parameters())[-1].shape[0]
    return CoPE(**options, mem_size=memory, n_classes=classes, p_size=classes, **setting)


def _agem(options: dict[str, Any], memory: int, environments: int, setting: Setting) -> Any:
    from avalanche.training.supervised import AGEM

    size, share = REPLAY * options["train_mb_size"], max(1, memory // environments)
    return AGEM(**options, patterns_per_exp=share, sample_size=size, **setting)


def _ewc(options: dict[str, Any], memory: int, environments: int, setting: Setting) -> Any:
    from avalanche.training.supervised import EWC

    del memory, environments
    return EWC(**options, mode="online", decay_factor=0.9, **setting)


def _mas(options: dict[str, Any], memory: int, environments: int, setting: Setting) -> Any:
    from avalanche.training.supervised import MAS

    del memory, environments
    return MAS(**options, **setting)


PEERS: dict[str, Method] = {
    "Avalanche ER": _online(_er),
    "Avalanche MIR": _online(_mir),
    "Avalanche ER-ACE": _online(_er_ace),
    "Avalanche DER++": _online(_der),
    "Avalanche CoPE": _online(_cope),
    "Avalanche RAR": _online(_rar),
    "Avalanche GSS": _by_environment(_gss),
    "Avalanche A-GEM": _by_environment(_agem),
    "Avalanche EWC": _by_environment(_ewc),
    "Avalanche MAS": _by_environment(_mas),
}
"""By name. All of them are for classification."""

GRIDS: dict[str, list[Setting]] = {
    "Avalanche ER": [{"rate": r} for r in (1.0, 2.0)],
    "Avalanche MIR": [{"subsample": n} for n in (100, 200)],
    "Avalanche ER-ACE": [{}],
    "Avalanche DER++": [
        {"alpha": a, "beta": b} for a, b in ((0.3, 0.5), (0.3, 1.0), (1.0, 1.0), (3.0, 1.0))
    ],
    "Avalanche GSS": [{"mem_strength": n, "rate": r} for n in (1, 5) for r in (1.0, 2.0)],
    "Avalanche CoPE": [{"T": t, "alpha": 0.99, "rate": r} for t in (0.1, 0.5) for r in (1.0, 2.0)],
    "Avalanche RAR": [{"beta_coef": b} for b in (0.1, 0.4)],
    "Avalanche A-GEM": [{"rate": r} for r in (1.0, 2.0)],
    "Avalanche EWC": [{"ewc_lambda": n} for n in (1.0, 10.0, 100.0, 1000.0)],
    "Avalanche MAS": [{"lambda_reg": n, "alpha": 0.5} for n in (0.1, 1.0, 10.0)],
}
"""The settings among which the best is chosen for each stream, on other data.

`rate` multiplies the learning rate for those whose objective is a mean over new and replayed
samples together: where it is the sum of two means, as ours is, gradients are twice as large.
"""
