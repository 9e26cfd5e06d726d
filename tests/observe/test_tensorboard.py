"""Losses, events, importance and images on TensorBoard."""

import io
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

from observed import make, stream
from taskfree import MAS, Every, Hardest, Learner
from taskfree.observe.image import to_image
from taskfree.observe.tensorboard import TensorBoard


def test_tensorboard_shows_losses_and_events(tmp_path):
    learner, board = make(), TensorBoard(tmp_path, every=10)
    events = []
    for x, y in stream():
        report = learner.learn(x, y)
        board(report)
        events += [report.event] if report.event else []
    board.close()
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


def test_tensorboard_shows_importance_and_the_hardest_images(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.1), loss=nn.CrossEntropyLoss(reduction="none"),
        when=Every(5), which=Hardest(6), how=MAS(1.0),
    )  # fmt: skip
    board = TensorBoard(tmp_path, learner=learner)
    for _ in range(10):
        board(learner.learn(torch.randn(4, 1, 8, 8), torch.randint(2, (4,))))
    board.close()
    shown = EventAccumulator(str(tmp_path), {"histograms": 0, "images": 0})
    shown.Reload()
    histograms = shown.Histograms("importance_log10/1.weight")
    assert [one.step for one in histograms] == [5, 10]
    powers = learner.how.importance["1.weight"].double().log10()
    last = histograms[-1].histogram_value
    assert last.num == powers.numel()
    assert last.min == pytest.approx(powers.min().item())
    assert last.max == pytest.approx(powers.max().item())
    images = shown.Images("buffer/hardest")
    assert [one.step for one in images] == [5, 10]
    image = np.array(Image.open(io.BytesIO(images[-1].encoded_image_string)))
    assert image.shape[2] == 3
    own = to_image(learner.which.inputs[learner.which.losses.argmax()]).numpy()
    assert np.array_equal(image[:8, :8, 0], own), "the hardest comes first"


def test_tensorboard_shows_no_images_if_inputs_are_not_images(tmp_path):
    learner = make()
    board = TensorBoard(tmp_path, learner=learner)
    for x, y in stream():
        board(learner.learn(x, y))
    board.close()
    shown = EventAccumulator(str(tmp_path))
    shown.Reload()
    assert "importance_log10/0.weight" in shown.Tags()["histograms"]
    assert shown.Tags()["images"] == []


def test_without_tensorboard_the_error_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ImportError, match=r"pip install 'taskfree\[tensorboard\]'"):
        TensorBoard(tmp_path)
