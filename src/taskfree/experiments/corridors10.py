"""The supplement's longer experiment: ten corridors, about 10,000 frames."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from taskfree.experiments import corridors
from taskfree.experiments.corridors import run
from taskfree.robots.worlds import THEMES

__all__ = ["Config", "run"]


@dataclass(frozen=True)
class Config(corridors.Config):
    """A drone learns to imitate a laser's expert, corridor after corridor, each frame seen once.

    Every setting starts from the same weights for a seed and sees the same flights.
    """

    out: Path = Path("results/corridors10")
    """where results.json, the figures and report.html go; finished runs there are not repeated"""
    corridors: tuple[str, ...] = tuple(THEMES)
    """which, in this order"""
    every: int = 50
    """evaluate every so many time steps"""
