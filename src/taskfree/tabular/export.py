"""The learned network in ONNX, with everything around it: numbers in, probabilities out."""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from taskfree.tabular.encoders import TableEncoder
from taskfree.tabular.scaler import LIMIT
from taskfree.tabular.session import Session
from taskfree.tabular.targets import RegressionTarget

__all__ = ["StandaloneNetwork", "to_onnx"]


class StandaloneNetwork(nn.Module):
    """A learned network with the standardization of its inputs and the meaning of its outputs.

    It takes one row of numbers per row: what `TableEncoder.describe` lists, nan for what a row does
    not have. It returns probabilities of the classes, or values.

    Args:
        session: what was learned.
    """

    shift: Tensor
    rate: Tensor
    scale: Tensor

    def __init__(self, session: Session) -> None:
        super().__init__()
        if not isinstance(session.inputs, TableEncoder):
            raise ValueError(
                "a network for images takes pixels; export it with torch.onnx yourself"
            )
        snapshot = session.learner.snapshot()
        self.networks = nn.ModuleList(snapshot.networks)
        about = session.inputs.describe()
        self.register_buffer("shift", torch.tensor([one[1] for one in about]).double())
        self.register_buffer("rate", 1 / torch.tensor([one[2] for one in about]).double())
        targets = session.targets
        self.classes = 0
        scale = torch.tensor([0.0, 1.0])
        if isinstance(targets, RegressionTarget):
            scale = torch.tensor([float(targets.scaler.mean), float(targets.scaler.std)])
        else:
            self.classes = len(targets.names)
        self.register_buffer("scale", scale)

    def forward(self, inputs: Tensor) -> Tensor:
        """Probabilities, one column for each class, or values."""
        seen = ((inputs - self.shift) * self.rate).clamp(-LIMIT, LIMIT)
        seen = torch.where(inputs.isnan(), torch.zeros_like(seen), seen).float()
        outputs = torch.stack([network(seen) for network in self.networks]).mean(0)
        if self.classes:
            return outputs[:, : self.classes].softmax(1)
        return outputs[:, 0] * self.scale[1] + self.scale[0]


def to_onnx(session: Session, file: Path) -> dict[str, Any]:
    """Write the network as an ONNX file; return its description, which it holds too."""
    import_module("onnxscript")  # what torch says of it when it is missing is long
    network = StandaloneNetwork(session).eval()
    about = session.describe_network()
    rows = torch.zeros(2, len(about["inputs"]), dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about itself
        program = torch.onnx.export(
            network, (rows,), dynamo=True, dynamic_shapes=({0: torch.export.Dim("rows")},),
            input_names=["inputs"], output_names=["outputs"], verbose=False,
        )  # fmt: skip
    if program is None:
        raise RuntimeError("torch.onnx has exported nothing")
    program.model.metadata_props["taskfree"] = json.dumps(about)
    program.save(file, external_data=False)
    return about
