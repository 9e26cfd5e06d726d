"""How the settings of `taskfree reproduce soap` were chosen: on the first episode alone.

The series, its tests and its templates are those of the first episode (`--episodes 1`). Of the
others only the cast is known: who is frequent in all of them is played by somebody.

Learning rate and gradient steps of online learning, then which tracks are joined where there is
nobody to ask, then the strength of continual learning: of each, what has the best accuracy at the
end of the episode, in the mean over the seeds. Where fewer gradient steps are level with that, by
the standard error of the difference, the best of those: they cost less.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from taskfree.experiments import pool, soap

TABLES: dict[str, list[dict[str, Any]]] = {
    "online": [
        {"lr": lr, "repeats": repeats}
        for repeats, rates in ((2, (0.0001, 0.0003, 0.001, 0.003, 0.01)), (3, (0.001, 0.003, 0.01)))
        for lr in rates
    ],
    "online, self-supervised": [{"nearest": value} for value in (0.4, 0.6, 0.8)],
    "online continual": [{"strength": value} for value in (0.0003, 0.001, 0.003, 0.01, 0.03)],
}


def main() -> None:
    """Choose one after the other, each with what was chosen before; write all that was tried."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faces", type=Path, required=True)
    parser.add_argument("--order", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--runs", type=Path, default=Path("results/soap-tuning"))
    parser.add_argument("--out", type=Path, default=Path("results/soap-tuning.json"))
    given = parser.parse_args()
    if given.seeds < 2:
        parser.error(f"--seeds must be at least 2, for there to be a standard error: {given.seeds}")
    config = soap.Config(out=given.runs, faces=given.faces, order=given.order, episodes=1)
    (given.runs / "runs").mkdir(parents=True, exist_ok=True)
    for seed in range(given.seeds):
        if not soap._kept(config, seed).exists():
            soap.prepare(soap.Job(config, soap.SETTINGS[0], seed))
    rows, chosen = [], []
    for setting, table in TABLES.items():
        found = try_all(config, setting, table, given.seeds, given.workers)
        best = choose(found)
        config = replace(config, **best["options"])
        rows += found
        chosen.append(best)
    for row in rows:
        row["chosen"] = row in chosen
        print(row)  # noqa: T201
    results = {
        "command": "python benchmarks/soap_settings.py --faces faces --order order.csv "
        f"--seeds {given.seeds}",
        "about": "the first episode alone; see the script for the rule",
        "versions": pool.versions(),
        "rows": rows,
    }
    pool.write_json(given.out, results)


def try_all(
    config: soap.Config,
    setting: str,
    table: list[dict[str, Any]],
    seeds: int,
    workers: int | None,
) -> list[dict[str, Any]]:
    """Every row of a table with every seed."""
    own = next(one for one in soap.SETTINGS if one.name == setting)
    jobs = [
        soap.Job(replace(config, **options), own, seed)
        for options in table
        for seed in range(seeds)
    ]
    runs = pool.run_kept(
        soap.run_one, jobs, soap._place, workers=workers,
        describe=lambda job: f"{job.setting.name}, {job.seed}",
    )  # fmt: skip
    rows = []
    for at, options in enumerate(table):
        found = runs[at * seeds : (at + 1) * seeds]
        ends = [one["curve"][-1]["accuracy"] for one in found]
        rows.append(
            {
                "setting": setting, "options": options,
                "accuracy": round(mean(ends), 4), "by seed": ends,
                "before": [one["curve"][0]["accuracy"] for one in found],
                "mean loss": round(mean(mean(one["losses"]) for one in found), 4),
                "plateaus": [[e["step"] for e in one["events"] if e["kind"] == "plateau"]
                             for one in found],
            }
        )  # fmt: skip
    return rows


def choose(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The best accuracy; of what is level with it, what takes the fewest gradient steps."""
    best = max(rows, key=lambda row: row["accuracy"])
    level = []
    for row in rows:
        behind = [a - b for a, b in zip(best["by seed"], row["by seed"], strict=True)]
        if mean(behind) <= stdev(behind) / len(behind) ** 0.5:
            level.append(row)
    fewest = min(row["options"].get("repeats", 0) for row in level)
    cheap = [row for row in level if row["options"].get("repeats", 0) == fewest]
    return max(cheap, key=lambda row: row["accuracy"])


if __name__ == "__main__":
    main()
