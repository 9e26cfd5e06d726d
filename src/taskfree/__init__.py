"""taskfree keeps a PyTorch model learning on a live, changing stream without forgetting.

It implements Aljundi, Kelchtermans and Tuytelaars, *Task-Free Continual Learning*, CVPR 2019.
Names are loaded on first use: `import taskfree` alone does not import torch.

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

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from os import PathLike as _PathLike
from typing import TYPE_CHECKING
from typing import Any as _Any

if TYPE_CHECKING:
    from taskfree import checkpoint, how, when, which
    from taskfree._core.errors import (
        CheckpointError,
        DistributedError,
        NotFiniteError,
        TaskfreeError,
    )
    from taskfree._learner.snapshot import Snapshot
    from taskfree.how import MAS, Teacher
    from taskfree.learner import Learner
    from taskfree.observe.advice import Advice
    from taskfree.observe.events import Report
    from taskfree.tabular.learned import LearnedTable
    from taskfree.when import Every, Plateau, Settled
    from taskfree.which import ClassBalanced, Hardest, Recent, Reservoir

__all__ = [
    "MAS",
    "Advice",
    "CheckpointError",
    "ClassBalanced",
    "DistributedError",
    "Every",
    "Hardest",
    "Learner",
    "NotFiniteError",
    "Plateau",
    "Recent",
    "Report",
    "Reservoir",
    "Settled",
    "Snapshot",
    "TaskfreeError",
    "Teacher",
    "checkpoint",
    "how",
    "load",
    "when",
    "which",
]

__version__ = _version("taskfree")

_HOMES = {
    "how": ("MAS", "Teacher"),
    "when": ("Every", "Plateau", "Settled"),
    "which": ("ClassBalanced", "Hardest", "Recent", "Reservoir"),
    "learner": ("Learner",),
    "observe.advice": ("Advice",),
    "observe.events": ("Report",),
    "_learner.snapshot": ("Snapshot",),
    "_core.errors": ("CheckpointError", "DistributedError", "NotFiniteError", "TaskfreeError"),
}


def load(folder: "str | _PathLike[str]") -> "LearnedTable":
    """Open what `taskfree learn` has learned: see `taskfree.tabular.learned.LearnedTable`.

    >>> load("nowhere")
    Traceback (most recent call last):
    ...
    ValueError: nowhere holds nothing that was learned; start with taskfree learn
    """
    from taskfree.tabular import learned

    return learned.load(folder)


def __getattr__(name: str) -> _Any:
    """Import a public name when it is first used."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(_import_module(f"taskfree.{module}"), name)
    if name in __all__:
        return _import_module(f"taskfree.{name}")
    raise AttributeError(f"module 'taskfree' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
