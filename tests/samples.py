"""Streams of numbered samples, and what a buffer keeps of them."""

import torch
from hypothesis import strategies as st

SAMPLES = st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5, 7.0]))
STEPS = st.lists(st.lists(SAMPLES, min_size=1, max_size=9), min_size=1, max_size=8)
"""The time steps of a stream: the (label, loss) of each new sample. Losses often tie."""


def offer(buffer, steps, first=0):
    """Offer samples numbered from `first`; held samples keep their loss. Yields the candidates."""
    number = first
    for step in steps:
        labels, losses = zip(*step, strict=True)
        x = torch.arange(number, number + len(step)).float()
        number += len(step)
        buffer.check(x, torch.tensor(labels))
        known = dict(held(buffer) if len(buffer) else [])
        known |= dict(zip(x.tolist(), losses, strict=True))
        joint, _ = buffer.join(x, torch.tensor(labels))
        buffer.update(torch.tensor([known[number] for number in joint.tolist()]))
        yield list(known.items())


def held(buffer):
    """The (number, loss) of each held sample."""
    return sorted(zip(buffer.inputs.tolist(), buffer.losses.tolist(), strict=True))
