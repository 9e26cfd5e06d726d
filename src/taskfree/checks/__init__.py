"""Contracts that every trigger, buffer and regularizer must meet. Run them on your own.

>>> from taskfree import checks, when
>>> checks.check_trigger(lambda: when.Plateau(window=5, mean=0.2, variance=0.1))

A check returns nothing if the contract is met, and raises an AssertionError that says what is not.
"""

from taskfree.checks.buffers import check_buffer
from taskfree.checks.components import components
from taskfree.checks.regularizers import check_regularizer
from taskfree.checks.triggers import check_trigger

__all__ = ["check_buffer", "check_regularizer", "check_trigger", "components"]
