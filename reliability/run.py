"""Run the reliability checks, each with a control that must fail, and write the results.

`run.py` runs all of them, about three hours on two cores. `run.py kills poison` runs some and keeps
the results of the others. `--quick` runs a small part of each.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

import faults
import fuzz
import kill
import kill_feed
import mutants
import pause
import poison
import properties
import soak
from subject import isolated

from taskfree.paper import cache, publish

Row = dict[str, Any]


def _workers() -> ProcessPoolExecutor:
    """Two processes, forked: this one never runs autograd, see `subject`."""
    return ProcessPoolExecutor(2, mp_context=get_context("fork"))


def kills(quick: bool) -> Row:
    """SIGKILL while it learns and saves."""
    number = 20 if quick else 2000
    size: dict[str, Any] = {"steps": 20, "by_calls": True} if quick else {}
    found = kill.run(number, **size)
    # In the small part, a control ends as soon as it has failed.
    in_place = kill.run(200, save=kill.save_in_place, control=quick, **size)
    momentum = kill.run(10, save=kill.save_without_momentum, control=quick, **size)
    # How many kills hit a write depends on the disk: from 10 to 30 % were seen.
    inside = quick or found["inside a write"] >= 0.2 * number
    return {
        "check": "SIGKILL at random moments while learning and saving, then resume",
        "found": found,
        "held": found["mismatches"] == found["lost"] == 0 and inside,
        "controls": {"a file overwritten in place": in_place, "momentum not saved": momentum},
        "controls failed": bool(in_place["lost"] and momentum["mismatches"]),
    }


def kills_of_learn(quick: bool) -> Row:
    """SIGKILL of the command that learns from files."""
    size: dict[str, Any] = {"rows": 1200, "by_calls": True} if quick else {}
    found = kill_feed.run(6 if quick else 200, **size)
    forgets = kill_feed.run(3 if quick else 10, sabotage=kill_feed.forget_position, **size)
    return {
        "check": "SIGKILL of `taskfree learn` at random moments, then the same command again",
        "found": found,
        "held": found["mismatches"] == found["lost"] == 0 and found["runs finished"] > 0,
        "controls": {"the position in the file not saved": forgets},
        "controls failed": bool(forgets["mismatches"]),
    }


def failing_calls(quick: bool) -> Row:
    """Every system call of a save fails."""
    found = faults.run(ways=("killed half way", "ENOSPC") if quick else faults.WAYS)
    ways = ("killed",) if quick else ("killed", "ENOSPC")
    in_place = faults.run(kill.save_in_place, ways=ways)
    return {
        "check": "every write, fsync, open, rename and unlink of a save killed or failing",
        "found": found,
        "held": found["neither"] == 0 < found["cases"],
        "controls": {"a file overwritten in place": in_place},
        "controls failed": bool(in_place["neither"]),
    }


def changed_files(quick: bool) -> Row:
    """Files changed at random, and what runs while they are read."""
    number = 2000 if quick else 1_000_000
    with _workers() as workers:
        halves = list(workers.map(fuzz.run, [number // 2, number - number // 2], [1, 2]))
        unchecked = workers.submit(fuzz.without_digest, max(200, number // 1000)).result()
        unpickled = workers.submit(fuzz.unpickle).result()
    found = {name: sum(half[name] for half in halves) for name in halves[0]}
    return {
        "check": "checkpoint files changed at random; code run on loading, by an audit hook",
        "found": found,
        "held": found["refused"] == found["files"] and found["code events"] == 0,
        "controls": {"files not checked": unchecked, "a pickle is loaded": unpickled},
        "controls failed": bool(unchecked["accepted"] and unpickled["code events"]),
    }


def crafted_files(quick: bool) -> Row:  # noqa: ARG001
    """Files made to do harm."""
    tests = ["checkpoint/test_crafted.py"]
    found = properties.outcome(tests)
    unchecked = properties.outcome(tests, broken="digest")
    return {
        "check": "crafted checkpoints: huge sizes, overlaps, paths, wrong dtypes, deep JSON, ...",
        "found": found,
        "held": found["failed"] == 0 and found["passed"] >= 40,
        "controls": {"files not checked, up to the first failure": unchecked},
        "controls failed": bool(unchecked["failed"]),
    }


def poisoned_streams(quick: bool) -> Row:
    """Bad samples among the good."""
    found = isolated(lambda: poison.run(1600 if quick else 200_000))
    unguarded = isolated(lambda: poison.without_guard(800))
    return {
        "check": "bad samples at rates of 1e-4 to 0.5: the state equals that without them",
        "found": found,
        "held": found["mismatches"] == 0 and found["skipped"] == found["bad samples"] > 0,
        "controls": {"the guard off": unguarded},
        "controls failed": not unguarded["parameters are finite"],
    }


def long_stream(quick: bool) -> Row:
    """Memory and open files over a long stream."""
    steps, short = (5000, 2000) if quick else (500_000, 50_000)
    with _workers() as workers:
        whole = workers.submit(soak.run, steps, steps // 250)
        control = workers.submit(soak.run, short, short // 50, soak.StoresEverything)
        found, leaking = whole.result(), control.result()
    slope = "bytes per 1,000 steps"
    return {
        "check": "a long stream through the MLP learner with buffer and consolidation",
        "found": found,
        # The slope of a short run says nothing: memory that is used once is allocated once.
        "held": (quick or found[slope] < 1024) and len(found["open files"]) == 1,
        "controls": {"a trigger that stores all losses": leaking},
        "controls failed": leaking[slope] > 1024,
    }


def many_examples(quick: bool) -> Row:
    """Property tests, the stateful one among them."""
    if quick:
        found = properties.run(["when/test_plateau.py"], 1)
    else:
        found = properties.run(properties.PROPERTIES, 100, workers=2)
    broken = {
        "the buffer keeps the easiest": ("which/test_hardest.py", "buffer"),
        "a loaded trigger has lost its window": ("when/test_plateau.py", "trigger"),
        "a saved learner lacks its momentum": ("test_stateful.py", "momentum"),
    }
    controls = {name: properties.outcome([test], how) for name, (test, how) in broken.items()}
    return {
        "check": "property tests of buffers, triggers, checkpoints and the learner's whole life",
        "found": found,
        "held": found["failed"] == 0 and found["examples"] >= (100 if quick else 100_000),
        "controls": controls,
        "controls failed": all(result["failed"] for result in controls.values()),
    }


def mutated_code(quick: bool) -> Row:
    """Small changes of the core that the tests must notice."""
    if quick:
        return {}
    mutmut = Path(".venv-mutants/bin/mutmut").absolute()
    found = mutants.run(mutmut)
    weak = mutants.run(mutmut, core=("_core/serialization",), tests=("which",))
    weak = {key: weak[key] for key in ("mutants", "killed", "percent")}
    return {
        "check": "small changes of the core's code that the tests notice",
        "found": found,
        "held": found["percent"] >= 90,
        "controls": {"_core/serialization.py, with the tests of the buffers only": weak},
        "controls failed": weak["percent"] < 90,
    }


def save_pause(quick: bool) -> Row:
    """How long AlexNet waits for a save."""
    return {
        "check": "how long a save delays learning: AlexNet with importance",
        "found": isolated(lambda: pause.run(1 if quick else 5)),
        "held": True,
        "controls": {},
        "controls failed": True,
    }


CHECKS: dict[str, Callable[[bool], Row]] = {
    "kills": kills, "learn": kills_of_learn, "calls": failing_calls, "files": changed_files,
    "crafted": crafted_files, "poison": poisoned_streams, "soak": long_stream,
    "properties": many_examples, "mutants": mutated_code, "pause": save_pause,
}  # fmt: skip


def main() -> None:
    """Run the checks and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checks", nargs="*", help=f"some of: {', '.join(CHECKS)}")
    parser.add_argument("--out", type=Path, default=Path("results/reliability.json"))
    parser.add_argument("--quick", action="store_true", help="a small part of each")
    options = parser.parse_args()
    if unknown := set(options.checks) - CHECKS.keys():
        parser.error(f"no such check: {', '.join(unknown)}")
    results = json.loads(options.out.read_text())["results"] if options.out.exists() else {}
    for name in options.checks or CHECKS:
        started = perf_counter()
        row = CHECKS[name](options.quick)
        if not row:
            continue
        results[name] = row | {
            "seconds": round(perf_counter() - started),
            "versions": cache.versions(),
        }
        print(name, json.dumps(results[name]), flush=True)  # noqa: T201
        ordered = {key: results[key] for key in CHECKS if key in results}
        publish.write_results(options.out, {"command": "make reliability", "results": ordered})
    failed = [key for key, row in results.items() if not (row["held"] and row["controls failed"])]
    if failed:
        raise SystemExit(f"a check did not hold, or a control did not fail: {', '.join(failed)}")


if __name__ == "__main__":
    main()
