"""Dicts of tensors as inputs: keywords of `forward`, or its one argument."""

import pytest
import torch
from torch import nn

from taskfree import Learner
from taskfree._core import batch
from taskfree.how import Teacher
from taskfree.which import Reservoir


class Keywords(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.speed = nn.Linear(4, 2), nn.Linear(1, 2)

    def forward(self, image, speed):
        return self.image(image) + self.speed(speed)


class AnyKeywords(Keywords):
    def forward(self, **inputs):
        return super().forward(**inputs)


class OneArgument(Keywords):
    def forward(self, inputs):
        return super().forward(inputs["image"], inputs["speed"])


@pytest.mark.parametrize("kind", [Keywords, AnyKeywords, OneArgument])
def test_a_model_takes_a_dict_in_its_own_way(kind):
    torch.manual_seed(0)
    model = kind()
    learner = Learner(
        model, torch.optim.SGD(model.parameters(), lr=0.1), which=Reservoir(20), how=Teacher(),
        loss=nn.CrossEntropyLoss(reduction="none"),
    )  # fmt: skip
    for _ in range(10):
        image, speed = torch.randn(6, 4), torch.randn(6, 1)
        learner.learn({"image": image, "speed": speed}, (image[:, 0] > 0).long())
    outputs = learner.predict({"speed": speed, "image": image})
    with torch.no_grad():
        found = batch.call(learner.how.network, {"image": image, "speed": speed})
    assert torch.equal(outputs, found)


def test_what_fits_neither_way_says_what_forward_takes():
    with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
        batch.call(Keywords(), {"image": torch.ones(1, 4), "depth": torch.ones(1, 1)})
