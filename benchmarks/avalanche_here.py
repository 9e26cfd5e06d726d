"""Avalanche without a matching torchvision: `avalanche_here.py SCRIPT` runs a script."""

from __future__ import annotations

import runpy
import sys

import torch

from taskfree.paper.methods.peers import prepare

__all__ = ["prepare"]

if __name__ == "__main__":
    torch.set_num_threads(1)
    prepare()
    runpy.run_path(sys.argv[1], run_name="__main__")
