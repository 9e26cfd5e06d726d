import json
import math

import numpy as np
import torch
from PIL import Image
from torch import nn

from taskfree import checkpoint
from taskfree.learner import Learner
from taskfree.observe.image import to_image
from taskfree.observe.log import Log
from taskfree.which import Hardest


def learning(folder, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.1),
        loss=nn.CrossEntropyLoss(reduction="none"), which=Hardest(6),
    )  # fmt: skip
    return learner, Log(folder, learner, **options)


def steps(learner, log, count, start=0):
    for step in range(start, start + count):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(8, 1, 8, 8, generator=generator)
        report = learner.learn(x, (x.mean((1, 2, 3)) > 0).long())
        log(report, accuracy=step / 100)
        yield report


def logged_losses(folder):
    return np.fromfile(folder / "losses.f32", "<f4")


def test_the_log_holds_every_loss_every_event_and_the_metrics(tmp_path):
    learner, log = learning(tmp_path, every=10)
    reports = list(steps(learner, log, 150))
    assert np.allclose(logged_losses(tmp_path), [report.window_loss for report in reports])
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [one["step"] for one in events] == [r.step for r in reports if r.event]
    history = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert history[7] == {"step": 8, "accuracy": 0.07}


def test_the_hardest_samples_are_written_as_images_hardest_first(tmp_path):
    learner, log = learning(tmp_path, every=10, name=lambda label: f"<{label}>")
    list(steps(learner, log, 20))
    buffer = json.loads((tmp_path / "buffer.json").read_text())
    assert buffer["step"] == 20
    losses = [one["loss"] for one in buffer["samples"]]
    assert losses == sorted(losses, reverse=True)
    assert len(buffer["samples"]) == 6
    hardest = int(learner.which.losses.argmax())
    assert buffer["samples"][0]["target"] == f"<{int(learner.which.targets[hardest])}>"
    with Image.open(tmp_path / buffer["samples"][0]["image"]) as image:
        shown = np.array(image)
    assert np.array_equal(shown, to_image(learner.which.inputs[hardest]).numpy())


def test_the_log_of_a_run_continues_from_the_checkpoint(tmp_path):
    learner, log = learning(tmp_path / "whole")
    list(steps(learner, log, 30))
    learner, log = learning(tmp_path / "cut")
    list(steps(learner, log, 12))
    checkpoint.save(tmp_path / "saved", learner=learner, log=log)
    list(steps(learner, log, 9, start=12))  # lost
    learner, log = learning(tmp_path / "cut")
    checkpoint.resume(tmp_path / "saved", learner=learner, log=log)
    list(steps(learner, log, 18, start=12))
    for name in ("losses.f32", "history.jsonl"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_log_without_a_buffer_and_with_inputs_that_are_not_images(tmp_path):
    model = nn.Linear(3, 1)
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.1),
        loss=lambda outputs, targets: (outputs - targets).square().sum(1), which=Hardest(4),
    )  # fmt: skip
    log = Log(tmp_path, learner, every=1)
    log(learner.learn(torch.randn(5, 3), torch.randn(5, 1)))
    samples = json.loads((tmp_path / "buffer.json").read_text())["samples"]
    assert all("image" not in one for one in samples)
    assert not math.isnan(float(samples[0]["target"]))
    learner.which = None
    log(learner.learn(torch.randn(5, 3), torch.randn(5, 1)))


def test_a_function_for_images_replaces_the_default(tmp_path):
    learner, log = learning(tmp_path, every=1, image=lambda x: (x[0] > 0).byte() * 255)
    list(steps(learner, log, 1))
    sample = json.loads((tmp_path / "buffer.json").read_text())["samples"][0]
    with Image.open(tmp_path / sample["image"]) as image:
        shown = np.array(image)
    hardest = learner.which.inputs[learner.which.losses.argmax()]
    assert np.array_equal(shown, (hardest[0] > 0).numpy() * 255)


def test_a_cleared_log_is_empty(tmp_path):
    learner, log = learning(tmp_path, every=10)
    list(steps(learner, log, 12))
    log.clear()
    assert log.state_dict() == {
        "losses": 0, "events": {"length": 0}, "history": {"length": 0},
    }  # fmt: skip
    list(steps(learner, log, 3))
    assert len(logged_losses(tmp_path)) == 3
