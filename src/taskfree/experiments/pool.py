"""Many independent runs on several processes, with a progress bar that says how long is left."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import fields, is_dataclass
from functools import partial
from importlib.metadata import version
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any, TypeVar

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

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
    if not jobs:
        return []
    workers = min(len(jobs), workers or os.cpu_count() or 1)
    others = set(active_children())
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
            initializer=_begin,
        ) as pool,
    ):
        bar = progress.add_task(describe(jobs[0]), total=len(jobs))
        futures = {pool.submit(function, job): index for index, job in enumerate(jobs)}
        try:
            for future in as_completed(futures):
                results[futures[future]] = future.result()
                waiting = (job for index, job in enumerate(jobs) if index not in results)
                now = next(map(describe, waiting), "done")
                progress.update(bar, advance=1, description=now)
        except BaseException:  # one run failed, or ctrl-C: end the others, begin none
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(active_children()) - others:
                child.terminate()
            raise
    return [results[index] for index in range(len(jobs))]


def _begin() -> None:
    """A worker uses one thread, and does not outlive the process that it works for.

    Ctrl-C is for that process, which then ends its workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    parent = parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def run_kept(
    function: Callable[[Job], dict[str, Any]],
    jobs: Sequence[Job],
    place: Callable[[Job], Path],
    *,
    workers: int | None = None,
    describe: Callable[[Job], str] = str,
) -> list[dict[str, Any]]:
    """The same for runs that take long: each result is kept as JSON in its place.

    What was interrupted goes on where it was: a run whose file is there and whole is not repeated.
    """
    missing = [job for job in jobs if _kept(place(job)) is None]
    run_all(partial(_run_and_keep, function, place), missing, workers=workers, describe=describe)
    return [json.loads(place(job).read_text()) for job in jobs]


def _kept(file: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found


def _run_and_keep(
    function: Callable[[Job], dict[str, Any]], place: Callable[[Job], Path], job: Job
) -> None:
    file = place(job)
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".writing")
    unfinished.write_text(json.dumps(function(job)))
    unfinished.replace(file)


def place(folder: Path, name: str, said: Any, end: str = "json") -> Path:
    """Where a run is kept: its name, and a mark of the settings and versions that make it."""
    made = json.dumps([said, versions()], sort_keys=True)
    mark = hashlib.sha256(made.encode()).hexdigest()[:8]
    return folder / "runs" / f"{name.replace(', ', '-').replace(' ', '-')}-{mark}.{end}"


def versions() -> dict[str, str]:
    """What made a result: the versions of Python, torch and taskfree."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "taskfree": version("taskfree"),
    }


def command(name: str, config: Any) -> str:
    """The command line that makes a run with this config: options that are not the default."""
    return " ".join([f"taskfree reproduce {name}", *_options(config, type(config)())])


def _options(config: Any, default: Any, prefix: str = "") -> Iterator[str]:
    for field in fields(config):
        given, usual = getattr(config, field.name), getattr(default, field.name)
        option = prefix + field.name.replace("_", "-")
        if field.name in ("out", "workers") or given == usual:
            continue
        if is_dataclass(given):
            yield from _options(given, usual, f"{option}.")
        elif isinstance(given, bool):
            yield f"--{option}" if given else f"--{prefix}no-{field.name.replace('_', '-')}"
        else:
            values = given if isinstance(given, tuple) else (given,)
            yield shlex.join([f"--{option}", *map(str, values)])


def print_table(title: str, rows: list[list[str]], caption: str | None = None) -> None:
    """Show a table on the terminal: a heading and lines, numbers to the right."""
    heading, *lines = rows
    printed = Table(title=title, caption=caption, box=None, padding=(0, 1, 0, 0))
    for index, name in enumerate(heading):
        printed.add_column(name, justify="right" if index else "left")
    for line in lines:
        printed.add_row(
            *(cell.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}") for cell in line)
        )
    Console().print(printed)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a result as JSON with one line a run, so that people and diffs can read it."""

    def text(value: Any) -> str:
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
        return json.dumps(value)

    lines = [f"{json.dumps(key)}: {text(value)}" for key, value in content.items()]
    path.write_text("{\n " + ",\n ".join(lines) + "\n}\n")
