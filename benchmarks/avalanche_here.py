"""Avalanche on a machine for which there is no torchvision: `avalanche_here.py SCRIPT` runs one.

Avalanche imports torchvision for its datasets, and torchvision's wheel may want a CUDA build of
torch. No vision operator runs here, so the two operators that torchvision's Python code registers
against are declared without an implementation before the import, and so is wandb, a logger that is
not used.
"""

from __future__ import annotations

import importlib.machinery
import runpy
import sys
import types
import warnings

import torch


def prepare() -> None:
    """Declare what is missing."""
    global operators  # they are there as long as this is
    operators = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        operators.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    logger = types.ModuleType("wandb")
    logger.__spec__ = importlib.machinery.ModuleSpec("wandb", None)
    sys.modules.setdefault("wandb", logger)
    warnings.showwarning = lambda *_, **__: None  # it warns of its own deprecations at every step


if __name__ == "__main__":
    torch.set_num_threads(1)
    prepare()
    runpy.run_path(sys.argv[1], run_name="__main__")
