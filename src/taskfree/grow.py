"""Growing outputs and inputs: new classes and features may come, and nothing learned is lost."""

from __future__ import annotations

import re
from operator import gt

import torch
from torch import Tensor, nn
from torch.optim import LBFGS

from taskfree._core import validation
from taskfree._core.model import unwrap
from taskfree._core.serialization import pack, unpack
from taskfree.how import Regularizer
from taskfree.learner import Learner

__all__ = ["fit", "grow", "widen"]

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
    head = _linear(unwrap(learner.model), layer, last=True)
    validation.integer("outputs", outputs, least=head.out_features)
    if outputs > head.out_features:
        _resize(learner, head, {"weight": (outputs, head.in_features), "bias": (outputs,)})
        head.out_features = outputs


@torch.no_grad()
def widen(learner: Learner, inputs: int, layer: str | None = None, fill: float = 0.0) -> None:
    """Let a learner's first linear layer take `inputs` inputs, keeping everything learned.

    The weights of new inputs start at 0, with importance 0: nothing that was learned changes. The
    samples in the buffer get the new inputs with the value `fill`. On several ranks, call it on all
    of them.

    Args:
        learner: the learner whose model grows; its inputs are rows of numbers.
        inputs: the new number of inputs; fewer than there are is an error.
        layer: the name of the input layer; by default the first linear one.
        fill: the value of the new inputs in the samples that are held.

    >>> model = nn.Linear(3, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> learner = Learner(model, optimizer, loss=nn.CrossEntropyLoss(reduction="none"))
    >>> report = learner.learn(torch.ones(4, 3), torch.zeros(4).long())
    >>> before = learner.predict(torch.ones(1, 3))
    >>> widen(learner, 5)
    >>> torch.equal(learner.predict(torch.ones(1, 5)), before), learner.which.inputs.shape
    (True, torch.Size([4, 5]))
    """
    first = _linear(unwrap(learner.model), layer, last=False)
    validation.integer("inputs", inputs, least=first.in_features)
    if inputs == first.in_features:
        return
    held = None if learner.which is None else unpack(learner.which.state_dict())
    if held and not (isinstance(held["inputs"], Tensor) and held["inputs"].dim() == 2):
        raise ValueError("the buffer holds inputs that are not rows of numbers; they cannot grow")
    _resize(learner, first, {"weight": (first.out_features, inputs)})
    first.in_features = inputs
    if learner.which is not None and held:
        more = inputs - held["inputs"].shape[1]
        held["inputs"] = nn.functional.pad(held["inputs"], (0, more), value=fill)
        learner.which.load_state_dict(pack(held))


def _resize(learner: Learner, layer: nn.Linear, shapes: dict[str, tuple[int, ...]]) -> None:
    """Let a layer's parameters have these larger shapes; new elements are 0."""
    if isinstance(learner.optimizer, LBFGS):
        raise ValueError("LBFGS keeps its history in one flat vector, which cannot grow")
    for short, old in layer.named_parameters(recurse=False):
        if short in shapes:
            more = _padded(old, shapes[short])
            _grow_optimizer(learner.optimizer, old, shapes[short])
            old.grad = None
            old.data = more  # the same object, so that everything that holds it sees it grow
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


def _linear(model: nn.Module, layer: str | None, *, last: bool) -> nn.Linear:
    """The output layer, or the input layer."""
    linear = {name: m for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    if layer is not None and layer not in linear:
        raise ValueError(
            f"layer must be the name of a linear layer of the model, got {layer!r}; there is "
            f"{', '.join(map(repr, linear)) or 'none'}"
        )
    if not linear:
        raise ValueError(
            f"the model has no linear layer whose {'outputs' if last else 'inputs'} could grow"
        )
    return linear[layer] if layer is not None else list(linear.values())[-1 if last else 0]


def _padded(value: Tensor, shape: tuple[int, ...], fill: float = 0.0) -> Tensor:
    more = value.new_full(shape, fill)
    more[tuple(slice(size) for size in value.shape)] = value
    return more


def _grow_optimizer(
    optimizer: torch.optim.Optimizer, parameter: Tensor, shape: tuple[int, ...]
) -> None:
    """Extend the optimizer's per-element state of a parameter to its new shape."""
    group = next(
        (g for g in optimizer.param_groups if any(p is parameter for p in g["params"])), None
    )
    if group is None:
        return
    fills = {"step_size": float(group["lr"]), "sum": group.get("initial_accumulator_value", 0.0)}
    state = optimizer.state[parameter]
    for key, value in state.items():
        if isinstance(value, Tensor) and value.shape == parameter.shape:
            state[key] = _padded(value, shape, fills.get(key, 0.0))
