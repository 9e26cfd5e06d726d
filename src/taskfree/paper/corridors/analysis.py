"""Analysis of the corridor experiments: summary, targets and tables."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from taskfree.paper import statistics
from taskfree.paper.statistics import mean_and_spread

KINDS = ("accuracy", "balanced accuracy")


def summary(
    corridors: Sequence[str], settings: Sequence[str], runs: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Mean and standard deviation over the seeds, by setting."""
    rows = []
    for setting in settings:
        chosen = [one for one in runs if one["setting"] == setting]
        row: dict[str, Any] = {"setting": setting, "seeds": len(chosen)}
        for index, kind in enumerate(KINDS):
            final = [[corridor[index] for corridor in one["final"]] for one in chosen]
            row[kind] = mean_and_spread([mean(one) for one in final])
            row[f"{kind} by corridor"] = {
                name: mean_and_spread([one[number] for one in final])
                for number, name in enumerate(corridors)
            }
        if any(one["just flown"] for one in chosen):
            row["balanced accuracy, just flown"] = mean_and_spread(
                [mean(corridor[1] for corridor in one["just flown"]) for one in chosen]
            )
        if all(one["flown"] for one in chosen):
            row |= _rollouts(chosen)
        rows.append(row)
    return rows


def _rollouts(runs: list[dict[str, Any]]) -> dict[str, list[float]]:
    """The outcome of the rollouts."""

    def rate(flown: list[dict[str, Any]]) -> float:
        return float(60 * sum(f["collisions"] for f in flown) / sum(f["seconds"] for f in flown))

    return {
        "collisions per minute": mean_and_spread([rate(one["flown"]) for one in runs]),
        "metres before the first collision": mean_and_spread(
            [mean(f["first"] for f in one["flown"]) for one in runs]
        ),
    }


def aims(
    corridors: Sequence[str], settings: Sequence[str], runs: list[dict[str, Any]]
) -> dict[str, Any]:
    """The measures that the experiment targets, in balanced accuracy."""
    rows = {row["setting"]: row for row in summary(corridors, settings, runs)}

    def gap(one: str, other: str, names: Sequence[str] = corridors) -> float:
        found = (rows[name]["balanced accuracy by corridor"] for name in (one, other))
        first, second = (mean(float(row[name][0]) for name in names) for row in found)
        return round(first - second, 4)

    def by_seed(one: str, other: str) -> list[float]:
        """The differences over all corridors, seed by seed."""
        ends = {
            (run["setting"], run["seed"]): mean(corridor[1] for corridor in run["final"])
            for run in runs
        }
        seeds = sorted(seed for setting, seed in ends if setting == one)
        return [round(ends[one, seed] - ends[other, seed], 4) for seed in seeds]

    pairs = {
        "class-balanced": ("online continual, class-balanced", "online, class-balanced"),
        "not balanced": ("online continual", "online"),
    }
    half = (len(corridors) + 1) // 2
    over = {"all corridors": corridors, "first half": corridors[:half], "last two": corridors[-2:]}
    online = rows["online, class-balanced"]
    found: dict[str, Any] = {
        "online, class-balanced, in the corridor just flown": online[
            "balanced accuracy, just flown"
        ][0],
        "offline joint": rows["offline joint"]["balanced accuracy"][0],
    }
    for where, names in over.items():
        found[f"continual minus online, {where}"] = {k: gap(*v, names) for k, v in pairs.items()}
    found["continual minus online, all corridors, by seed"] = {
        k: by_seed(*v) for k, v in pairs.items()
    }
    found["class-balanced minus not"] = {
        name: gap(f"{name}, class-balanced", name) for name in ("online", "online continual")
    }
    return found


COLUMNS = {
    "accuracy": 100, "balanced accuracy": 100, "balanced accuracy, just flown": 100,
    "collisions per minute": 1, "metres before the first collision": 1,
}  # fmt: skip
"""The columns of the table, and the scale of each."""


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The summary as text, one line per setting."""
    names = [name for name in COLUMNS if any(name in row for row in rows)]
    heading = ["", *(f"{name} (%)" if COLUMNS[name] == 100 else name for name in names)]
    lines = [
        [
            row["setting"],
            *(statistics.text(row[n], COLUMNS[n]) if n in row else "" for n in names),
        ]
        for row in rows
    ]
    return [heading, *lines]


def table_by_corridor(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The balanced accuracy as text, one line per setting, one column per corridor."""
    names = list(rows[0]["balanced accuracy by corridor"])
    return [["", *names]] + [
        [
            row["setting"],
            *(f"{100 * row['balanced accuracy by corridor'][name][0]:.0f}" for name in names),
        ]
        for row in rows
    ]
