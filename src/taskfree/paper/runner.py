"""Many independent runs in several processes, with a progress bar."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing
from functools import partial
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any, TypeVar

import torch
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from taskfree._core import files
from taskfree.observe.advice import Advice

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_all(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    describe: Callable[[Job], str] = str,
) -> list[Result]:
    """Run `function` on every job in parallel processes; return the results in order.

    `function` must be importable by a new process. Each process uses one torch thread: the runs
    are the parallel part.

    Args:
        function: maps a job to its result.
        jobs: all jobs.
        workers: the number of processes; one per core if None. 1 runs all jobs in this process.
        describe: a short description of a job, for the progress bar.
    """
    if not jobs:
        return []
    run = _run_here if workers == 1 else partial(_run_in_pool, workers=workers)
    results: dict[int, Result] = {}
    columns = (
        TextColumn("{task.description:<32}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress, closing(run(function, jobs)) as finished:
        bar = progress.add_task(describe(jobs[0]), total=len(jobs))
        for index, result in finished:
            results[index] = result
            waiting = (job for index, job in enumerate(jobs) if index not in results)
            progress.update(bar, advance=1, description=next(map(describe, waiting), "done"))
    return [results[index] for index in range(len(jobs))]


def _run_here(
    function: Callable[[Job], Result], jobs: Sequence[Job]
) -> Generator[tuple[int, Result], None, None]:
    """Run the jobs one after the other, with one thread like a worker."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for index, job in enumerate(jobs):
            yield index, function(job)
    finally:
        torch.set_num_threads(threads)


def _run_in_pool(
    function: Callable[[Job], Result], jobs: Sequence[Job], *, workers: int | None
) -> Generator[tuple[int, Result], None, None]:
    """Run the jobs in several processes; yield indices and results as they finish."""
    workers = min(len(jobs), workers or os.cpu_count() or 1)
    others = set(active_children())
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_start_worker
    ) as pool:
        futures = {pool.submit(function, job): index for index, job in enumerate(jobs)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:  # a run failed, or Ctrl-C: stop the others and start none
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(active_children()) - others:
                child.terminate()
            raise


def _start_worker() -> None:
    """Use one thread, leave Ctrl-C to the parent process, and exit when that does.

    Advice is silenced: baselines do on purpose what it warns of.
    """
    warnings.simplefilter("ignore", Advice)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    parent = parent_process()

    def exit_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()


def run_cached(
    function: Callable[[Job], dict[str, Any]],
    jobs: Sequence[Job],
    file: Callable[[Job], Path],
    *,
    workers: int | None = None,
    describe: Callable[[Job], str] = str,
) -> list[dict[str, Any]]:
    """Like `run_all`, with each result stored as a JSON file. Stored results are not run again.

    Args:
        function: maps a job to its result.
        jobs: all jobs.
        file: the file of a job's result.
        workers: the number of processes; one per core if None. 1 runs all jobs in this process.
        describe: a short description of a job, for the progress bar.
    """
    missing = [job for job in jobs if files.read_json(file(job)) is None]
    run_all(partial(_run_and_save, function, file), missing, workers=workers, describe=describe)
    return [files.read_json(file(job)) for job in jobs]


def _run_and_save(
    function: Callable[[Job], dict[str, Any]], file: Callable[[Job], Path], job: Job
) -> None:
    path = file(job)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(path, function(job))
