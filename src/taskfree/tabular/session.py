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

__all__ = ["Session"]


class Session:
    """Everything that `taskfree learn` keeps in its folder: new, or as it was left.

    Args:
        folder: where it is kept.
        schema: of a new stream; None to continue one.
    """

    def __init__(self, folder: Path, schema: Schema | None = None) -> None:
        self.folder = folder
        saved = checkpoint.peek(folder, "setup", "targets", "inputs")
        if not saved and schema is None:
            raise ValueError(f"{folder} holds nothing that was learned; start with taskfree learn")
        self.schema = schema or Schema()
        if saved:
            self.schema.load_state_dict(saved["setup"])
        self._known = frozenset(self.schema.kinds)
        columns, choices = list(self.schema.kinds), self.schema.choices
        self.inputs: TableEncoder | ImageEncoder
        if choices.image:
            self.inputs = ImageEncoder(columns.index(choices.image), choices.size)
        else:
            self.inputs = TableEncoder(self.schema.kinds, self.schema.forms, self.schema.keys)
        if saved:
            self.inputs.load_state_dict(saved["inputs"])  # the network has as many inputs
        self._target = columns.index(choices.target)
        self._environment = columns.index(choices.environment) if choices.environment else None
        classification = self.schema.task == "classification"
        known = len(saved["targets"]["names"]) if saved and classification else 0
        self.model = self._make_model(known)
        self.targets, self.learner = self.model.targets, self.model.learner
        self.metric = Prequential()
        self.log = Log(folder, self.learner, every=1000, name=self.targets.describe)
        self.progress = Progress()
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
        needed = {choices.image, *(name for name, kind in kinds.items() if kind)}
        if learn:
            needed |= {choices.target, choices.environment}
        return source.picker(list(kinds), optional=set(kinds) - needed)

    def late(self, values: Any) -> Mapping[str, Any]:
        """What a row has in columns that were not there when the stream began."""
        if not isinstance(values, Mapping) or values.keys() <= self._known:
            return {}
        return {name: value for name, value in values.items() if name not in self._known}

    def read(
        self, values: Sequence[Any], late: Mapping[str, Any] | None = None
    ) -> tuple[Any, Any, str | None]:
        """A row's inputs, target and environment; a RowError says what is wrong with it."""
        at = self._environment
        environment = None if at is None else str(values[at])
        inputs = self.inputs.read(values, late)
        return inputs, self.targets.read(values[self._target]), environment

    def learn(self, rows: Sequence[tuple[Any, Any, str | None]]) -> Report:
        """Predict rows that could be read, score the predictions, then learn: test, then train."""
        xs, ys, environments = zip(*rows, strict=True)
        inputs, keys = self.inputs.encode(xs), self.inputs.keys_of(xs)
        predicted, report = self.model.step(inputs, ys, keys)
        named = None if self._environment is None else environments
        self.metric.update(predicted, self.targets.encode(ys), named)
        self.log(report)
        return report

    def predict(self, inputs: Tensor) -> Tensor:
        """The class index of each row, -1 if none is known yet; or its value."""
        return self.model.predict(inputs)

    def save(self) -> None:
        """Write everything durably, and the network's weights by themselves."""
        checkpoint.save(self.folder, **self._parts())
        state: dict[str, Tensor] = self.learner.model.state_dict()
        with atomic_write(self.folder / "network.safetensors") as unfinished:
            save_file({name: value.contiguous() for name, value in state.items()}, unfinished)

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
