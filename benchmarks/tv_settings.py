"""How the settings of `taskfree reproduce tv` were chosen: on the first episode alone.

The series, its tests and its templates are those of the first episode (`--episodes 1`). Of the
other episodes only the cast is used: the actors are the most frequent names of all episodes.

First the learning rate and gradient steps of online learning are chosen, then the threshold for
merging tracks in self-supervised learning, then the strength of continual learning. Each time the
best final accuracy wins, as the mean over the seeds. If fewer gradient steps are level with it, by
the standard error of the difference, the best of those wins: they cost less.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from taskfree.paper import cache, publish, runner
from taskfree.paper.statistics import mean_and_spread
from taskfree.paper.tv import experiment as tv
from taskfree.paper.tv.config import SETTINGS, TVConfig, TVJob
from taskfree.paper.tv.watching import prepare, series_file

TABLES: dict[str, list[dict[str, Any]]] = {
    "online": [
        {"lr": lr, "repeats": repeats}
        for repeats, rates in ((2, (0.0001, 0.0003, 0.001, 0.003, 0.01)), (3, (0.001, 0.003, 0.01)))
        for lr in rates
    ],
    "online, self-supervised": [{"merge_threshold": value} for value in (0.4, 0.6, 0.8)],
    "online continual": [{"strength": value} for value in (0.0003, 0.001, 0.003, 0.01, 0.03)],
}


def main() -> None:
    """Choose one option after the other, and write everything that was tried."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faces", type=Path, required=True)
    parser.add_argument("--order", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--runs", type=Path, default=Path("results/tv-tuning"))
    parser.add_argument("--out", type=Path, default=Path("results/tv-tuning.json"))
    given = parser.parse_args()
    if given.seeds < 2:
        parser.error(f"--seeds must be at least 2 for a standard error, got {given.seeds}")
    config = TVConfig(out=given.runs, faces=given.faces, order=given.order, episodes=1)
    (given.runs / "runs").mkdir(parents=True, exist_ok=True)
    for seed in range(given.seeds):
        if not series_file(config, seed).exists():
            prepare(config, seed)
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
        "command": "python benchmarks/tv_settings.py --faces faces --order order.csv "
        f"--seeds {given.seeds}",
        "about": "the first episode alone; see the script for the rule",
        "versions": cache.versions(),
        "rows": rows,
    }
    publish.write_results(given.out, results)


def try_all(
    config: TVConfig,
    setting: str,
    table: list[dict[str, Any]],
    seeds: int,
    workers: int | None,
) -> list[dict[str, Any]]:
    """Run every row of a table with every seed."""
    own = next(one for one in SETTINGS if one.name == setting)
    jobs = [
        TVJob(replace(config, **options), own, seed) for options in table for seed in range(seeds)
    ]
    runs = runner.run_cached(
        tv.run_one, jobs, tv._file, workers=workers,
        describe=lambda job: f"{job.setting.name}, {job.seed}",
    )  # fmt: skip
    rows = []
    for at, options in enumerate(table):
        found = runs[at * seeds : (at + 1) * seeds]
        ends = [one["curve"][-1]["accuracy"] for one in found]
        rows.append(
            {
                "setting": setting, "options": options,
                "accuracy": mean_and_spread(ends)[0], "by seed": ends,
                "before": [one["curve"][0]["accuracy"] for one in found],
                "mean loss": mean_and_spread([mean(one["losses"]) for one in found])[0],
                "plateaus": [[e["step"] for e in one["events"] if e["kind"] == "plateau"]
                             for one in found],
            }
        )  # fmt: skip
    return rows


def choose(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row with the best accuracy; of those level with it, one with fewest gradient steps."""
    best = max(rows, key=lambda row: row["accuracy"])
    level = []
    for row in rows:
        behind = [a - b for a, b in zip(best["by seed"], row["by seed"], strict=True)]
        difference, error = mean_and_spread(behind, "error")
        if difference <= error:
            level.append(row)
    fewest = min(row["options"].get("repeats", 0) for row in level)
    cheap = [row for row in level if row["options"].get("repeats", 0) == fewest]
    return max(cheap, key=lambda row: row["accuracy"])


if __name__ == "__main__":
    main()
