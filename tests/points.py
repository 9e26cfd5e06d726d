"""A table of points for `taskfree learn`, and what a run leaves in its folder."""

import csv
import random

import torch

from taskfree import checkpoint
from taskfree.cli import main


def write(file, rows=1500, seed=0, labels=("low", "high"), bad=()):
    """Points whose label says on which side of a line they are; the line turns half way."""
    draw = random.Random(seed)
    with open(file, "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["x", "y", "colour", "label"])
        for row in range(rows):
            x, y = draw.gauss(5, 2), draw.gauss(-3, 1)
            high = (x - 5) / 2 + (y + 3 if row < rows // 2 else 0) > 0
            label = labels[int(high) % len(labels)]
            colour = draw.choice(["red", "green"])
            writer.writerow(["inf" if row in bad else f"{x:.5f}", f"{y:.5f}", colour, label])
    return file


def learn(*options):
    """Run `taskfree learn` in this process; its exit status."""
    try:
        return main(["learn", *map(str, options)])
    except SystemExit as left:  # of the options' parser
        return left.code


def state_of(folder):
    """Everything that learning continues from, and what was logged."""
    found = checkpoint.peek(folder, "learner", "metric", "inputs", "targets", "model", "read")
    files = (folder / name for name in ("events.jsonl", "losses.f32"))
    return found | {file.name: file.read_bytes() if file.exists() else b"" for file in files}


def same(one, other):
    """Whether two states are equal; nan equals nan."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one.nan_to_num(7.0), other.nan_to_num(7.0))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)
