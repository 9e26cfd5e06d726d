"""Run the reliability checks, each with a control that must fail, and write what was found.

`run.py` runs all of them, which takes about three hours on two cores; `run.py kills poison` runs
some and leaves the others' results as they are; `--quick` runs a small slice of each.
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

from taskfree.experiments import pool

Row = dict[str, Any]


def kills(quick: bool) -> Row:
    """SIGKILL while it learns and saves."""
    number = 20 if quick else 2000
    found = kill.run(number)
    in_place = kill.run(max(20, number // 10), save=kill.save_in_place)
    forgets = kill.run(10, save=kill.save_without_momentum)
    inside = found["inside a write"] >= (0 if quick else 0.2 * number)
    return {
        "check": "SIGKILL at random moments while learning and saving, then resume",
        "found": found,
        "held": found["mismatches"] == found["lost"] == 0 and inside,
        "controls": {"a file written over in place": in_place, "momentum not saved": forgets},
        "controls failed": bool(in_place["lost"] and forgets["mismatches"]),
    }


def kills_of_learn(quick: bool) -> Row:
    """SIGKILL of the command that learns from files."""
    found = kill_feed.run(6 if quick else 200)
    forgets = kill_feed.run(3, broken=kill_feed.forgets_its_place)
    return {
        "check": "SIGKILL of `taskfree learn` at random moments, then the same command again",
        "found": found,
        "held": found["mismatches"] == found["lost"] == 0 and found["runs finished"] > 0,
        "controls": {"where the file was left is not kept": forgets},
        "controls failed": bool(forgets["mismatches"]),
    }


def failing_calls(quick: bool) -> Row:
    """Every system call of a save fails."""
    found = faults.run(ways=("killed half way", "ENOSPC") if quick else faults.WAYS)
    in_place = faults.run(kill.save_in_place, ways=("killed", "ENOSPC"))
    return {
        "check": "every write, fsync, open, rename and unlink of a save killed or failing",
        "found": found,
        "held": found["neither"] == 0,
        "controls": {"a file written over in place": in_place},
        "controls failed": bool(in_place["neither"]),
    }


def changed_files(quick: bool) -> Row:
    """Files changed at random, and what runs while they are read."""
    number = 2000 if quick else 1_000_000
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as workers:
        halves = list(workers.map(fuzz.run, [number // 2, number - number // 2], [1, 2]))
        unchecked = workers.submit(fuzz.without_digest, max(200, number // 1000)).result()
        unpickled = workers.submit(fuzz.unpickle).result()
    found = {name: sum(half[name] for half in halves) for name in halves[0]}
    return {
        "check": "checkpoint files changed at random; code run on loading, by an audit hook",
        "found": found,
        "held": found["refused"] == found["files"] and found["code events"] == 0,
        "controls": {"the digest is not looked at": unchecked, "a pickle is read": unpickled},
        "controls failed": bool(unchecked["accepted"] and unpickled["code events"]),
    }


def crafted_files(quick: bool) -> Row:  # noqa: ARG001
    """Files made to do harm."""
    found = properties.outcome(["crafted"])
    unchecked = properties.outcome(["crafted"], broken="digest")
    return {
        "check": "crafted checkpoints: huge sizes, overlaps, paths, wrong dtypes, deep JSON, ...",
        "found": found,
        "held": found["failed"] == 0 and found["passed"] >= 40,
        "controls": {"the file is not looked at before it is read": unchecked},
        "controls failed": bool(unchecked["failed"]),
    }


def poisoned_streams(quick: bool) -> Row:
    """Bad samples among the good."""
    found = poison.run(1600 if quick else 200_000)
    off = poison.without_guard(800)
    return {
        "check": "bad samples at rates of 1e-4 to 0.5: the state without them",
        "found": found,
        "held": found["mismatches"] == 0 and found["skipped"] == found["bad samples"] > 0,
        "controls": {"the guard off": off},
        "controls failed": not off["parameters are finite"],
    }


def long_stream(quick: bool) -> Row:
    """Memory and open files over a long stream."""
    steps = 20_000 if quick else 500_000
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as workers:
        whole = workers.submit(soak.run, steps, steps // 250)
        short = workers.submit(soak.run, steps // 10, steps // 500, soak.KeepsEverything)
        found, keeps = whole.result(), short.result()
    slope = "bytes per 1,000 steps"
    return {
        "check": "a long stream through the MLP learner with buffer and consolidation",
        "found": found,
        # A short run tells nothing of the slope: memory that is used once is asked for once.
        "held": (quick or found[slope] < 1024) and len(found["open files"]) == 1,
        "controls": {"a window that keeps everything": keeps},
        "controls failed": keeps[slope] > 1024,
    }


def many_examples(quick: bool) -> Row:
    """Property tests, the stateful one among them."""
    found = properties.run(["when"] if quick else properties.PROPERTIES, 1 if quick else 100)
    broken = {
        "the buffer keeps the easiest": ("which", "buffer"),
        "a saved trigger forgets its window": ("when", "trigger"),
        "a saved learner forgets its momentum": ("stateful", "momentum"),
    }
    controls = {name: properties.outcome([test], how) for name, (test, how) in broken.items()}
    return {
        "check": "property tests of buffers, triggers, checkpoints and the learner's whole life",
        "found": found,
        "held": found["failed"] == 0 and (quick or found["examples"] >= 100_000),
        "controls": controls,
        "controls failed": all(result["failed"] for result in controls.values()),
    }


def mutated_code(quick: bool) -> Row:
    """Small changes of the core that the tests must notice."""
    if quick:
        return {}
    mutmut = Path(".venv-mutants/bin/mutmut").absolute()
    found = mutants.run(mutmut)
    weak = mutants.run(mutmut, core=("state",), tests=("which",))
    weak = {key: weak[key] for key in ("mutants", "killed", "percent")}
    return {
        "check": "small changes of the core's code that the tests notice",
        "found": found,
        "held": found["percent"] >= 90,
        "controls": {"state.py, with the tests of which.py only": weak},
        "controls failed": weak["percent"] < 90,
    }


def save_pause(quick: bool) -> Row:
    """How long AlexNet waits for a save."""
    return {
        "check": "how long a save holds up learning: AlexNet with importance",
        "found": pause.run(1 if quick else 5),
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
    """Run the checks asked for and write what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checks", nargs="*", help=f"some of: {', '.join(CHECKS)}")
    parser.add_argument("--out", type=Path, default=Path("results/reliability.json"))
    parser.add_argument("--quick", action="store_true", help="a small slice of each")
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
            "versions": pool.versions(),
        }
        print(name, json.dumps(results[name]), flush=True)  # noqa: T201
        ordered = {key: results[key] for key in CHECKS if key in results}
        pool.write_json(options.out, {"command": "make reliability", "results": ordered})
    failed = [key for key, row in results.items() if not (row["held"] and row["controls failed"])]
    if failed:
        raise SystemExit(f"a check did not hold, or a control did not fail: {', '.join(failed)}")


if __name__ == "__main__":
    main()
