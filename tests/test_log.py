import json
import math
import zlib

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from taskfree import checkpoint
from taskfree.learner import Learner
from taskfree.log import Log
from taskfree.pictures import as_picture, png
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
        chance = torch.Generator().manual_seed(step)
        x = torch.randn(8, 1, 8, 8, generator=chance)
        report = learner.learn(x, (x.mean((1, 2, 3)) > 0).long())
        log(report, accuracy=step / 100)
        yield report


def losses(folder):
    return np.fromfile(folder / "losses.f32", "<f4")


def test_every_step_s_loss_is_kept_and_every_event(tmp_path):
    learner, log = learning(tmp_path, every=10)
    reports = list(steps(learner, log, 150))
    assert np.allclose(losses(tmp_path), [report.window_loss for report in reports])
    told = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [one["step"] for one in told] == [r.step for r in reports if r.event]
    history = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert history[7] == {"step": 8, "accuracy": 0.07}


def test_the_hardest_samples_are_kept_as_pictures_hardest_first(tmp_path):
    learner, log = learning(tmp_path, every=10, name=lambda label: f"<{label}>")
    list(steps(learner, log, 20))
    told = json.loads((tmp_path / "buffer.json").read_text())
    assert told["step"] == 20
    hardness = [one["loss"] for one in told["samples"]]
    assert hardness == sorted(hardness, reverse=True)
    assert len(told["samples"]) == 6
    hardest = int(learner.which.losses.argmax())
    assert told["samples"][0]["target"] == f"<{int(learner.which.targets[hardest])}>"
    with Image.open(tmp_path / told["samples"][0]["picture"]) as picture:
        shown = np.array(picture)
    assert np.array_equal(shown, as_picture(learner.which.inputs[hardest]).numpy())


def test_it_goes_on_where_the_checkpoint_was_made(tmp_path):
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


def test_it_also_works_without_a_buffer_and_with_inputs_that_are_no_pictures(tmp_path):
    model = nn.Linear(3, 1)
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.1),
        loss=lambda outputs, targets: (outputs - targets).square().sum(1), which=Hardest(4),
    )  # fmt: skip
    log = Log(tmp_path, learner, every=1)
    log(learner.learn(torch.randn(5, 3), torch.randn(5, 1)))
    told = json.loads((tmp_path / "buffer.json").read_text())["samples"]
    assert all("picture" not in one for one in told)
    assert not math.isnan(float(told[0]["target"]))
    learner.which = None
    log(learner.learn(torch.randn(5, 3), torch.randn(5, 1)))


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)])
def test_a_png_is_what_others_read(tmp_path, shape):
    picture = torch.randint(0, 256, shape, dtype=torch.uint8)
    (tmp_path / "a.png").write_bytes(png(picture))
    with Image.open(tmp_path / "a.png") as opened:
        assert np.array_equal(np.array(opened), picture.numpy())
    assert zlib.crc32(png(picture)) == zlib.crc32(png(picture.clone()))


def test_what_is_no_picture_is_none():
    for shape in ((7,), (2, 9, 9), (4, 9, 9), (3, 2, 2)):
        assert as_picture(torch.rand(shape)) is None, shape
