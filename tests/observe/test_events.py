"""Reports and events: what the learner did, why, and how it is written to a file."""

import json
import math

import pytest
import torch
from torch import nn

from observed import make, stream
from taskfree import Every, Learner, checkpoint
from taskfree.observe.events import EventLog


def test_every_decision_is_an_event_and_nothing_else_is():
    learner = make()
    reports = [learner.learn(x, y) for x, y in stream()]
    happened = [report for report in reports if report.consolidated or report.peak]
    assert sum(report.peak for report in happened) >= 1
    assert happened == [report for report in reports if report.event is not None]
    for report in happened:
        event = report.event
        assert (event.step, event.kind == "peak") == (report.step, report.peak)
        assert event.consolidated == report.consolidated
        assert event.window_mean == report.window_mean


def test_an_event_holds_the_numbers_of_its_decision():
    learner = make()
    losses, level = [], None
    for x, y in stream():
        held = learner.which.targets.clone() if len(learner.which) else torch.empty(0)
        report = learner.learn(x, y)
        losses.append(report.window_loss)
        event = report.event
        if event is None:
            continue
        window = torch.tensor(losses[-4:], dtype=torch.float64)
        assert event.window_mean == pytest.approx(window.mean().item())
        assert event.window_variance == pytest.approx(window.var(correction=0).item())
        if event.kind == "plateau":
            assert event.thresholds == {"mean": 0.7, "variance": 0.2}
            assert f"mean {event.window_mean:.3g} (below 0.7)" in event.text
            level = event.window_mean + math.sqrt(event.window_variance)
            # the samples that the importance was estimated on
            assert event.buffer == {str(y): int((held == y).sum()) for y in (0, 1)}
        else:
            assert event.thresholds == {"mean": pytest.approx(level)}
            assert f"(above {level:.3g}:" in event.text
        for layer in ("0", "2"):
            values = [v for k, v in learner.how.importance.items() if k.startswith(layer)]
            assert event.importance[layer] == pytest.approx(sum(v.sum().item() for v in values))


def test_an_event_without_buffer_regularizer_and_window():
    learner = make(which=None, how=None, when=Every(3))
    event = [learner.learn(x, y).event for x, y in stream(3)][-1]
    assert (event.kind, event.consolidated) == ("plateau", False)
    assert (event.buffer, event.importance, event.thresholds) == ({}, {}, {})
    assert event.text == "3 of 3 time steps have passed"
    assert json.loads(event.as_json())["window_mean"] is None


def test_targets_that_are_not_labels_are_not_counted():
    model = nn.Linear(2, 1)
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.1), when=Every(4),
        loss=lambda out, y: (out[:, 0] - y) ** 2,
    )  # fmt: skip
    events = [learner.learn(x, y.float()).event for x, y in stream(4)]
    assert events[-1].buffer == {}


def test_the_log_holds_every_event(tmp_path):
    learner, log = make(), EventLog(tmp_path / "run" / "events.jsonl")
    events = []
    for x, y in stream():
        report = learner.learn(x, y)
        log(report)
        events += [report.event] if report.event else []
    lines = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [event.step for event in events]
    assert [line["text"] for line in lines] == [event.text for event in events]
    assert lines[0]["importance"].keys() == {"0", "2"}


def test_the_log_continues_from_the_checkpoint(tmp_path):
    def run(folder, steps, start=0):
        learner, log = make(), EventLog(folder / "events.jsonl")
        checkpoint.resume(folder / "state", learner=learner, events=log)
        assert learner.step == start
        for x, y in stream(steps, start):
            log(learner.learn(x, y))
            if learner.step == 60:
                checkpoint.save(folder / "state", learner=learner, events=log)
        return log.path.read_bytes()

    straight = run(tmp_path / "straight", 150)
    broken = run(tmp_path / "broken", 130)  # 70 steps after the checkpoint are lost
    assert 0 < len(broken) < len(straight)
    assert run(tmp_path / "broken", 150, start=60) == straight
