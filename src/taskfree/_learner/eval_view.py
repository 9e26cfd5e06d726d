"""A model in eval mode, without switching the model itself."""

from __future__ import annotations

import copy
from types import MethodType

from torch import nn

from taskfree._core.model import unwrap

STRUCTURE = ("training", "_parameters", "_buffers", "_modules")
"""What a module holds besides plain attributes."""


class EvalView:
    """A model as it is now, in eval mode: parameters and attributes are shared, buffers copied.

    The model itself is never switched to another mode, so that it can be used at any moment.

    >>> model = nn.Sequential(nn.Linear(1, 1), nn.Dropout())
    >>> view = EvalView(model).refresh()
    >>> view[0].weight is model[0].weight, view.training, model.training
    (True, False, True)
    """

    def __init__(self, model: nn.Module) -> None:
        self._model, self._pairs = model, list[tuple[nn.Module, nn.Module]]()

    def refresh(self) -> nn.Module:
        """The view, with the attributes and buffers that the model has now."""
        model = unwrap(self._model)
        if [id(module) for module in model.modules()] != [id(module) for module, _ in self._pairs]:
            shared = {id(value): value for value in model.parameters()}
            view = copy.deepcopy(model, shared).eval()
            self._pairs = list(zip(model.modules(), view.modules(), strict=True))
        for module, view in self._pairs:
            own = vars(view)
            for name, value in vars(module).items():
                bound = isinstance(value, MethodType)  # to the model: the view has its own
                if name not in STRUCTURE and own.get(name) is not value and not bound:
                    own[name] = value
            view._parameters.update(module._parameters)
            for name, tensor in module._buffers.items():
                view._buffers[name] = None if tensor is None else tensor.clone()
        return self._pairs[0][1]
