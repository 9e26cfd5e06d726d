"""The options of a network that learns rows, declared once."""

from __future__ import annotations

from dataclasses import dataclass

from taskfree._core import validation
from taskfree.defaults import STRENGTH


@dataclass(frozen=True, kw_only=True)
class Options:
    """How rows are learned: shared by `taskfree learn` and the adapters.

    >>> Options().lr
    0.01
    """

    lr: float = 0.01
    """learning rate of Adam"""
    batch_size: int = 64
    """rows per time step"""
    buffer_size: int = 100
    """rows kept for replay, a uniform sample of all so far; 0 for none"""
    strength: float = STRENGTH
    """strength of the regularization, without units; 0 for none"""
    seed: int = 0
    """seed of the network's initial weights and of the choice of rows to keep"""

    def __post_init__(self) -> None:
        validation.number("lr", self.lr, above=0)
        validation.integer("batch_size", self.batch_size, least=1)
        validation.integer("buffer_size", self.buffer_size, least=0)
        validation.number("strength", self.strength, least=0)
        validation.integer("seed", self.seed, least=0)
