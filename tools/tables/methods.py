"""Tables about methods of continual learning: `taskfree reproduce methods`."""

from statistics import mean

from tables.markdown import percent, points, results, table

STUDY = (
    "two quadrants", "four quadrants", "drifting quadrants", "permuted images", "rotated images",
    "split images", "recurring images", "waves",
)  # fmt: skip


COMPONENTS = ("taskfree", "replay", "paper", "online", "joint")
"""Methods that are made of this library's components; the others are peers."""


def _rows():
    rows = results("methods/results")["summary"]
    have = {row["method"] for row in rows}
    return rows, [name for name in COMPONENTS if name in have]


def means():
    """Mean final scores over the streams, for every method and memory."""
    rows, methods = _rows()
    found = {(r["method"], r["stream"], r["memory"]): r for r in rows}
    streams = list(dict.fromkeys(row["stream"] for row in rows))
    sizes = sorted({row["memory"] for row in rows} - {0})

    def cell(method, names, size, measure="final"):
        have = [found.get((method, name, size)) or found.get((method, name, 0)) for name in names]
        return f"{100 * mean(row[measure][0] for row in have):.1f}" if all(have) else ""

    lines = []
    for method in methods:
        seeds = {row["seeds"] for row in rows if row["method"] == method}
        cells = [cell(method, STUDY, size) for size in sizes]
        cells += [cell(method, streams, size) for size in sizes]
        running = "" if method == "joint" else cell(method, streams, 500, "running")
        lines.append([method, *cells, running, "/".join(map(str, sorted(seeds)))])
    heading = [
        "", *(f"the study's eight, {size}" for size in sizes),
        *(f"all sixteen, {size}" for size in sizes), "running, 500", "seeds",
    ]  # fmt: skip
    return table(heading, lines, bold=lambda row: row[0] == "taskfree")


def by_stream():
    """Final scores with 500 samples: one line per stream, one column per method."""
    rows, methods = _rows()
    found = {(r["method"], r["stream"], r["memory"]): r["final"] for r in rows}
    streams = list(dict.fromkeys(row["stream"] for row in rows))
    from_study = [name for name in STUDY if name in streams]
    best = {
        row["stream"]: row
        for row in results("methods/results")["best peers"]
        if row["memory"] == 500
    }

    def peer(stream):
        if stream not in best:
            return ["", ""]
        name = best[stream]["peer"].removeprefix("Avalanche ")
        return [f"{percent(best[stream]['final'])} ({name})", percent(best[stream]["difference"])]

    methods = [name for name in methods if any((name, s, 500) in found for s in streams)] + [
        name for name in methods if any((name, s, 0) in found for s in streams)
    ]
    lines = [
        [
            stream,
            *(percent(found.get((m, stream, 500)) or found.get((m, stream, 0))) for m in methods),
            *peer(stream),
        ]
        for stream in [*from_study, *(name for name in streams if name not in from_study)]
    ]
    return table(["", *methods, "best of Avalanche", "taskfree above it"], lines)


def peers():
    """The methods of Avalanche with 500 samples: means over the streams that all have run."""
    rows = [r for r in results("methods/results")["summary"] if r["memory"] in (0, 500)]
    have = {(r["method"], r["stream"]): r for r in rows}
    names = list(dict.fromkeys(r["method"] for r in rows))
    others = [name for name in names if name not in COMPONENTS]
    shared = [
        stream
        for stream in dict.fromkeys(r["stream"] for r in rows)
        if all((name, stream) in have for name in others)
    ]
    lines = []
    for name in names:
        if all((name, stream) in have for stream in shared):
            own = [have[name, stream] for stream in shared]
            seeds = "/".join(map(str, sorted({row["seeds"] for row in own})))
            running = "" if name == "joint" else _mean(own, "running", 100)
            lines.append([
                name, _mean(own, "final", 100), running, _mean(own, "forgetting", 100),
                f"{mean(row['samples per step'][0] for row in own):.0f}",
                _mean(own, "seconds", 1), seeds,
            ])  # fmt: skip
    lines.sort(key=lambda line: -float(line[1]))
    heading = [
        f"mean of {len(shared)} streams", "final", "running", "forgetting", "samples per time step",
        "seconds", "seeds",
    ]  # fmt: skip
    return table(heading, lines, bold=lambda row: row[0] == "taskfree")


def _mean(rows, measure, scale):
    return f"{scale * mean(row[measure][0] for row in rows):.1f}"


def teacher():
    """How the default's teacher was chosen: the chosen one is in bold."""
    found = results("teacher")
    runs, settings = found["runs"], found["settings"]
    cases = sorted({(run["stream"], run["memory"]) for run in runs})
    sizes = sorted({size for _, size in cases})

    def score(setting, what, stream, size):
        return mean(
            run[what]
            for run in runs
            if (run["setting"], run["stream"], run["memory"]) == (setting, stream, size)
        )

    def means(setting, size):
        own = [case for case in cases if case[1] == size]
        both = (mean(score(setting, what, *case) for case in own) for what in ("final", "running"))
        return " / ".join(map(points, both))

    def behind(setting):
        """In how many cases the running score is more than 2 points below plain replay's."""
        return sum(
            score(setting, "running", *case) < score("replay", "running", *case) - 0.02
            for case in cases
        )

    def final(setting):
        return mean(score(setting, "final", *case) for case in cases)

    chosen = min(settings, key=lambda name: (behind(name), -final(name)))
    lines = [["plain replay", "", "", "", *(means("replay", size) for size in sizes), ""]]
    for name, values in settings.items():
        memories = [f"{1 / (1 - values[what]):.0f}" for what in ("outputs", "weights")]
        lines.append([
            name, f"{values['strength']:g}", *memories, *(means(name, size) for size in sizes),
            str(behind(name)),
        ])  # fmt: skip
    heading = [
        "", "strength", "outputs", "weights", *(f"{size} samples" for size in sizes),
        f"behind replay in, of {len(cases)}",
    ]  # fmt: skip
    return table(heading, lines, bold=lambda row: row[0] == chosen)


def short():
    """Where the default is below plain replay."""
    claims = results("methods/results")["claims"]
    lines = []
    for name in claims:
        if isinstance(claims[name], dict):
            where = [f"{case} samples: {percent(spread)}" for case, spread in claims[name].items()]
            lines.append([name, "; ".join(where) or "none"])
    compared = claims["compared with plain replay"]
    return table([f"of {compared} pairs of a stream and a memory", "points"], lines)


def readme():
    """Mean final scores of a few methods, and three streams that tell most."""
    rows, methods = _rows()
    found = {(r["method"], r["stream"], r["memory"]): r["final"][0] for r in rows}
    streams = list(dict.fromkeys(row["stream"] for row in rows))
    shown = [name for name in ("online", "replay", "taskfree", "joint") if name in methods]
    cases = [
        ("mean of sixteen streams", streams, 30),
        ("mean of sixteen streams", streams, 500),
        ("mean of sixteen streams", streams, 2000),
        ("rotated images", ["rotated images"], 500),
        ("20 % of the labels are wrong", ["20 % wrong labels"], 500),
        ("classes arrive in pairs", ["class-incremental images"], 500),
    ]

    def cell(method, names, size):
        own = [found.get((method, name, size), found.get((method, name, 0))) for name in names]
        text = f"{100 * mean(own):.1f}" if None not in own else ""
        return f"**{text}**" if method == "taskfree" else text

    lines = [
        [f"{name}, {size} samples", *(cell(method, names, size) for method in shown)]
        for name, names, size in cases
    ]
    return table(["", *shown], lines)
