"""The README and docs: their code runs, their numbers are those of the committed results."""

import itertools
import json
import math
import re
import shlex
import sys
from pathlib import Path

import pytest

from taskfree import cli
from taskfree.experiments import soap_found

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
SPEED = ROOT / "docs/speed.md"
RELIABILITY = ROOT / "docs/reliability.md"
TRIGGERS = ROOT / "docs/triggers.md"
CORRIDORS = ROOT / "docs/corridors.md"
ARENA = ROOT / "docs/arena.md"
FACES = ROOT / "docs/faces.md"
LEARN = ROOT / "docs/learn.md"
ADAPTERS = ROOT / "docs/adapters.md"
PAPER = ROOT / "docs/paper.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))


def table():
    """The settings of the paper and the extras, from results.json."""
    results = json.loads((ROOT / "results/synthetic/results.json").read_text())
    lines = ["| | both quadrants | first | second |", "|---|---|---|---|"]
    for row in results["summary"]:
        if " at " in row["setting"]:
            continue
        cells = [row[column] for column in ("total", "first quadrant", "second quadrant")]
        numbers = [f"{100 * mean:.1f} ± {100 * spread:.1f}" for mean, spread in cells]
        bold = "**" if row["setting"] == "online continual" else ""
        lines.append(
            "| " + " | ".join(f"{bold}{cell}{bold}" for cell in (row["setting"], *numbers)) + " |"
        )
    return "\n".join(lines) + "\n"


def speed():
    """What importance and a step cost, from speed.json."""
    rows = json.loads((ROOT / "results/speed/speed.json").read_text())["rows"]

    def ratio(measure, network, contestant):
        found = [
            row["ratio"]
            for row in rows
            if row["measure"] == measure
            and row["network"] == network
            and contestant in row["contestant"]
        ]
        return f"{found[0]:.2f}" if found[0] < 3 else f"{found[0]:.0f}"

    lines = [
        "| against a plain loop on the same samples | MLP | Tiny v2 | AlexNet |",
        "|---|---|---|---|",
    ]
    for text, measure, contestant in (
        ("**exact importance, ours**", "importance", "taskfree"),
        ("exact importance, one sample at a time", "importance", "one sample"),
        ("exact importance, `torch.func.vmap`", "importance", "vmap"),
        ("**a step of the full method, ours**", "step", "taskfree"),
    ):
        cells = [ratio(measure, network, contestant) for network in ("MLP", "Tiny v2", "AlexNet")]
        lines.append("| " + " | ".join([text, *cells]) + " |")
    return "\n".join(lines) + "\n"


def targets():
    """What was aimed at, what was measured, and whether that is enough."""
    rows = json.loads((ROOT / "results/speed/speed.json").read_text())["rows"]
    ranks = json.loads((ROOT / "results/ranks.json").read_text())["rows"]

    def ratio(measure, network, contestant="taskfree", samples=None):
        return next(
            row["ratio"]
            for row in rows
            if (row["measure"], row["network"]) == (measure, network)
            and contestant in row["contestant"]
            and samples in (None, row["samples"])
        )

    def faster(case):
        return next(row["faster by"] for row in ranks if row["case"] == case)

    stream, every = ratio("stream", "MLP", "proximal"), ratio("stream", "MLP", "every step")
    memory = next(row for row in rows if row["measure"] == "extra peak memory")
    aims = [
        ("exact importance, MLP, 100 samples", ratio("importance", "MLP"), "most", 2),
        ("the same, Tiny v2", ratio("importance", "Tiny v2", samples=100), "most", 1.15),
        ("the same, AlexNet", ratio("importance", "AlexNet", samples=100), "most", 1.15),
        ("its extra peak memory, AlexNet, in copies of the parameters",
         memory["copies of the parameters"], "most", 1),
        ("a step, AlexNet", ratio("step", "AlexNet"), "most", 1.05),
        ("a step, Tiny v2", ratio("step", "Tiny v2"), "most", 1.10),
        ("a step, MLP", ratio("step", "MLP"), "most", 1.15),
        *(
            (f"a step, fully connected, {size} parameters",
             ratio("step", f"connected {size}"), "most", 1.15)
            for size in ("1e+05", "1e+06", "4e+06")
        ),
        ("the stream: Avalanche, replay + MAS, against ours",
         ratio("stream", "MLP", "replay + MAS") / stream, "least", 8),
        ("the same, ours consolidating at every step as it does",
         ratio("stream", "MLP", "replay + MAS") / every, "", None),
        ("the stream: the authors' way, on tensors, against ours",
         ratio("stream", "MLP", "on tensors") / stream, "least", 3),
        ("the stream: the authors' way, as their demo, against ours",
         ratio("stream", "MLP", "their demo") / stream, "least", 3),
        ("two ranks against one process, Tiny v2, 300 samples",
         faster("Tiny v2, 300 samples"), "least", 1.2),
        ("the same, AlexNet, 64 samples", faster("AlexNet, 64 samples"), "least", 1.3),
        ("the same, Tiny v2, 60 samples", faster("Tiny v2, 60 samples"), "", None),
        ("the same, MLP, 50 samples", faster("MLP, 50 samples"), "", None),
    ]  # fmt: skip
    lines = ["| | measured | aim | |", "|---|---|---|---|"]
    for name, value, bound, aim in aims:
        met = aim is None or (value <= aim if bound == "most" else value >= aim)
        wanted = f"at {bound} {aim:g}" if aim is not None else ""
        lines.append(f"| {name} | {value:.2f} | {wanted} | {'' if met else '**missed**'} |")
    return "\n".join(lines) + "\n"


def reliability():
    """What was attacked, what was found, and that the controls failed."""
    results = json.loads((ROOT / "results/reliability.json").read_text())["results"]

    def told(found):
        simple = {
            name: value
            for name, value in found.items()
            if not isinstance(value, dict | list) or len(value) == 1
        }
        return ", ".join(f"{name}: {_number(value)}" for name, value in simple.items())

    lines = ["| check | found | its control: found | |", "|---|---|---|---|"]
    for row in results.values():
        controls = "; ".join(
            f"*{name}*: {told(found) if isinstance(found, dict) else found}"
            for name, found in row["controls"].items()
        )
        held = "held" if row["held"] and row["controls failed"] else "**did not hold**"
        lines.append(f"| {row['check']} | {told(row['found'])} | {controls} | {held} |")
    return "\n".join(lines) + "\n"


def trigger_scores():
    """The final scores of every trigger on every stream, from results.json."""
    results = json.loads((ROOT / "results/triggers/results.json").read_text())
    rows = [row for row in results["summary"] if not row["setting"].startswith("strength")]
    streams = list(dict.fromkeys(row["stream"] for row in rows))
    found = {(row["stream"], row["setting"]): row["final"] for row in rows}
    lines = [
        "| | " + " | ".join(streams) + " | mean |",
        "|---" * (len(streams) + 2) + "|",
    ]
    for setting in dict.fromkeys(row["setting"] for row in rows):
        cells = [found[stream, setting] for stream in streams]
        numbers = [f"{100 * mean:.1f} ± {100 * error:.1f}" for mean, error in cells]
        numbers.append(f"{100 * sum(mean for mean, _ in cells) / len(cells):.1f}")
        bold = "**" if setting == "default" else ""
        lines.append("| " + " | ".join(f"{bold}{c}{bold}" for c in (setting, *numbers)) + " |")
    return "\n".join(lines) + "\n"


def trigger_means():
    """What else tells triggers apart, as means over the streams."""
    results = json.loads((ROOT / "results/triggers/results.json").read_text())
    lines = [
        "| mean of all streams | at the end | over time | forgetting | consolidations |",
        "|---" * 5 + "|",
    ]
    rows = [row for row in results["summary"] if not row["setting"].startswith("strength")]
    for setting in dict.fromkeys(row["setting"] for row in rows):
        own = [row for row in rows if row["setting"] == setting]
        scales = {"final": 100, "average": 100, "forgetting": 100, "consolidations": 1}
        means = (n * sum(row[what][0] for row in own) / len(own) for what, n in scales.items())
        cells = [setting, *(f"{value:.1f}" for value in means)]
        bold = "**" if setting == "default" else ""
        lines.append("| " + " | ".join(f"{bold}{cell}{bold}" for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def trigger_aims():
    """What was aimed at with the default, and whether it was reached."""
    found = json.loads((ROOT / "results/triggers/results.json").read_text())["aims"]
    part = found["of the tuned Plateau's gain, the default has"]
    below = found["streams where the default is below online by more than a standard error"]
    empty, many = found["of them without a consolidation"], found["of them with more than 3"]
    near = found["streams where that is at most 2 points"]
    gains = found["gain over online, mean of all streams"]
    apart = found["points that the best strength of the grid is better than the default's"]
    total = found["stretches between changes"]
    rows = [
        ("of the gain over online that the tuned Plateau has, mean of all streams: at least 95 %",
         f"{100 * part:.0f} % ({100 * gains['default']:.1f} and "
         f"{100 * gains['Plateau, tuned']:.1f} points)", part >= 0.95),
        ("below online by more than a standard error: on no stream",
         ", ".join(f"{k}: {100 * v:.1f} points" for k, v in below.items()) or "on none", not below),
        (f"a consolidation in every stretch of 100 steps or more between changes ({total})",
         f"{empty} without", empty == 0),
        ("at most 3 in each of them", f"{many} with more", many == 0),
        ("the default strength within 2 points of the best of four decades: on 5 streams",
         f"on {near} of {len(apart)}; furthest: {100 * max(apart.values()):.1f} points", near >= 5),
    ]  # fmt: skip
    lines = ["| aim | reached | |", "|---|---|---|"]
    lines += [f"| {aim} | {what} | {'' if met else '**missed**'} |" for aim, what, met in rows]
    return "\n".join(lines) + "\n"


def expert():
    """How the expert flew, by corridor."""
    results = json.loads((ROOT / "results/expert.json").read_text())
    lines = [
        "| corridor | flights | without a collision | collisions a minute |",
        "|---|---|---|---|",
    ]

    def line(name, flights):
        clean = sum(one["collisions"] == 0 for one in flights)
        minutes = sum(one["seconds"] for one in flights) / 60
        often = sum(one["collisions"] for one in flights) / minutes
        return f"| {name} | {len(flights)} | {clean} | {often:.3f} |"

    names = dict.fromkeys(one["corridor"] for one in results["each"])
    lines += [line(n, [one for one in results["each"] if one["corridor"] == n]) for n in names]
    lines.append(line("**all**", results["each"]))
    return "\n".join(lines) + "\n"


def recording():
    """How fast flights are recorded."""
    results = json.loads((ROOT / "results/recording.json").read_text())
    lines = [f"| camera | control steps a second, {results['cores']} cores |", "|---|---|"]
    lines += [
        f"| `{name}` | {row['control steps a second']:.0f} |"
        for name, row in results["cameras"].items()
    ]
    return "\n".join(lines) + "\n"


def flown(folder):
    """What every setting reached in the corridors, from results.json."""
    results = json.loads((ROOT / f"results/{folder}/results.json").read_text())
    columns = {
        "weighted": "weighted accuracy (%)", "weighted, just flown": "just flown (%)",
        "accuracy": "accuracy (%)", "collisions a minute": "collisions a minute, alone",
        "metres before the first": "metres before the first",
    }  # fmt: skip
    lines = ["| | " + " | ".join(columns.values()) + " |", "|---" * (len(columns) + 1) + "|"]
    for row in results["summary"]:
        cells = []
        for name, heading in columns.items():
            scale = 100 if "%" in heading else 1
            found = row.get(name)
            cells.append(
                "" if found is None else f"{scale * found[0]:.1f} ± {scale * found[1]:.1f}"
            )
        bold = "**" if row["setting"] == "online continual, normalized" else ""
        line = " | ".join(
            f"{bold}{cell}{bold}" if cell else "" for cell in (row["setting"], *cells)
        )
        lines.append(f"| {line} |")
    return "\n".join(lines) + "\n"


def ten_corridors():
    """The ten corridors in short, for the first page."""
    results = json.loads((ROOT / "results/corridors10/results.json").read_text())
    rows = {row["setting"]: row for row in results["summary"]}
    lines = ["| | all ten | in the corridor just flown |", "|---|---|---|"]
    for name in ("online, normalized", "online continual, normalized", "online joint"):
        cells = [rows[name].get(key) for key in ("weighted", "weighted, just flown")]
        told = ["" if c is None else f"{100 * c[0]:.1f} ± {100 * c[1]:.1f}" for c in cells]
        bold = "**" if "continual" in name else ""
        line = " | ".join(f"{bold}{cell}{bold}" if cell else "" for cell in (name, *told))
        lines.append(f"| {line} |")
    return "\n".join(lines) + "\n"


def flown_times():
    """How long the runs took, with two at a time."""
    lines = ["| | minutes of all runs | in two processes |", "|---|---|---|"]
    for name, text in (("corridors", "A to D"), ("corridors10", "ten")):
        runs = json.loads((ROOT / f"results/{name}/results.json").read_text())["runs"]
        minutes = sum(run["seconds"] + run["seconds flying"] for run in runs) / 60
        lines.append(f"| {text} | {minutes:.0f} | {minutes / 2:.0f} |")
    return "\n".join(lines) + "\n"


def flown_aims():
    """What the corridors are meant to show, in points of weighted accuracy."""
    four, ten = (
        json.loads((ROOT / f"results/{name}/results.json").read_text())["aims"]
        for name in ("corridors", "corridors10")
    )

    def points(value):
        return f"{100 * value:.1f}"

    rows = [
        ("online, normalized, in the corridor just flown: at least 75 %",
         [points(found["online, normalized, in the corridor just flown"]) for found in (four, ten)],
         ten["online, normalized, in the corridor just flown"] >= 0.75),
        ("offline joint: at least 85 %",
         [points(found["offline joint"]) for found in (four, ten)], ten["offline joint"] >= 0.85),
    ]  # fmt: skip
    for text, key, least in (
        ("continual above online, all corridors: at least 5", "all corridors", 0.05),
        ("continual above online, first half: at least 10", "first half", 0.10),
        ("continual above online, last two: at least -10", "last two", -0.10),
    ):
        for kind in ("normalized", "not normalized"):
            values = [found[f"continual above online, {key}"][kind] for found in (four, ten)]
            cells = list(map(points, values))
            if key == "all corridors":  # by seed, too
                each = (found[f"continual above online, {key}, by seed"] for found in (four, ten))
                told = (", ".join(map(points, found[kind])) for found in each)
                cells = [f"{cell} ({gaps})" for cell, gaps in zip(cells, told, strict=True)]
            rows.append((f"{text} ({kind})", cells, values[1] >= least))
    for name in ("online", "online continual"):
        values = [found["normalized above not"][name] for found in (four, ten)]
        rows.append((f"normalization helps {name}", map(points, values), values[1] > 0))
    lines = ["| aim, for the ten corridors | A to D | ten | |", "|---|---|---|---|"]
    lines += [
        f"| {text} | {' | '.join(cells)} | {'' if met else '**missed**'} |"
        for text, cells, met in rows
    ]
    return "\n".join(lines) + "\n"


def watched():
    """What every setting of the television experiment reached, from results.json."""
    results = json.loads((ROOT / "results/soap/results.json").read_text())
    count = len(results["summary"][1]["after each part"]) - 1
    heading = ["", *(f"after episode {at}" for at in range(1, count)), "at the end", "minutes"]
    lines = ["| " + " | ".join(heading) + " |", "|---" * len(heading) + "|"]
    for row in results["summary"]:
        parts = row["after each part"]
        shown = parts[1:-1] if len(parts) == count + 1 else [None] * (count - 1)
        bold = "**" if row["setting"] == "online continual" else ""
        middle, spread = row["accuracy"]
        cells = [
            row["setting"], *("" if part is None else f"{100 * part[0]:.1f}" for part in shown),
            f"{100 * middle:.1f} ± {100 * spread:.1f}", f"{row['seconds'][0] / 60:.1f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(f"{bold}{c}{bold}" if c else "" for c in cells) + " |")
    return "\n".join(lines) + "\n"


def television():
    """The television experiment in short, for the first page."""
    results = json.loads((ROOT / "results/soap/results.json").read_text())
    rows = {row["setting"]: row["accuracy"] for row in results["summary"]}
    names = ("initial", "online", "online continual", "online joint", "offline joint")
    cells = [f"{100 * rows[name][0]:.1f} ± {100 * rows[name][1]:.1f}" for name in names]
    bold = [
        f"**{cell}**" if "continual" in name else cell
        for name, cell in zip(names, cells, strict=True)
    ]
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|", f"| {' | '.join(bold)} |"]
    return "\n".join(lines) + "\n"


def watched_aims():
    """What the television experiment is meant to show, in points of accuracy."""
    found = json.loads((ROOT / "results/soap/results.json").read_text())["aims"]
    heading, *rows = soap_found.aims_table(found)
    lines = ["| " + " | ".join(heading) + " |", "|---" * len(heading) + "|"]
    for *cells, verdict in rows:
        bold = "**" if verdict == "missed" else ""
        lines.append("| " + " | ".join([*cells, f"{bold}{verdict}{bold}"]) + " |")
    return "\n".join(lines) + "\n"


def watched_settings():
    """How the settings of the television experiment were chosen, on its first episode."""
    found = json.loads((ROOT / "results/soap-tuning.json").read_text())
    lines = [
        "| | | accuracy (%) | by seed | mean loss | plateaus |",
        "|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        bold = "**" if row["chosen"] else ""
        cells = [
            row["setting"],
            ", ".join(
                f"{key.replace('_', ' ')} {value if isinstance(value, str) else f'{value:g}'}"
                for key, value in row["options"].items()
            ),
            f"{100 * row['accuracy']:.1f}",
            ", ".join(f"{100 * one:.1f}" for one in row["by seed"]),
            f"{row['mean loss']:.2f}", ", ".join(str(len(steps)) for steps in row["plateaus"]),
        ]  # fmt: skip
        lines.append("| " + " | ".join(f"{bold}{c}{bold}" if c else "" for c in cells) + " |")
    return "\n".join(lines) + "\n"


def defaults():
    """How the defaults of `taskfree learn` were chosen."""
    rows = json.loads((ROOT / "results/learn-defaults.json").read_text())["summary"]
    lines = ["| " + " | ".join(rows[0]) + " |", "|---" * len(rows[0]) + "|"]
    for row in rows:
        own = row == rows[-1]
        cells = [
            value if isinstance(value, str) else f"{value:g}" if at < 3 else f"{100 * value:.1f}"
            for at, value in enumerate(row.values())
        ]
        lines.append("| " + " | ".join(f"**{c}**" if own else c for c in cells) + " |")
    return "\n".join(lines) + "\n"


def rows_a_second():
    """How fast `taskfree learn` reads and learns a CSV."""
    found = json.loads((ROOT / "results/rows.json").read_text())
    early, late = found["MiB after a quarter and at the end"]
    lines = [
        f"| {found['rows']:,} rows of {found['columns']} columns, one core | | aim |",
        "|---|---|---|",
        f"| `taskfree learn`, rows a second | {found['rows a second']['taskfree learn']:,} "
        "| at least 20,000 |",
        f"| a plain loop by hand, rows a second | {found['rows a second']['plain']:,} | |",
        f"| the plain loop is faster by | {found['plain is faster by']:.2f} | at most 1.5 |",
        f"| MiB after a quarter, and at the end | {early:.0f}, {late:.0f} | flat |",
    ]
    return "\n".join(lines) + "\n"


def real_streams():
    """Ours, a plain network and river on real streams."""
    rows = json.loads((ROOT / "results/streams.json").read_text())["summary"]
    columns = {
        "accuracy": "running accuracy", "balanced": "balanced",
        "at the end, all quarters": "at the end, on all quarters", "forgetting": "forgetting",
    }  # fmt: skip
    lines = [
        "| | | " + " | ".join(columns.values()) + " | rows a second |",
        "|---" * (len(columns) + 3) + "|",
    ]
    for row in rows:
        cells = []
        for key in columns:
            middle, spread = (100 * value for value in row[key])
            cells.append(f"{middle:.1f}" + (f" ± {spread:.1f}" if row["seeds"] > 1 else ""))
        bold = "**" if row["contestant"] == "taskfree learn" else ""
        told = (row["contestant"], *cells, f"{row['rows a second']:,}")
        line = " | ".join(f"{bold}{cell}{bold}" for cell in told)
        lines.append(f"| {row['stream']} | {line} |")
    return "\n".join(lines) + "\n"


def arena_collisions():
    """Collisions in the arena while learning and afterwards, and what continual learning adds."""
    results = json.loads((ROOT / "results/arena/results.json").read_text())
    columns = ["in all", "in the last third", "after learning", "acts as the expert would"]
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for row in results["summary"] + results["differences"]:
        cells = [" ± ".join(f"{value:.3f}" for value in row[name]) for name in columns]
        lines.append("| " + " | ".join([row["setting"], *cells]) + " |")
    return "\n".join(lines) + "\n"


def adapters():
    """What the examples print: without and with taskfree, through each library."""
    found = json.loads((ROOT / "results/adapters.json").read_text())["percent"]
    lines = ["| | extra | plain | with taskfree | of |", "|---|---|---|---|---|"]
    for name, title, extra, of in (
        ("with_river", "river", "`river`", "ten digits, two classes at a time"),
        ("with_sklearn", "scikit-learn", "`sklearn`", "the same, by `partial_fit`"),
        ("with_lightning", "Lightning", "`lightning`", "the first of two quadrants"),
        ("with_avalanche", "Avalanche", "`avalanche`", "the same"),
        ("with_gymnasium", "Gymnasium", "`robots`", "the first of two rooms, while acting"),
        ("own_loop", "your own loop", "none", "the first of two quadrants"),
    ):
        ours = [
            f"{value} %{key.removeprefix('taskfree')}"
            for key, value in found[name].items()
            if key.startswith("taskfree")
        ]
        cells = [f"[{title}](../examples/{name}.py)", extra, f"{found[name]['plain']} %"]
        lines.append("| " + " | ".join([*cells, ", ".join(ours), of]) + " |")
    return "\n".join(lines) + "\n"


def claims():
    """What the paper says, what was found, and whether that agrees."""

    def rows(name):
        found = json.loads((ROOT / f"results/{name}/results.json").read_text())
        return {row["setting"]: row for row in found["summary"]}

    def compared(name, key, *settings, percent=True):
        """The settings in the order of the claim, from worse to better, and whether they are."""
        own, unit = rows(name), 100 if percent else -1  # of collisions, fewer are better
        values = [[unit * value for value in own[setting][key]] for setting in settings]
        told = [
            f"{setting} {abs(middle):.{1 if percent else 3}f} ± {abs(spread):.{1 if percent else 3}f}"
            for setting, (middle, spread) in zip(settings, values, strict=True)
        ]
        steps = [
            (after[0] - before[0]) / max(1e-9, math.hypot(after[1], before[1]))
            for before, after in itertools.pairwise(values)
        ]
        verdict = (
            "agrees" if min(steps) > 1 else "within the spread" if min(steps) > -1 else "**not**"
        )
        return ", ".join(told), verdict

    straight = ("online", "online continual")
    even = ("online, normalized", "online continual, normalized")
    lines = [
        "| | the paper says | ours, from what should be worse to what should be better | |",
        "|---|---|---|---|",
    ]
    for section, text, found in (
        ("4.1", "accuracy: the hard buffer helps, and the full method does not forget",
         compared("synthetic", "total", "online, no buffer", *straight)),
        ("4.2", "actors, accuracy at the end: online learning helps, continual learning more",
         compared("soap", "accuracy", "initial", *straight)),
        ("", "continual learning is level with shuffled tracks seen once",
         compared("soap", "accuracy", "online joint", "online continual")),
        ("", "several passes over shuffled tracks are best, by 8 points",
         compared("soap", "accuracy", "online continual", "offline joint")),
        ("", "with nobody to ask: continual learning ahead at the end",
         compared("soap", "accuracy", *(f"{name}, self-supervised" for name in straight))),
        ("", "the hard buffer helps online learning",
         compared("soap", "accuracy", "online, no hard buffer", "online")),
        ("", "the hard buffer helps continual learning",
         compared("soap", "accuracy", "online continual, no hard buffer", "online continual")),
        ("4.3", "A to D, weighted accuracy: continual learning forgets less",
         compared("corridors", "weighted", *straight)),
        ("", "the same with normalization", compared("corridors", "weighted", *even)),
        ("supplement", "ten corridors, accuracy with normalization: continual 80, online 70",
         compared("corridors10", "accuracy", *even)),
        ("", "weighted accuracy without normalization: continual ahead",
         compared("corridors10", "weighted", *straight)),
        ("", "weighted accuracy with normalization: continual ahead",
         compared("corridors10", "weighted", *even)),
        ("", "weighted accuracy: normalization helps online learning",
         compared("corridors10", "weighted", "online", even[0])),
        ("", "weighted accuracy: normalization helps continual learning",
         compared("corridors10", "weighted", "online continual", even[1])),
        ("4.4", "collisions a step: continual learning has fewer",
         compared("arena", "in all", *straight, percent=False)),
    ):  # fmt: skip
        lines.append(f"| {section} | {text} | {found[0]} | {found[1]} |")
    return "\n".join(lines) + "\n"


def _number(value):
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


WRITTEN = {
    "results": (README, table),
    "speed": (README, speed),
    "targets": (SPEED, targets),
    "reliability": (RELIABILITY, reliability),
    "triggers": (TRIGGERS, trigger_scores),
    "means": (TRIGGERS, trigger_means),
    "aims": (TRIGGERS, trigger_aims),
    "expert": (CORRIDORS, expert),
    "defaults": (LEARN, defaults),
    "rows": (LEARN, rows_a_second),
    "streams": (LEARN, real_streams),
    "arena": (ARENA, arena_collisions),
    "adapters": (ADAPTERS, adapters),
    "claims": (PAPER, claims),
    "recording": (CORRIDORS, recording),
    "four": (CORRIDORS, lambda: flown("corridors")),
    "ten": (CORRIDORS, lambda: flown("corridors10")),
    "flown": (CORRIDORS, flown_aims),
    "times": (CORRIDORS, flown_times),
    "corridors": (README, ten_corridors),
    "television": (README, television),
    "watched": (FACES, watched),
    "watched aims": (FACES, watched_aims),
    "watched settings": (FACES, watched_settings),
}


def block(name):
    return re.compile(rf"(<!-- {name}: [^>]*-->\n)(.*?)(<!-- end of {name} -->)", re.DOTALL)


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # what Lightning asks of torch
@pytest.mark.filterwarnings("ignore:.*does not have many workers")  # Lightning's advice
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block, page.name, "exec"), names)


COMMANDS = sorted(
    {
        found
        for page in PAGES
        for found in re.findall(r"^(?: {4})?taskfree ([^#\n]+?) *(?:#.*)?$", page.read_text(), re.M)
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_are_understood(command, monkeypatch):
    """What they do is tried elsewhere; here, that they are spelled right."""
    understood = []
    for name in ("learn", "predict", "inspect", "report"):
        monkeypatch.setattr(f"taskfree.feed.{name}.run", understood.append)
    for name in ("tracks", "label"):
        monkeypatch.setattr(f"taskfree.faces.{name}.run", understood.append)
    for name in cli.EXPERIMENTS:
        monkeypatch.setattr(f"taskfree.experiments.{name}.run", understood.append)
    monkeypatch.setattr("taskfree.robots.record.run", understood.append)
    monkeypatch.setattr("taskfree.watch.run", understood.append)
    assert cli.main(shlex.split(command)) == 0
    assert len(understood) == 1


@pytest.mark.parametrize("name", WRITTEN)
def test_the_numbers_are_those_of_the_results(name):
    page, make = WRITTEN[name]
    found = block(name).search(page.read_text())
    assert found
    assert found[2].strip() == make().strip()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_pictures_and_links_exist(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target.partition("#")[0]).exists(), target


def test_the_comparison_is_the_same_on_both_pages():
    here, there = (
        re.search(r"(?:^\| .*taskfree.*\n)(?:^\|.*\n)+", page.read_text(), re.MULTILINE)
        for page in (README, ROOT / "docs/comparison.md")
    )
    assert "years of use" in here[0]
    assert here[0] == there[0]


def test_it_fits_what_the_makefile_does():
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"^make (\w+)", README.read_text(), re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)


if __name__ == "__main__" and "--write" in sys.argv:
    for name, (page, make) in WRITTEN.items():
        text = block(name).sub(
            lambda found, make=make: found[1] + make() + found[3], page.read_text()
        )
        page.write_text(text)
