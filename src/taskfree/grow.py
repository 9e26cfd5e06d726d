"""Growing outputs: new classes may come at any time, and nothing learned is lost."""

from __future__ import annotations

import re
from operator import gt

import torch
from torch import Tensor, nn
from torch.optim import LBFGS

from taskfree._core import validation
from taskfree._core.model import unwrap
from taskfree.how import Regularizer
from taskfree.learner import Learner

__all__ = ["fit", "grow"]

OF_PARAMETERS = re.compile(r"(\d+\.)?(?P<kind>importance|anchor|average)\.(?P<name>.+)")
"""What a regularizer saves of every parameter."""


@torch.no_grad()
def grow(learner: Learner, outputs: int, layer: str | None = None) -> None:
    """Grow a learner's last linear layer to `outputs` outputs, keeping everything learned.

    New outputs start at 0 with importance 0: they do not change the others and are free to learn.
    The optimizer's state, the importance and the anchor of the others are kept. On several ranks,
    call it on all of them.

    Args:
        learner: the learner whose model grows.
        outputs: the new number of outputs; fewer than there are is an error.
        layer: the name of the output layer; by default the last linear one.

    >>> model = nn.Linear(3, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> learner = Learner(model, optimizer, loss=nn.CrossEntropyLoss(reduction="none"))
    >>> before = learner.predict(torch.ones(1, 3))
    >>> grow(learner, 4)
    >>> after = learner.predict(torch.ones(1, 3))
    >>> torch.equal(after[:, :2], before), after[:, 2:]
    (True, tensor([[0., 0.]]))
    """
    name, head = _head(unwrap(learner.model), layer)
    validation.integer("outputs", outputs, least=head.out_features)
    if outputs == head.out_features:
        return
    if isinstance(learner.optimizer, LBFGS):
        raise ValueError("LBFGS keeps its history in one flat vector, which cannot grow")
    new = {
        f"{name}.{short}".lstrip("."): (value, _longer(value, outputs))
        for short, value in head.named_parameters(recurse=False)
    }
    for old, more in new.values():
        _grow_optimizer(learner.optimizer, old, outputs)
        old.grad = None
        old.data = more  # the same object, so that everything that holds it sees it grow
    head.out_features = outputs
    if learner.how is not None:
        fit(learner.how, learner.model)


@torch.no_grad()
def fit(how: Regularizer, model: nn.Module) -> None:
    """Fit a regularizer to a model whose layers have grown or were replaced by larger ones.

    New parameters get importance 0 and the average 0; the others keep theirs.

    >>> from taskfree.how import MAS
    >>> how = MAS(1.0)
    >>> how.consolidate(nn.Linear(3, 2), torch.ones(1, 3))
    >>> fit(how, nn.Linear(3, 4))
    >>> how.importance["weight"].shape, float(how.importance["weight"][2:].sum())
    (torch.Size([4, 3]), 0.0)
    """
    state = dict(how.state_dict())
    parameters = dict(unwrap(model).named_parameters())
    for key, old in state.items():
        found = OF_PARAMETERS.fullmatch(key)
        parameter = parameters.get(found["name"]) if found else None
        if found is None or parameter is None or old.shape == parameter.shape:
            continue
        if old.dim() != parameter.dim() or any(map(gt, old.shape, parameter.shape)):
            raise ValueError(
                f"{found['name']} has become smaller, {list(parameter.shape)} after "
                f"{list(old.shape)}; its {found['kind']} no longer fits"
            )
        state[key] = parameter.new_zeros(parameter.shape)
        state[key][tuple(slice(size) for size in old.shape)] = old
    how.load_state_dict(state)  # even if no shape has changed: parameters may be new objects


def _head(model: nn.Module, layer: str | None) -> tuple[str, nn.Linear]:
    """The output layer and its name."""
    linear = {name: m for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    if layer is not None and layer not in linear:
        raise ValueError(
            f"layer must be the name of a linear layer of the model, got {layer!r}; there is "
            f"{', '.join(map(repr, linear)) or 'none'}"
        )
    if not linear:
        raise ValueError("the model has no linear layer whose outputs could grow")
    name = list(linear)[-1] if layer is None else layer
    return name, linear[name]


def _longer(value: Tensor, rows: int, fill: float = 0.0) -> Tensor:
    more = value.new_full((rows, *value.shape[1:]), fill)
    more[: value.shape[0]] = value
    return more


def _grow_optimizer(optimizer: torch.optim.Optimizer, parameter: Tensor, rows: int) -> None:
    """Extend the optimizer's per-element state of a parameter to its new rows."""
    group = next(
        (g for g in optimizer.param_groups if any(p is parameter for p in g["params"])), None
    )
    if group is None:
        return
    fills = {"step_size": float(group["lr"]), "sum": group.get("initial_accumulator_value", 0.0)}
    state = optimizer.state[parameter]
    for key, value in state.items():
        if isinstance(value, Tensor) and value.shape == parameter.shape:
            state[key] = _longer(value, rows, fills.get(key, 0.0))
