import pytest
import torch

from taskfree.paper.streams import changing


def test_scores():
    assert changing.accuracy(torch.tensor([[1.0, 0], [1, 0]]), torch.tensor([0, 1])) == 0.5
    y = torch.randn(50, 2)
    assert changing.explained(y, y) == 1
    assert changing.explained(torch.zeros(50, 2), y) < 0.1
    assert changing.explained(10 * y, y) == 0


def test_balanced_accuracy_counts_every_class_alike():
    outputs = torch.eye(3)[[0] * 9 + [1]]
    targets = torch.tensor([0] * 8 + [1, 2])
    assert changing.accuracy(outputs, targets) == pytest.approx(0.8)
    assert changing.balanced_accuracy(outputs, targets) == pytest.approx(1 / 3)
