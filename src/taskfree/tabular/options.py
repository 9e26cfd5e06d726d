"""The options of a network that learns rows, declared once."""

from __future__ import annotations

from dataclasses import dataclass

from taskfree._core import validation
from taskfree.defaults import STRENGTH

ROWS, MOST_ROWS = 1000, 256
"""A time step has one row more with every 1,000 rows, up to 256."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How rows are learned: shared by `taskfree learn` and the adapters.

    >>> Options().lr
    0.003
    """

    lr: float = 0.003
    """learning rate of Adam"""
    batch_size: int = 0
    """rows per time step; 0 for 1 at first and one more with every 1,000 rows, up to 256"""
    buffer_size: int = 2000
    """rows kept for replay, a uniform sample of all so far; 0 for none"""
    strength: float = STRENGTH
    """strength of the regularization of the weights, if fewer than 200 rows are kept; no units"""
    balance: bool = False
    """predict so that every class counts equally, however rare it is"""
    seed: int = 0
    """seed of the network's initial weights and of the choice of rows to keep"""

    def rows_per_step(self, rows: int) -> int:
        """How many rows the next time step has, after this many.

        >>> options = Options()
        >>> options.rows_per_step(100), options.rows_per_step(10_000), options.rows_per_step(10**7)
        (1, 10, 256)
        """
        return self.batch_size or min(MOST_ROWS, max(1, rows // ROWS))

    def __post_init__(self) -> None:
        validation.number("lr", self.lr, above=0)
        validation.integer("batch_size", self.batch_size, least=0)
        validation.integer("buffer_size", self.buffer_size, least=0)
        validation.number("strength", self.strength, least=0)
        validation.integer("seed", self.seed, least=0)
