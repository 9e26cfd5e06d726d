"""taskfree keeps a PyTorch model learning on a live, changing stream without forgetting.

It implements Aljundi, Kelchtermans and Tuytelaars, *Task-Free Continual Learning*, CVPR 2019.

>>> import torch, taskfree
>>> model = torch.nn.Linear(2, 1)
>>> learner = taskfree.Learner(
...     model,
...     torch.optim.SGD(model.parameters(), lr=0.1),
...     loss=lambda outputs, targets: (outputs[:, 0] - targets) ** 2,
...     when=taskfree.Plateau(window=5, mean=0.2, variance=0.1),
...     which=taskfree.Hardest(30),
...     how=taskfree.MAS(strength=0.5),
... )
>>> learner.learn(torch.zeros(4, 2), torch.zeros(4)).step
1
"""

from importlib.metadata import version as _version

from taskfree import checkpoint, events, how, importance, when, which
from taskfree.advice import Advice
from taskfree.guards import NotFiniteError
from taskfree.how import MAS
from taskfree.learner import Learner, Report
from taskfree.when import At, Every, Never, Plateau, RelativePlateau, Settled
from taskfree.which import Hardest, Recent, Reservoir

__all__ = [
    "MAS",
    "Advice",
    "At",
    "Every",
    "Hardest",
    "Learner",
    "Never",
    "NotFiniteError",
    "Plateau",
    "Recent",
    "RelativePlateau",
    "Report",
    "Reservoir",
    "Settled",
    "checkpoint",
    "events",
    "how",
    "importance",
    "when",
    "which",
]

__version__ = _version("taskfree")
