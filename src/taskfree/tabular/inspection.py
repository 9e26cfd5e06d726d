"""What has been learned, when, and what is held: as tables of text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from taskfree.observe.events import label_counts, layer_importance
from taskfree.observe.image import hardest as hardest_samples
from taskfree.tabular.columns import CategoryColumn, NumberColumn
from taskfree.tabular.encoders import TableEncoder
from taskfree.tabular.session import Session
from taskfree.tabular.targets import LabelEncoder

__all__ = ["read_lines", "tables"]


def tables(session: Session, hardest: int = 5, last: int = 10) -> dict[str, list[list[str]]]:
    """By title, rows of text with the heading first."""
    found = {"Learned": _learned(session), "Columns": _columns(session)}
    found["Experts"] = _experts(session)
    found["Metrics"] = [["", ""], *_metrics(session)]
    if isinstance(session.targets, LabelEncoder):
        found["Classes"] = _classes(session, session.targets)
    found["Last plateaus and peaks"] = _events(session, last)
    if session.learner.how is not None and session.learner.how.importance:
        found["Importance by layer"] = _importance(session)
    if session.learner.which is not None and len(session.learner.which):
        found["Hardest rows in the buffer"] = _hardest(session, hardest)
    return {title: rows for title, rows in found.items() if len(rows) > 1}


def _learned(session: Session) -> list[list[str]]:
    progress, choices = session.progress, session.schema.choices
    sizes = (value.numel() for value in session.learner.model.parameters())
    consolidations = getattr(session.learner.how, "consolidations", 0)
    return [
        ["", ""],
        ["target", f"{choices.target} ({session.schema.task})"],
        ["rows", f"{progress.rows:,}, of which {progress.skipped:,} could not be read"],
        ["rows without a target", f"{progress.unlabelled:,}"],
        ["time steps", f"{session.learner.step:,}"],
        ["consolidations", f"{consolidations:,}"],
        ["network", f"{choices.model or 'default'}, {sum(sizes):,} parameters"],
        *([f"read of {name}", f"{saved['at']:,}"] for name, saved in progress.places.items()),
    ]


def _columns(session: Session) -> list[list[str]]:
    inputs = session.inputs
    if not isinstance(inputs, TableEncoder):
        return [["", ""], ["images", f"{inputs.size}x{inputs.size}"]]
    rows = [["", "kind", "mean", "standard deviation", "far values", "categories", ""]]
    scaler, notes = inputs.inputs.scaler, session.schema.notes
    for column in inputs.columns:
        numbers, categories = ["", "", ""], ""
        if isinstance(column, NumberColumn):
            statistics = (scaler.mean, scaler.std, scaler.far)
            mean, std, far = (float(part[column.number]) for part in statistics)
            numbers = [f"{mean:.4g}", f"{std:.4g}", f"{far:,.0f}"]
        elif isinstance(column, CategoryColumn):
            categories = f"{len(column.places)}" + (" and more" if column.shared else "")
        note = notes.get(column.name, "")
        rows.append([column.name, column.kind, *numbers, categories, note])
    out = (name for name, kind in session.schema.kinds.items() if not kind and name in notes)
    return rows + [[name, "", "", "", "", "", notes[name]] for name in out]


def _experts(session: Session) -> list[list[str]]:
    """The network and the simple models beside it."""
    score = "accuracy" if isinstance(session.targets, LabelEncoder) else "absolute error"
    scores = session.model.score_by_expert
    trust = session.model.trust.items()
    return [
        ["", f"{score} so far", "trusted now"],
        *([name, f"{scores[name]:.4g}", f"{weight:.1%}"] for name, weight in trust),
    ]


def _metrics(session: Session) -> list[list[str]]:
    metric = session.metric
    rows = [
        [name.replace("_", " "), f"{value:.4f}"]
        for name, value in metric.summary().items()
        if name != "count"
    ]
    return rows + [[f"in {name}", f"{value:.4f}"] for name, value in metric.by_environment.items()]


def _classes(session: Session, classes: LabelEncoder) -> list[list[str]]:
    which = session.learner.which
    held = label_counts(which.targets) if which is not None and len(which) else {}
    return [
        ["", "accuracy", "in the buffer"],
        *(
            [classes.names[at], f"{value:.4f}", str(held.get(str(at), 0))]
            for at, value in session.metric.by_class.items()
        ),
    ]


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The objects of a JSON lines file; empty if there is none."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _events(session: Session, last: int) -> list[list[str]]:
    events = read_lines(session.log.events.path)[-last:] if last else []
    return [["step", "", "reason"]] + [[str(e["step"]), e["kind"], e["text"]] for e in events]


def _importance(session: Session) -> list[list[str]]:
    assert session.learner.how is not None
    found = layer_importance(session.learner.how.importance)
    total = sum(found.values()) or 1.0
    return [["layer", "share"], *([name, f"{value / total:.1%}"] for name, value in found.items())]


def _hardest(session: Session, count: int) -> list[list[str]]:
    inputs, which = session.inputs, session.learner.which
    assert which is not None
    rows = [["target", "loss", "row"]]
    held: Any = which
    for at in hardest_samples(which.losses, count):
        text = "an image"
        if isinstance(inputs, TableEncoder):
            values = inputs.decode(held.inputs[at])
            text = ", ".join(f"{name} {value}" for name, value in values.items())
        target = session.targets.describe(held.targets[at])
        rows.append([target, f"{float(which.losses[at]):.3f}", text])
    return rows
