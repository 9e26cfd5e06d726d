"""The library's errors. All of them derive from `TaskfreeError`."""

from __future__ import annotations

from torch import Tensor


class TaskfreeError(Exception):
    """Base class of the errors that taskfree defines.

    Invalid arguments raise Python's own `ValueError` and `TypeError`.

    >>> issubclass(NotFiniteError, TaskfreeError), issubclass(NotFiniteError, ValueError)
    (True, True)
    """


class NotFiniteError(TaskfreeError, ValueError):
    """A value is nan or inf. Nothing was learned and the learner is unchanged.

    >>> raise NotFiniteError("the loss is nan")
    Traceback (most recent call last):
    ...
    taskfree._core.errors.NotFiniteError: the loss is nan
    """

    def __init__(self, message: str, bad: Tensor | None = None) -> None:
        super().__init__(message)
        self.bad = bad
        """Mask over the new samples: which of them are the cause. None if no sample is."""


class CheckpointError(TaskfreeError, ValueError):
    """A checkpoint cannot be used; the message says why. Nothing was loaded.

    >>> issubclass(CheckpointError, ValueError)
    True
    """


class DistributedError(TaskfreeError, RuntimeError):
    """Another rank failed or is unreachable. The call had no effect on any rank.

    >>> issubclass(DistributedError, RuntimeError)
    True
    """
