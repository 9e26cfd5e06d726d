"""`taskfree export`: the learned network for other programs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from taskfree.tabular import export
from taskfree.tabular.session import Session


@dataclass(frozen=True)
class Export:
    """Write the learned network as an ONNX file, for programs that have no PyTorch.

    It takes rows of numbers: the inputs that its metadata list by name, nan for what a row does not
    have. Standardization is inside. It returns the probability of each class, or the value.

        taskfree export prices --onnx prices.onnx
    """

    state: Annotated[Path, tyro.conf.Positional]
    """the folder in which taskfree learn kept everything"""
    onnx: Path
    """the file to write"""


def run(command: Export) -> None:
    """Write the file."""
    about = export.to_onnx(Session(command.state, reading=True), command.onnx)
    what = f"{len(about['classes'])} classes" if "classes" in about else "a value"
    print(  # noqa: T201 - the answer
        f"taskfree: {command.onnx} takes {len(about['inputs'])} inputs and returns {what}",
        file=sys.stderr,
    )
