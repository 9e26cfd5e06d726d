"""Avalanche without a matching torchvision: `avalanche_here.py SCRIPT` runs a script.

Avalanche imports torchvision for its datasets, and torchvision's wheel may require a CUDA build of
torch. No vision operator runs here. So the two operators that torchvision's Python code needs are
declared before the import, without an implementation. wandb, a logger that is not used, is replaced
by an empty module.
"""

from __future__ import annotations

import importlib.machinery
import runpy
import sys
import types
import warnings

import torch

_LIBRARIES: list[torch.library.Library] = []
"""Operators exist as long as their library does."""


def prepare() -> None:
    """Declare the missing operators and modules."""
    operators = torch.library.Library("torchvision", "DEF")
    _LIBRARIES.append(operators)
    for name in ("nms", "qnms"):
        operators.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    logger = types.ModuleType("wandb")
    logger.__spec__ = importlib.machinery.ModuleSpec("wandb", None)
    sys.modules.setdefault("wandb", logger)
    warnings.showwarning = lambda *_, **__: None  # deprecation warnings of its own at every step


if __name__ == "__main__":
    torch.set_num_threads(1)
    prepare()
    runpy.run_path(sys.argv[1], run_name="__main__")
