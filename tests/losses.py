"""Streams of losses, and what a trigger decides on them."""

import torch


def decisions(trigger, losses):
    """The decision at every step."""
    return [trigger.update(loss) for loss in losses]


def decision_steps(trigger, losses):
    """The steps of the plateaus and the steps of the peaks, counted from 1."""
    found = [(step, d) for step, loss in enumerate(losses, 1) if (d := trigger.update(loss))]
    return tuple([step for step, d in found if d == kind] for kind in ("plateau", "peak"))


def noisy(levels, std=0.05, seed=0):
    """The levels plus normal noise."""
    generator = torch.Generator().manual_seed(seed)
    levels = torch.tensor(levels, dtype=torch.float64)
    noise = torch.randn(len(levels), generator=generator, dtype=torch.float64)
    return (levels + std * noise).tolist()
