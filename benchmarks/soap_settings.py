"""How the settings of `taskfree reproduce soap` were chosen: on the first episode alone.

The series, its tests and its templates are those of the first episode (`--episodes 1`); nothing of
the others is seen. Learning rate, gradient steps and dropout are chosen for online learning without
consolidation; then the strength, as the strongest that costs online learning at most a point there;
then, with nobody to ask, which tracks are joined and how many steps are taken.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from taskfree.experiments import pool, soap

ONLINE = [
    {"lr": 0.01}, {"lr": 0.001}, {"lr": 0.003}, {"lr": 0.03}, {"lr": 0.0001},
    {"lr": 0.01, "repeats": 3}, {"lr": 0.003, "repeats": 3}, {"lr": 0.01, "dropout": 0.5},
]  # fmt: skip
STRENGTHS = [{"strength": strength} for strength in (1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)]
ALONE = [
    {"nearest": 0.4}, {"nearest": 0.6}, {"nearest": 0.8}, {"nearest": 0.6, "repeats_alone": 15},
]  # fmt: skip


def tried(config: soap.Config, setting: str, given: dict[str, Any], seeds: int) -> list[soap.Job]:
    """The runs of one row of the table."""
    own = next(one for one in soap.SETTINGS if one.name == setting)
    return [soap.Job(replace(config, **given), own, seed) for seed in range(seeds)]


def main() -> None:
    """Run all of them, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faces", type=Path, required=True)
    parser.add_argument("--order", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--runs", type=Path, default=Path("results/soap-tuning"))
    parser.add_argument("--out", type=Path, default=Path("results/soap-tuning.json"))
    given = parser.parse_args()
    config = soap.Config(out=given.runs, faces=given.faces, order=given.order, episodes=1)
    rows = [
        (setting, values)
        for setting, all_values in (
            ("online", ONLINE),
            ("online continual", STRENGTHS),
            ("online, self-supervised", ALONE),
        )
        for values in all_values
    ]
    jobs = [tried(config, setting, values, given.seeds) for setting, values in rows]
    (given.runs / "runs").mkdir(parents=True, exist_ok=True)
    for job in jobs[0]:
        if not soap._kept(config, job.seed).exists():
            soap.prepare(job)
    flat = [job for row in jobs for job in row]
    found = pool.run_kept(
        soap.run_one, flat, soap._place, workers=given.workers,
        describe=lambda job: f"{job.setting.name}, {job.seed}",
    )  # fmt: skip
    runs = iter(found)
    written = []
    for (setting, values), row in zip(rows, jobs, strict=True):
        own = [next(runs) for _ in row]
        ends = [one["curve"][-1]["accuracy"] for one in own]
        written.append(
            {
                "setting": setting, **values, "seeds": len(own), "accuracy": round(mean(ends), 4),
                "by seed": ends, "before": [one["curve"][0]["accuracy"] for one in own],
                "consolidations": [
                    sum(event["kind"] == "plateau" for event in one["events"]) for one in own
                ],
                "steps": [one["steps"] for one in own],
            }
        )  # fmt: skip
    results = {
        "command": f"python benchmarks/soap_settings.py --faces faces --order order.csv "
        f"--seeds {given.seeds}",
        "about": "the first episode alone; options that a row does not name are the defaults",
        "versions": pool.versions(),
        "rows": written,
    }
    pool.write_json(given.out, results)
    for line in written:
        print(line)  # noqa: T201


if __name__ == "__main__":
    main()
