"""Learn Fashion-MNIST two classes at a time, with a log for `taskfree watch run`."""

import sys

import torch
from torch import nn

from taskfree import Learner
from taskfree.observe.log import Log
from taskfree.paper.streams import fashion
from taskfree.which import Reservoir

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
names = ["t-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag",
         "boot"]  # fmt: skip
torch.manual_seed(0)
images, labels = fashion.load(fashion.find())
tests, answers = fashion.load(fashion.find(), "t10k")
tests, answers = tests[:1000].float() / 255, answers[:1000]
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
learner = Learner(
    model, optimizer, loss=nn.CrossEntropyLoss(reduction="none"),
    which=Reservoir(200),  # old classes do not return: keep samples of each
)  # fmt: skip
log = Log("run", learner, name=lambda label: names[label])
for step in range(steps):
    first = 2 * (step * 5 // steps)  # classes 0 and 1, then 2 and 3, ...
    chosen = ((labels == first) | (labels == first + 1)).nonzero().flatten()
    rows = chosen[torch.randint(len(chosen), (32,))]
    report = learner.learn(images[rows].float() / 255, labels[rows])
    metrics = {}
    if step % 10 == 0:
        correct = (learner.predict(tests).argmax(1) == answers).float()
        seen = range(first + 2)
        by_class = {names[at]: correct[answers == at].mean().item() for at in seen}
        metrics = {"accuracy": sum(by_class.values()) / len(by_class), "by class": by_class}
    log(report, **metrics)
print(f"{learner.step} steps logged in run")
