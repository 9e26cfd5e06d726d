"""A stream that is being learned: what its columns are, the learner, and how well it goes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from taskfree import checkpoint
from taskfree.feed import models
from taskfree.feed.encode import Classes, Pictures, Table, is_missing, kind_of
from taskfree.feed.online import Online, Task
from taskfree.feed.rows import START, Picker, Row, Source
from taskfree.learner import Report
from taskfree.log import Log
from taskfree.metrics import Prequential

__all__ = ["Setup", "Stream", "look"]

LOOK = 200
"""So many rows are looked at to see what the columns are, before the first is learned."""
FEW = 20
"""Whole numbers of at most so many different values are classes."""


@dataclass
class Setup:
    """What makes a stream's learner: decided at the first start, and kept."""

    kinds: dict[str, str] = field(default_factory=dict)
    """What each column is: a number, a category, or nothing to be looked at."""
    gaps: list[str] = field(default_factory=list)
    """The columns in which numbers are missing."""
    target: str = ""
    task: Task = "classes"
    environment: str = ""
    image: str = ""
    size: int = 32
    model: str = ""
    lr: float = 0.01
    batch: int = 64
    buffer: int = 100
    strength: float = 0.01
    seed: int = 0

    def state_dict(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become what was kept."""
        for name in (one.name for one in fields(self)):
            setattr(self, name, state[name])


def look(rows: Sequence[Row], source: Source, **options: Any) -> Setup:
    """Decide what the columns of a new stream are, from its first rows."""
    readable = [row.values for row in rows if not row.problem]
    if not readable:
        raise ValueError(
            f"none of the first {len(rows)} rows of {source.name} can be read"
            + (f": {source.unit} {rows[0].number} {rows[0].problem}" if rows else "; it is empty")
        )
    columns = list(source.columns) or list({name: None for row in readable for name in row})
    setup = Setup(**{key: value for key, value in options.items() if key not in ("task", "ignore")})
    named = [setup.target, *([setup.image] if setup.image else []), *options["ignore"]]
    for name in [*named, *([setup.environment] if setup.environment else [])]:
        if name not in columns:
            raise ValueError(
                f"{source.name} has no column {name!r}; it has {', '.join(map(repr, columns))}"
            )
    pick = source.picker(columns)
    values = dict(zip(columns, zip(*map(pick, readable), strict=True), strict=True))
    left_out = {*named, setup.environment}
    setup.kinds = {
        name: "" if name in left_out or setup.image else kind_of(values[name]) for name in columns
    }
    setup.gaps = [
        name
        for name, kind in setup.kinds.items()
        if kind == "number" and any(map(is_missing, values[name]))
    ]
    setup.task = _task(values[setup.target]) if options["task"] == "auto" else options["task"]
    return setup


def _task(targets: Sequence[Any]) -> Task:
    """Whether targets are classes: names, or few whole numbers.

    >>> _task(["up", "down"]), _task(["0", "1", "1"]), _task(["0.5", "2"])
    ('classes', 'classes', 'numbers')
    """
    there = [value for value in targets if not is_missing(value)]
    if kind_of(there) == "category" or any(isinstance(value, bool) for value in there):
        return "classes"
    numbers = {float(value) for value in there if kind_of([value]) == "number"}
    few = len(numbers) <= FEW and all(number.is_integer() for number in numbers)
    return "classes" if few else "numbers"


class Stream:
    """All that `taskfree learn` keeps in its folder: made anew, or as it was left.

    Args:
        folder: where it is kept.
        setup: what makes it; None if it is there already.
    """

    def __init__(self, folder: Path, setup: Setup | None = None) -> None:
        self.folder = folder
        kept = checkpoint.peek(folder, "setup", "targets")
        if not kept and setup is None:
            raise ValueError(f"{folder} holds nothing that was learned; begin with taskfree learn")
        self.setup = Setup(**kept["setup"]) if kept else setup or Setup()
        setup = self.setup
        columns = list(setup.kinds)
        self.inputs: Table | Pictures
        if setup.image:
            self.inputs = Pictures(columns.index(setup.image), setup.size)
        else:
            self.inputs = Table(setup.kinds, setup.gaps)
        self._target_at = columns.index(setup.target)
        self._environment_at = columns.index(setup.environment) if setup.environment else None
        known = len(kept["targets"]["names"]) if kept and setup.task == "classes" else 0
        self.online = self._make(known)
        self.targets, self.learner = self.online.targets, self.online.learner
        self.metric = Prequential()
        self.log = Log(folder, self.learner, every=1000, name=self._called)
        self.read = Read()
        if kept:
            checkpoint.resume(folder, **self._parts())
        else:
            self.log.clear()  # a run that was killed before it kept anything left lines behind

    def _parts(self) -> dict[str, Any]:
        names = (
            "setup", "inputs", "targets", "learner", "metric", "log", "read",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def _make(self, known: int) -> Online:
        setup = self.setup
        torch.manual_seed(setup.seed)
        default = models.convolutions if setup.image else models.mlp
        return Online(
            setup.task,
            models.load(setup.model) if setup.model else default,
            3 if isinstance(self.inputs, Pictures) else self.inputs.width,
            outputs=known,
            lr=setup.lr,
            buffer=setup.buffer,
            strength=setup.strength,
            seed=setup.seed,
        )

    def reading(self, source: Source, *, learn: bool = True) -> Picker:
        """What picks this stream's values out of a source's rows."""
        if isinstance(self.inputs, Pictures):
            self.inputs.folder = source.folder
        setup = self.setup
        looked_at = [name for name, kind in setup.kinds.items() if kind]
        needed = [*looked_at, *([setup.image] if setup.image else [])]
        if learn:
            needed += [setup.target, *([setup.environment] if setup.environment else [])]
        return source.picker(list(setup.kinds), optional=set(setup.kinds) - set(needed))

    def learn(self, rows: Sequence[tuple[Any, Any, str | None]]) -> Report:
        """Predict rows that could be read, count how well, and learn them: test, then train."""
        xs, ys, environments = zip(*rows, strict=True)
        inputs = self.inputs.encode(xs)
        predicted = self.predict(inputs)
        targets = self.targets.encode(ys)
        named = environments if self._environment_at is not None else None
        if isinstance(self.targets, Classes):
            self.metric.update(predicted, targets, named)
        else:
            own = torch.tensor(ys, dtype=torch.float64)
            self.metric.update(predicted, own, named)
        report = self.online.learn(inputs, targets)
        self.log(report)
        return report

    def _called(self, target: Any) -> str:
        """What a target is called."""
        if isinstance(self.targets, Classes):
            return self.targets.names[int(target)]
        return f"{float(target):.4g}"

    def understand(self, values: Sequence[Any]) -> tuple[Any, Any, str | None]:
        """A row's inputs, target and environment; `Unreadable` says what is wrong with it."""
        at = self._environment_at
        environment = None if at is None else str(values[at])
        return self.inputs.read(values), self.targets.read(values[self._target_at]), environment

    def predict(self, inputs: Tensor) -> Tensor:
        """The class of each row, -1 if none is known yet, or its number."""
        return self.online.predict(inputs)

    def save(self) -> None:
        """Keep all of it, durably, and the network by itself."""
        checkpoint.save(self.folder, **self._parts())
        file = self.folder / "network.safetensors"
        unfinished = file.with_suffix(".writing")
        weights = {name: value.contiguous() for name, value in self._weights().items()}
        save_file(weights, unfinished)
        with open(unfinished, "rb") as written:
            os.fsync(written.fileno())
        unfinished.replace(file)

    def _weights(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = self.learner.model.state_dict()
        return found

    def tell(self, report: Report, held_out: Mapping[str, float]) -> None:
        """Add to the history how well it goes."""
        said: dict[str, Any] = {"step": report.step, "loss": round(report.window_loss, 6)}
        said |= self.metric.summary()
        if held_out:
            said["held out"] = dict(held_out)
        if parts := self.metric.by_environment:
            said["by environment"] = parts
        elif isinstance(self.targets, Classes):
            names = self.targets.names
            said["by class"] = {names[at]: value for at, value in self.metric.by_class.items()}
        self.log.history.write(json.dumps(said))


class Read:
    """What has been read of which source, and how many rows could not be."""

    def __init__(self) -> None:
        self.rows = self.skipped = 0
        self.places: dict[str, dict[str, Any]] = {}

    def place(self, source: Source) -> tuple[int, int]:
        """Where a source is to be continued."""
        kept = self.places.get(source.name)
        if kept is None or source.live:
            return START
        at = (kept["at"], kept["line"])
        size = source.size()
        if (size is not None and size < at[0]) or source.beginning(at) != kept["beginning"]:
            raise ValueError(
                f"{source.name} is not what it was when it was last read: it is shorter, or begins "
                "in another way. To learn it from its beginning, give it another name"
            )
        return at

    def reached(self, source: Source, place: tuple[int, int]) -> None:
        """Remember how far a source has been read."""
        if source.live:
            return
        self.places[source.name] = {
            "at": place[0], "line": place[1], "beginning": source.beginning(place),
        }  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """All of it."""
        return {"rows": self.rows, "skipped": self.skipped, "places": self.places}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.rows, self.skipped = state["rows"], state["skipped"]
        self.places = {name: dict(kept) for name, kept in state["places"].items()}
