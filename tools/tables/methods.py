"""Tables about methods of continual learning: `taskfree reproduce methods`."""

from statistics import mean

from tables.markdown import percent, results, table

STUDY = (
    "two quadrants", "four quadrants", "drifting quadrants", "permuted images", "rotated images",
    "split images", "recurring images", "waves",
)  # fmt: skip


def _rows():
    rows = results("methods/results")["summary"]
    order = ("taskfree", "replay", "paper")
    methods = sorted(
        dict.fromkeys(row["method"] for row in rows),
        key=lambda name: order.index(name) if name in order else len(order),
    )
    return rows, methods


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
    lines = [
        [
            stream,
            *(percent(found.get((m, stream, 500)) or found.get((m, stream, 0))) for m in methods),
        ]
        for stream in [*from_study, *(name for name in streams if name not in from_study)]
    ]
    return table(["", *methods], lines)


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
