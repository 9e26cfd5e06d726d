"""Which new samples are let in: those with a nan or inf are refused or skipped."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

from torch import Tensor

from taskfree._core import batch, validation
from taskfree._core.batch import Batch
from taskfree._core.distributed import Processes
from taskfree._core.errors import NotFiniteError
from taskfree.which import Buffer

Answer = TypeVar("Answer")


def learn_from_good(
    step: Callable[[Batch, Batch, list[int]], Answer],
    inputs: Batch,
    targets: Batch,
    *,
    which: Buffer | None,
    processes: Processes,
    skip: bool,
    silent: bool,
) -> tuple[Answer | None, int]:
    """Take a time step with the good ones of the new samples.

    Args:
        step: takes it, given inputs, targets and the number of samples on each rank.
        inputs: of the new samples.
        targets: of the new samples.
        which: the buffer, into which the samples must fit.
        processes: the ranks that learn together.
        skip: whether bad samples are skipped; otherwise they raise a NotFiniteError.
        silent: whether there is no warning of skipped samples.

    Returns:
        What `step` returned, or None if no sample was good, here or on another rank; and how many
        samples were skipped here.
    """
    skipped = 0
    found: NotFiniteError | None = None

    def without(bad: Tensor, error: NotFiniteError) -> tuple[Batch, Batch]:
        nonlocal skipped
        if not (skipped or silent):
            message = f"{error}. Such samples are skipped and counted in learner.skipped"
            warnings.warn(f"{message} (said once)", stacklevel=4)
        skipped += int(bad.sum())
        return batch.take(inputs, ~bad), batch.take(targets, ~bad)

    def count() -> int:
        nonlocal found
        if skipped and not batch.rows(inputs):
            return 0
        found = _check(inputs, targets, which)
        if found is not None and not skip:
            raise found
        bad = None if found is None else found.bad
        return batch.rows(inputs) - (0 if bad is None else int(bad.sum()))

    while True:
        found = None
        counts = processes.gather(count)
        if found is not None and found.bad is not None:
            inputs, targets = without(found.bad, found)
        try:
            return step(inputs, targets, counts) if all(counts) else None, skipped
        except NotFiniteError as error:
            if not skip or error.bad is None:
                raise
            inputs, targets = without(error.bad, error)


def _check(inputs: Batch, targets: Batch, which: Buffer | None) -> NotFiniteError | None:
    """Raise if samples do not fit each other or the buffer; tell which have a nan or inf."""
    samples = validation.samples(inputs, targets)
    if which is not None:
        which.check(inputs, targets)
    bad = batch.nonfinite_rows([*batch.tensors(inputs), *batch.tensors(targets)])
    if bad is None:
        return None
    return NotFiniteError(
        f"inputs or targets hold a nan or inf in {int(bad.sum())} of {samples} new samples "
        f"(row {int(bad.nonzero()[0])} is the first); nothing was learned from them",
        bad,
    )
