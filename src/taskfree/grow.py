"""A head that grows: new classes may come at any time, and nothing that is known is lost."""

from __future__ import annotations

from collections.abc import Mapping
from operator import gt
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import LBFGS

from taskfree import arguments
from taskfree.how import Importance
from taskfree.importance import unwrapped
from taskfree.learner import Learner

__all__ = ["fit", "grow"]


@torch.no_grad()
def grow(learner: Learner, outputs: int, layer: str | None = None) -> None:
    """Give a learner's last linear layer so many outputs, and keep all that is known.

    The new outputs begin at 0 with an importance of 0: what the others answer does not change, and
    they are free to learn. The optimizer's state, the importance and the anchor of the others stay.
    On several ranks, call it on all of them.

    Args:
        learner: the one whose model grows.
        outputs: how many there will be; fewer than there are is an error.
        layer: the name of the layer that gives the outputs; the last linear one if not said.

    >>> model = nn.Linear(3, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> learner = Learner(model, optimizer, loss=nn.CrossEntropyLoss(reduction="none"))
    >>> before = learner.predict(torch.ones(1, 3))
    >>> grow(learner, 4)
    >>> after = learner.predict(torch.ones(1, 3))
    >>> torch.equal(after[:, :2], before), after[:, 2:]
    (True, tensor([[0., 0.]]))
    """
    name, head = _head(unwrapped(learner.model), layer)
    arguments.whole("outputs", outputs, least=head.out_features)
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
        old.data = more  # the same parameter, so that everyone who holds it sees it grow
    head.out_features = outputs
    if learner.how is not None:
        importance, anchor = learner.how.importance, learner.how.anchor
        learner.how.importance = _all_longer(importance, new, outputs)
        learner.how.anchor = _all_longer(anchor, new, outputs)


@torch.no_grad()
def fit(how: Importance, model: nn.Module) -> None:
    """Make what is known fit a model some of whose layers were replaced by larger ones.

    As other libraries do it. What is new has an importance of 0; what was known keeps its own.

    >>> from taskfree.how import MAS
    >>> how = MAS(1.0)
    >>> how.consolidate(nn.Linear(3, 2), torch.ones(1, 3))
    >>> fit(how, nn.Linear(3, 4))
    >>> how.importance["weight"].shape, float(how.importance["weight"][2:].sum())
    (torch.Size([4, 3]), 0.0)
    """
    state = dict(how.state_dict())
    for name, parameter in unwrapped(model).named_parameters():
        for key in (f"importance.{name}", f"anchor.{name}"):
            old = state.get(key)
            if old is None or old.shape == parameter.shape:
                continue
            if old.dim() != parameter.dim() or any(map(gt, old.shape, parameter.shape)):
                raise ValueError(
                    f"{name} has become smaller, {list(parameter.shape)} after {list(old.shape)}; "
                    "what is known of it has no place any more"
                )
            state[key] = parameter.new_zeros(parameter.shape)
            state[key][tuple(slice(size) for size in old.shape)] = old
    how.load_state_dict(state)  # also where no shape has changed: parameters may be others


def _head(model: nn.Module, layer: str | None) -> tuple[str, nn.Linear]:
    """The layer that gives the outputs."""
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


def _all_longer(
    tensors: Mapping[str, Tensor], new: Mapping[str, Any], rows: int
) -> dict[str, Tensor]:
    return {name: _longer(value, rows) if name in new else value for name, value in tensors.items()}


def _grow_optimizer(optimizer: torch.optim.Optimizer, parameter: Tensor, rows: int) -> None:
    """What an optimizer keeps for every number of a parameter, for the new ones too."""
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
