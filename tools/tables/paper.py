"""Tables about the paper's experiments."""

import itertools
import math

from tables.markdown import percent, points, results, summary, table
from taskfree.paper.tv import analysis as tv_analysis

BALANCED = "balanced accuracy"


def synthetic():
    """The settings of the synthetic experiment."""
    rows = [row for row in results("synthetic/results")["summary"] if " at " not in row["setting"]]
    keys = ("total", "first quadrant", "second quadrant")
    lines = [[row["setting"], *(percent(row[key]) for key in keys)] for row in rows]
    heading = ["accuracy (%)", "both quadrants", "first", "second"]
    return table(heading, lines, bold=lambda row: row[0] == "online continual")


def expert():
    """How the expert flew, by corridor."""
    flights = results("expert")["each"]

    def line(name, own):
        clean = sum(one["collisions"] == 0 for one in own)
        minutes = sum(one["seconds"] for one in own) / 60
        often = sum(one["collisions"] for one in own) / minutes
        return [name, str(len(own)), str(clean), f"{often:.3f}"]

    names = dict.fromkeys(one["corridor"] for one in flights)
    lines = [line(n, [one for one in flights if one["corridor"] == n]) for n in names]
    heading = ["corridor", "flights", "without a collision", "collisions per minute"]
    return table(heading, [*lines, line("**all**", flights)])


def recording():
    """How fast flights are recorded."""
    found = results("recording")
    lines = [
        [f"`{name}`", f"{row['control steps per second']:.0f}"]
        for name, row in found["cameras"].items()
    ]
    return table(["camera", f"control steps per second, {found['cores']} cores"], lines)


def corridors(name):
    """What every setting reached in the corridors."""
    columns = {
        BALANCED: "balanced accuracy (%)", f"{BALANCED}, just flown": "just flown (%)",
        "accuracy": "accuracy (%)", "collisions per minute": "collisions per minute",
        "metres before the first collision": "metres before the first",
    }  # fmt: skip

    def cell(row, key):
        if key not in row:
            return ""
        scale = 100 if "%" in columns[key] else 1
        return " ± ".join(f"{scale * value:.1f}" for value in row[key])

    lines = [[s, *(cell(row, key) for key in columns)] for s, row in summary(name).items()]
    return table(
        ["", *columns.values()], lines,
        bold=lambda row: row[0] == "online continual, class-balanced",
    )  # fmt: skip


def corridor_times():
    """How long the runs took."""
    lines = []
    for name, text in (("corridors", "A to D"), ("corridors10", "ten")):
        runs = results(f"{name}/results")["runs"]
        minutes = sum(run["seconds"] + run["seconds flying"] for run in runs) / 60
        lines.append([text, f"{minutes:.0f}", f"{minutes / 2:.0f}"])
    return table(["corridors", "minutes of all runs", "minutes with two processes"], lines)


def corridor_targets():
    """The targets of the corridor experiments, in points of balanced accuracy."""
    both = [results(f"{name}/results")["aims"] for name in ("corridors", "corridors10")]
    rows = []

    def add(text, key, least, kind=None):
        values = [found[key] if kind is None else found[key][kind] for found in both]
        rows.append([text, *map(points, values), "" if values[1] >= least else "**missed**"])

    add("online, class-balanced, in the corridor just flown: at least 75 %",
        "online, class-balanced, in the corridor just flown", 0.75)  # fmt: skip
    add("offline joint: at least 85 %", "offline joint", 0.85)
    for where, least in (("all corridors", 5), ("first half", 10), ("last two", -10)):
        for kind in ("class-balanced", "not balanced"):
            key = f"continual minus online, {where}"
            add(f"{key}: at least {least} ({kind})", key, least / 100, kind)
            if where == "all corridors":
                each = [found[f"{key}, by seed"][kind] for found in both]
                for at, gaps in enumerate(each, 1):
                    rows[-1][at] += f" ({', '.join(map(points, gaps))})"
    for name in ("online", "online continual"):
        add(f"class balance helps {name}: above 0", "class-balanced minus not", 1e-9, name)
    return table(["target, for the ten corridors", "A to D", "ten", ""], rows)


def tv():
    """What every setting of the television experiment reached."""
    rows = results("tv/results")["summary"]
    count = len(rows[1]["after each part"]) - 1
    lines = []
    for row in rows:
        parts = row["after each part"]
        shown = parts[1:-1] if len(parts) == count + 1 else [None] * (count - 1)
        lines.append(
            [row["setting"], *("" if part is None else points(part[0]) for part in shown),
             percent(row["accuracy"]), f"{row['seconds'][0] / 60:.1f}"]
        )  # fmt: skip
    heading = ["", *(f"after episode {at}" for at in range(1, count)), "at the end", "minutes"]
    return table(heading, lines, bold=lambda row: row[0] == "online continual")


def tv_targets():
    """The targets of the television experiment, in points of accuracy."""
    heading, *rows = tv_analysis.aims_table(results("tv/results")["aims"])
    missed = [[*cells, f"**{v}**" if v == "missed" else v] for *cells, v in rows]
    return table(heading, missed)


def tv_settings():
    """How the settings of the television experiment were chosen, on its first episode."""

    def option(key, value):
        return f"{key.replace('_', ' ')} {value if isinstance(value, str) else f'{value:g}'}"

    rows = results("tv-tuning")["rows"]
    lines = [
        [row["setting"], ", ".join(option(*one) for one in row["options"].items()),
         points(row["accuracy"]), ", ".join(map(points, row["by seed"])),
         f"{row['mean loss']:.2f}", ", ".join(str(len(steps)) for steps in row["plateaus"])]
        for row in rows
    ]  # fmt: skip
    chosen = [line for line, row in zip(lines, rows, strict=True) if row["chosen"]]
    heading = ["", "options", "accuracy (%)", "by seed", "mean loss", "plateaus"]
    return table(heading, lines, bold=lambda line: line in chosen)


def arena():
    """Collisions in the arena, and what continual learning adds."""
    found = results("arena/results")
    columns = ["overall", "in the last third", "after learning", "agreement with the expert"]
    lines = [
        [row["setting"], *(" ± ".join(f"{v:.3f}" for v in row[key]) for key in columns)]
        for row in found["summary"] + found["differences"]
    ]
    return table(["", *columns], lines)


def claims():
    """What the paper says, what was found, and whether that agrees."""

    def compared(name, key, *settings, percent=True):
        """The settings in the claim's order, from worse to better, and whether they are."""
        own, unit, digits = summary(name), 100 if percent else -1, 1 if percent else 3
        values = [[unit * value for value in own[setting][key]] for setting in settings]
        text = [
            f"{setting} {abs(mean):.{digits}f} ± {abs(spread):.{digits}f}"
            for setting, (mean, spread) in zip(settings, values, strict=True)
        ]
        steps = [
            (after[0] - before[0]) / max(1e-9, math.hypot(after[1], before[1]))
            for before, after in itertools.pairwise(values)
        ]
        worst = min(steps)
        verdict = "agrees" if worst > 1 else "within the spread" if worst > -1 else "**not**"
        return [", ".join(text), verdict]

    plain = ("online", "online continual")
    even = ("online, class-balanced", "online continual, class-balanced")
    rows = [
        ("4.1", "accuracy: the hard buffer helps, and the full method does not forget",
         compared("synthetic", "total", "online, no buffer", *plain)),
        ("4.2", "final accuracy on actors: online learning helps, continual learning more",
         compared("tv", "accuracy", "initial", *plain)),
        ("", "continual learning equals shuffled tracks seen once",
         compared("tv", "accuracy", "online joint", "online continual")),
        ("", "several passes over shuffled tracks are best, by 8 points",
         compared("tv", "accuracy", "online continual", "offline joint")),
        ("", "self-supervised: continual learning ends ahead",
         compared("tv", "accuracy", *(f"{name}, self-supervised" for name in plain))),
        ("", "the hard buffer helps online learning",
         compared("tv", "accuracy", "online, no hard buffer", "online")),
        ("", "the hard buffer helps continual learning",
         compared("tv", "accuracy", "online continual, no hard buffer", "online continual")),
        ("4.3", "A to D, balanced accuracy: continual learning forgets less",
         compared("corridors", BALANCED, *plain)),
        ("", "the same with a class-balanced buffer", compared("corridors", BALANCED, *even)),
        ("supplement", "ten corridors, accuracy, class-balanced: continual 80, online 70",
         compared("corridors10", "accuracy", *even)),
        ("", "balanced accuracy, not class-balanced: continual ahead",
         compared("corridors10", BALANCED, *plain)),
        ("", "balanced accuracy, class-balanced: continual ahead",
         compared("corridors10", BALANCED, *even)),
        ("", "balanced accuracy: class balance helps online learning",
         compared("corridors10", BALANCED, "online", even[0])),
        ("", "balanced accuracy: class balance helps continual learning",
         compared("corridors10", BALANCED, "online continual", even[1])),
        ("4.4", "collisions per step: continual learning has fewer",
         compared("arena", "overall", *plain, percent=False)),
    ]  # fmt: skip
    heading = ["section", "the paper says", "ours, from what should be worse to better", ""]
    return table(heading, [[section, text, *found] for section, text, found in rows])
