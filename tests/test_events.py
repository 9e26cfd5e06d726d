"""What the learner did and why is told: to the program, to a file, to TensorBoard."""

import io
import json
import math

import numpy as np
import pytest
import torch
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

from taskfree import MAS, Every, Hardest, Learner, Plateau, checkpoint
from taskfree.events import JSONLines, TensorBoard
from taskfree.pictures import as_picture


def make(**options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2))
    options = {
        "when": Plateau(window=4, mean=0.7, variance=0.2), "which": Hardest(8), "how": MAS(1.0),
    } | options  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return Learner(model, optimizer, loss=nn.CrossEntropyLoss(reduction="none"), **options)


def stream(steps=150, start=0):
    """The question changes at step 50 and at step 100."""
    generator = torch.Generator().manual_seed(5)
    for step in range(steps):
        x = torch.randn(6, 2, generator=generator)
        answer = x[:, step // 50 % 2] > 0
        if step >= start:
            yield x, (answer if step < 100 else ~answer).long()


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


def test_an_event_holds_the_numbers_it_was_decided_on():
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
            assert f"mean of {event.window_mean:.3g}, below 0.7" in event.text
            level = event.window_mean + math.sqrt(event.window_variance)
            # those that the importance was estimated on
            assert event.buffer == {str(y): int((held == y).sum()) for y in (0, 1)}
        else:
            assert event.thresholds == {"mean": pytest.approx(level)}
            assert f"above {level:.3g}" in event.text
        for layer in ("0", "2"):
            values = [v for k, v in learner.how.importance.items() if k.startswith(layer)]
            assert event.importance[layer] == pytest.approx(sum(v.sum().item() for v in values))


def test_what_is_not_there_is_not_told():
    learner = make(which=None, how=None, when=Every(3))
    event = [learner.learn(x, y).event for x, y in stream(3)][-1]
    assert (event.kind, event.consolidated) == ("plateau", False)
    assert (event.buffer, event.importance, event.thresholds) == ({}, {}, {})
    assert event.text == "3 of 3 time steps have passed"
    assert json.loads(event.as_json())["window_mean"] is None


def test_targets_that_are_no_labels_are_not_counted():
    model = nn.Linear(2, 1)
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.1), when=Every(4),
        loss=lambda out, y: (out[:, 0] - y) ** 2,
    )  # fmt: skip
    events = [learner.learn(x, y.float()).event for x, y in stream(4)]
    assert events[-1].buffer == {}


def test_the_file_holds_every_event(tmp_path):
    learner, keep = make(), JSONLines(tmp_path / "run" / "events.jsonl")
    events = []
    for x, y in stream():
        report = learner.learn(x, y)
        keep(report)
        events += [report.event] if report.event else []
    lines = [json.loads(line) for line in keep.path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [event.step for event in events]
    assert [line["text"] for line in lines] == [event.text for event in events]
    assert lines[0]["importance"].keys() == {"0", "2"}


def test_the_file_goes_on_where_the_checkpoint_was_made(tmp_path):
    def run(folder, upto, start=0):
        learner, keep = make(), JSONLines(folder / "events.jsonl")
        checkpoint.resume(folder / "state", learner=learner, events=keep)
        assert learner.step == start
        for x, y in stream(upto, start):
            keep(learner.learn(x, y))
            if learner.step == 60:
                checkpoint.save(folder / "state", learner=learner, events=keep)
        return keep.path.read_bytes()

    straight = run(tmp_path / "straight", 150)
    broken = run(tmp_path / "broken", 130)  # 70 steps after the checkpoint are lost
    assert 0 < len(broken) < len(straight)
    assert run(tmp_path / "broken", 150, start=60) == straight


def test_tensorboard_shows_losses_and_events(tmp_path):
    learner, show = make(), TensorBoard(tmp_path, every=10)
    events = []
    for x, y in stream():
        report = learner.learn(x, y)
        show(report)
        events += [report.event] if report.event else []
    show.close()
    shown = EventAccumulator(str(tmp_path))
    shown.Reload()
    assert [point.step for point in shown.Scalars("learner/loss")] == list(range(10, 151, 10))
    plateaus = [event for event in events if event.kind == "plateau"]
    points = shown.Scalars("plateau/window_mean")
    assert [point.step for point in points] == [event.step for event in plateaus]
    assert points[0].value == pytest.approx(plateaus[0].window_mean)
    last = shown.Scalars("importance/2")[-1]
    assert last.value == pytest.approx(events[-1].importance["2"], rel=1e-5)
    text = shown.Tensors("peak/text_summary")
    assert len(text) == sum(event.kind == "peak" for event in events)


def test_tensorboard_shows_importance_and_the_hardest_pictures(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.1), loss=nn.CrossEntropyLoss(reduction="none"),
        when=Every(5), which=Hardest(6), how=MAS(1.0),
    )  # fmt: skip
    show = TensorBoard(tmp_path, learner=learner)
    for _ in range(10):
        show(learner.learn(torch.randn(4, 1, 8, 8), torch.randint(2, (4,))))
    show.close()
    shown = EventAccumulator(str(tmp_path), {"histograms": 0, "images": 0})
    shown.Reload()
    histograms = shown.Histograms("importance_log10/1.weight")
    assert [one.step for one in histograms] == [5, 10]
    powers = learner.how.importance["1.weight"].double().log10()
    last = histograms[-1].histogram_value
    assert last.num == powers.numel()
    assert last.min == pytest.approx(powers.min().item())
    assert last.max == pytest.approx(powers.max().item())
    pictures = shown.Images("buffer/hardest")
    assert [one.step for one in pictures] == [5, 10]
    picture = np.array(Image.open(io.BytesIO(pictures[-1].encoded_image_string)))
    assert picture.shape[2] == 3
    own = as_picture(learner.which.inputs[learner.which.losses.argmax()]).numpy()
    assert np.array_equal(picture[:8, :8, 0], own), "the hardest comes first"


def test_tensorboard_shows_no_pictures_where_there_are_none(tmp_path):
    learner = make()
    show = TensorBoard(tmp_path, learner=learner)
    for x, y in stream():
        show(learner.learn(x, y))
    show.close()
    shown = EventAccumulator(str(tmp_path))
    shown.Reload()
    assert "importance_log10/0.weight" in shown.Tags()["histograms"]
    assert shown.Tags()["images"] == []
