"""Many independent runs on several processes, with a progress bar that says how long is left."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from multiprocessing import get_context
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

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_all(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    describe: Callable[[Job], str] = str,
) -> list[Result]:
    """Run `function` on every job, in as many processes as there are cores, and keep the order.

    `function` is a module's own, so that a fresh process can import it. Each process uses one
    torch thread: the runs are the parallel part.
    """
    workers = min(len(jobs), workers or os.cpu_count() or 1)
    results: dict[int, Result] = {}
    columns = (
        TextColumn("{task.description:<32}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with (
        Progress(*columns) as progress,
        ProcessPoolExecutor(
            workers,
            mp_context=get_context("spawn"),
            initializer=torch.set_num_threads,
            initargs=(1,),
        ) as pool,
    ):
        bar = progress.add_task("starting", total=len(jobs))
        futures = {pool.submit(function, job): index for index, job in enumerate(jobs)}
        for future in as_completed(futures):
            index = futures[future]
            results[index] = future.result()
            progress.update(bar, advance=1, description=describe(jobs[index]))
        progress.update(bar, description="done")
    return [results[index] for index in range(len(jobs))]


def versions() -> dict[str, str]:
    """What made a result: the versions of Python, torch and taskfree."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "taskfree": version("taskfree"),
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a result as JSON with one line a run, so that people and diffs can read it."""

    def text(value: Any) -> str:
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
        return json.dumps(value)

    lines = [f"{json.dumps(key)}: {text(value)}" for key, value in content.items()]
    path.write_text("{\n " + ",\n ".join(lines) + "\n}\n")
