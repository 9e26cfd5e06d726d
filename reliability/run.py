"""Run the reliability checks, each with a control that must fail, and write what was found."""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

import faults
import fuzz
import kill

from taskfree.experiments import pool


def kills(number: int) -> dict[str, object]:
    """SIGKILL while it learns and saves."""
    found = kill.run(number)
    in_place = kill.run(max(20, number // 10), save=kill.save_in_place)
    forgets = kill.run(10, save=kill.save_without_momentum)
    return {
        "check": "SIGKILL at random moments while learning and saving, then resume",
        **found,
        "held": found["mismatches"] == found["lost"] == 0,
        "control: a file written over in place": in_place,
        "control: momentum not saved": forgets,
        "controls failed": bool(in_place["lost"] and forgets["mismatches"]),
    }


def failures() -> dict[str, object]:
    """Every system call of a save fails."""
    found = faults.run()
    in_place = faults.run(kill.save_in_place, ways=("killed", "ENOSPC"))
    return {
        "check": "every write, fsync, open and rename of a save killed or failing",
        **found,
        "held": found["neither"] == 0,
        "control: a file written over in place": in_place,
        "controls failed": bool(in_place["neither"]),
    }


def changed(number: int) -> dict[str, object]:
    """Files changed at random."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as workers:
        halves = list(workers.map(fuzz.run, [number // 2, number - number // 2], [1, 2]))
    found = {name: sum(half[name] for half in halves) for name in halves[0]}
    unchecked = fuzz.without_digest(max(200, number // 1000))
    return {
        "check": "checkpoint files changed at random",
        **found,
        "held": found["refused"] == found["files"],
        "control: the digest is not looked at": unchecked,
        "controls failed": bool(unchecked["accepted"]),
    }


def main() -> None:
    """Run all and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/reliability.json"))
    parser.add_argument("--quick", action="store_true", help="a small slice of each")
    options = parser.parse_args()
    few = options.quick
    rows = []
    for check in (
        lambda: kills(20 if few else 2000),
        failures,
        lambda: changed(2000 if few else 1_000_000),
    ):
        started = perf_counter()
        rows.append(check() | {"seconds": round(perf_counter() - started)})
        print(rows[-1], flush=True)  # noqa: T201
    content = {"command": "make reliability", "versions": pool.versions(), "rows": rows}
    pool.write_json(options.out, content)
    if not all(row["held"] and row["controls failed"] for row in rows):
        raise SystemExit("a check did not hold, or a control did not fail")


if __name__ == "__main__":
    main()
