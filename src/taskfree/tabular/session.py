"""A stream that is being learned: schema, encoders, learner, metrics and log in one folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from taskfree import checkpoint
from taskfree._core.files import atomic_write
from taskfree.metrics import Prequential
from taskfree.observe.events import Report
from taskfree.observe.log import Log
from taskfree.tabular import networks
from taskfree.tabular.encoders import ImageEncoder, TableEncoder
from taskfree.tabular.model import StreamModel
from taskfree.tabular.progress import Progress
from taskfree.tabular.schema import Schema
from taskfree.tabular.sources import Picker, Source
from taskfree.tabular.targets import LabelEncoder
from taskfree.tabular.values import RowError, is_missing

__all__ = ["Session"]


class Session:
    """Everything that `taskfree learn` keeps in its folder: new, or as it was left.

    Args:
        folder: where it is kept.
        schema: of a new stream; None to continue one.
        reading: only to look at: nothing in the folder is changed, so that another process may be
            learning there.
    """

    def __init__(
        self, folder: Path, schema: Schema | None = None, *, reading: bool = False
    ) -> None:
        self.folder = folder
        saved = checkpoint.peek(folder, "setup", "targets", "inputs")
        if not saved and schema is None:
            raise ValueError(f"{folder} holds nothing that was learned; start with taskfree learn")
        self.schema = schema or Schema()
        if saved:
            self.schema.load_state_dict(saved["setup"])
        self._known = frozenset(self.schema.columns)
        self._late: dict[str, int] = {}
        """The places of columns that came later, in rows of a source that are lists."""
        columns, choices = self.schema.columns, self.schema.choices
        late = [name for name in self.schema.kinds if name not in columns]
        self.inputs: TableEncoder | ImageEncoder
        if choices.image:
            self.inputs = ImageEncoder(columns.index(choices.image), choices.size)
        else:
            self.inputs = TableEncoder(self.schema.kinds, self.schema.forms, self.schema.keys, late)
        if saved:
            self.inputs.load_state_dict(saved["inputs"])  # the network has as many inputs
        self._target = columns.index(choices.target)
        self._environment = columns.index(choices.environment) if choices.environment else None
        classification = self.schema.task == "classification"
        known = len(saved["targets"]["names"]) if saved and classification else 0
        self.model = self._make_model(known)
        self.targets, self.learner = self.model.targets, self.model.learner
        self.metric = Prequential()
        self.answers = torch.empty(0)
        """What was predicted of the rows that were learned last."""
        log = _StillLog if reading else Log
        self.log = log(folder, self.learner, every=1000, name=self.targets.describe)
        self.progress = Progress()
        self.last = ("", "")
        """What was predicted of the last row, and what it was."""
        if saved:
            checkpoint.resume(folder, **self._parts())
        else:
            self.log.clear()  # a run that was killed before its first save left lines behind

    def _parts(self) -> dict[str, Any]:
        """By the names that a state folder has had since the first version."""
        return {
            "setup": self.schema,
            "inputs": self.inputs,
            "targets": self.targets,
            "learner": self.learner,
            "model": self.model,
            "metric": self.metric,
            "log": self.log,
            "read": self.progress,
        }

    def _make_model(self, known: int) -> StreamModel:
        choices = self.schema.choices
        torch.manual_seed(choices.seed)
        default = networks.cnn if choices.image else networks.mlp
        return StreamModel(
            self.schema.task,
            networks.load(choices.model) if choices.model else default,
            self.inputs.width,
            outputs=known,
            prepare=self.inputs.prepare,
            features=self.inputs.features,
            keys=self.inputs.keys,
            form=self.schema.forms.get(choices.target, ""),
            options=choices,
        )

    def picker(self, source: Source, *, learn: bool = True) -> Picker:
        """A function that picks this stream's values out of a source's rows."""
        if isinstance(self.inputs, ImageEncoder):
            self.inputs.folder = source.folder
        choices, kinds = self.schema.choices, self.schema.kinds
        self._late = {
            name: source.columns.index(name)
            for name in kinds
            if name not in self._known and name in source.columns
        }
        needed = {choices.image, *(name for name in self.columns if kinds[name])}
        if learn:
            needed |= {choices.target, choices.environment}
        return source.picker(self.columns, optional=set(self.columns) - needed)

    @property
    def columns(self) -> list[str]:
        """The columns that rows have had from the start, in their order."""
        return self.schema.columns

    def check_columns(self, values: Any) -> None:
        """Raise a RowError if a row has none of the columns that are inputs."""
        kinds = self.schema.kinds
        if isinstance(values, Mapping) and not any(kinds.get(name) for name in values):
            names = ", ".join(repr(name) for name in kinds if kinds[name])
            raise RowError(f"a row must have some of the columns {names}")

    def late(self, values: Any) -> Mapping[str, Any]:
        """What a row has in columns that were not there when the stream began."""
        if not isinstance(values, Mapping):
            return {name: values[at] for name, at in self._late.items()}
        if values.keys() <= self._known:
            return {}
        return {name: value for name, value in values.items() if name not in self._known}

    def read(
        self, values: Sequence[Any], late: Mapping[str, Any] | None = None
    ) -> tuple[Any, Any, str | None]:
        """A row's inputs, target and environment; a RowError says what is wrong with it.

        The target is None if it is missing.
        """
        at = self._environment
        environment = None if at is None else str(values[at])
        inputs = self.inputs.read(values, late)
        target = values[self._target]
        return inputs, None if is_missing(target) else self.targets.read(target), environment

    def learn(self, rows: Sequence[tuple[Any, Any, str | None]]) -> Report:
        """Predict rows that could be read, score the predictions, then learn: test, then train."""
        xs, ys, environments = zip(*rows, strict=True)
        inputs, keys = self.inputs.encode(xs), self.inputs.keys_of(xs)
        predicted, report = self.model.step(inputs, ys, keys)
        named = None if self._environment is None else environments
        actual = self.targets.encode(ys)
        self.metric.update(predicted, actual, named)
        self.last = (self.describe(predicted[-1]), self.describe(actual[-1]))
        self.answers = predicted
        self.log(report)
        return report

    def predict_next(self, rows: Sequence[Any]) -> Tensor:
        """The same as `predict`, for rows that come next and whose targets are not known."""
        keys = self.inputs.keys_of(rows)
        return self.model.predict_next(self.inputs.encode(rows, learn=False), keys)

    def describe(self, target: Any) -> str:
        """A target, or a prediction, by name."""
        unknown = isinstance(self.targets, LabelEncoder) and int(target) < 0
        return "nothing" if unknown else self.targets.describe(target)

    def status(self) -> dict[str, Any]:
        """How it goes: scores of it and of its experts, and how far each is trusted."""
        kind = "accuracy" if isinstance(self.targets, LabelEncoder) else "mean absolute error"
        scores = self.model.score_by_expert
        return {
            "rows": self.progress.rows, "skipped": self.progress.skipped,
            "score": kind, "recent": self.metric.windowed, "all": self.metric.mean,
            "by expert": scores, "trust": self.model.trust,
            "last": {"predicted": self.last[0], "actual": self.last[1]},
        }  # fmt: skip

    def predict(self, inputs: Tensor) -> Tensor:
        """The class index of each row, -1 if none is known yet; or its value."""
        return self.model.predict(inputs)

    def save(self) -> None:
        """Write the network's weights by themselves, and then everything durably.

        In this order, a run that is killed in between learns the last rows again and writes both.
        """
        state: dict[str, Tensor] = self.learner.model.state_dict()
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(self.folder / "network.safetensors") as unfinished:
            tensors = {name: value.contiguous() for name, value in state.items()}
            about = {"taskfree": json.dumps(self.describe_network())}
            save_file(tensors, unfinished, about)
        checkpoint.save(self.folder, **self._parts())

    def describe_network(self) -> dict[str, Any]:
        """What the network's inputs and outputs are: the metadata of its weights."""
        found: dict[str, Any] = {
            "target": self.schema.choices.target,
            "task": self.schema.task,
            "columns": dict(self.schema.kinds),
            "inputs": self.inputs.describe(),
        }
        if isinstance(self.targets, LabelEncoder):
            found["classes"] = self.targets.names
        else:
            found["scale"] = [float(self.targets.scaler.mean), float(self.targets.scaler.std)]
        return found

    def write_history(self, report: Report, held_out: Mapping[str, float]) -> None:
        """Add a line to the history."""
        line: dict[str, Any] = {"step": report.step, "loss": round(report.window_loss, 6)}
        line |= self.metric.summary()
        if held_out:
            line["held out"] = dict(held_out)
        if environments := self.metric.by_environment:
            line["by environment"] = environments
        elif isinstance(self.targets, LabelEncoder):
            names = self.targets.names
            line["by class"] = {names[at]: value for at, value in self.metric.by_class.items()}
        self.log.history.write(json.dumps(line))


class _StillLog(Log):
    """A log that is only looked at: another process may be writing it."""

    _saved: Mapping[str, Any] = {}

    def __call__(self, report: Report, **metrics: Any) -> None:
        """Nothing is written."""

    def state_dict(self) -> dict[str, Any]:
        """As it was loaded."""
        return dict(self._saved)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Nothing is cut off."""
        self._saved = state
