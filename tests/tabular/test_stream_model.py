import pytest
import torch
from torch import nn

from taskfree.tabular import networks
from taskfree.tabular.model import StreamModel
from taskfree.tabular.options import Options

X = torch.tensor([[-1.0, 0.0], [1.0, 0.0]])


def test_nothing_is_predicted_before_a_class_is_known():
    model = StreamModel("classification", networks.mlp, inputs=2)
    assert model.predict(X).tolist() == [-1, -1]


def test_the_output_layer_grows_with_the_classes():
    model = StreamModel("classification", networks.mlp, inputs=2)
    for names in (["a", "b"], ["c", "a"]):
        model.learn(X, model.targets.encode(names))
    assert model.learner.model[-1].out_features == 3
    assert model.probabilities(X).sum(1).tolist() == pytest.approx([1, 1])


def test_numbers_are_predicted_in_their_units():
    model = StreamModel("regression", networks.mlp, inputs=2)
    for _ in range(200):
        model.learn(X, model.targets.encode([1000.0, 3000.0]))
    assert model.predict(X).tolist() == pytest.approx([1000, 3000], abs=100)


def test_without_buffer_and_strength_nothing_is_kept():
    options = Options(buffer_size=0, strength=0.0)
    model = StreamModel("classification", networks.mlp, inputs=2, options=options)
    assert model.learner.which is None
    assert model.learner.how is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (nn.Linear(2, 2), "model must be a function that creates a network"),
        (lambda inputs, outputs: nn.LayerNorm(inputs), "model has no linear layer"),
    ],
)
def test_a_network_that_cannot_grow_is_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        StreamModel("classification", make, inputs=2)
