"""Tables about real tables: `taskfree learn` and what people would use instead."""

from tables.markdown import results, table

OURS = "taskfree learn"
SIMPLE = ("majority or mean", "same as last", "river: linear")
NAMES = {
    OURS: OURS,
    "majority or mean": "most frequent, or mean",
    "same as last": "same as last",
    "river: linear": "river linear",
    "river: Hoeffding adaptive tree": "river adaptive tree",
    "river: adaptive random forest": "river adaptive forest",
    "scikit-learn: SGD": "scikit-learn SGD",
    "scikit-learn: MLP": "scikit-learn MLP",
    "Vowpal Wabbit": "Vowpal Wabbit",
}


def _found(kind):
    """By stream, the rows of its models."""
    found = {}
    for row in results("tables")["summary"]:
        if kind in row:
            found.setdefault(row["stream"], {})[row["model"]] = row
    return found


def _table(kind, text):
    found = _found(kind)
    models = [name for name in NAMES if any(name in rows for rows in found.values())]
    lines = []
    for stream, rows in found.items():
        ours = rows[OURS]
        cells = [text(rows[name][kind][0]) if name in rows else "" for name in models]
        lines.append([stream + (" *" if ours["seen"] else ""), f"{ours['rows']:,}", *cells])
    ranks = [[rows[name]["rank"] for rows in found.values() if name in rows] for name in models]
    seeds = [max(rows[name]["seeds"] for rows in found.values() if name in rows) for name in models]
    lines.append(["mean rank", "", *(f"{sum(rank) / len(rank):.1f}" for rank in ranks)])
    lines.append(["seeds", "", *map(str, seeds)])
    return table(["table", "rows", *(NAMES[name] for name in models)], lines)


def classes():
    """The running accuracy."""
    return _table("accuracy", lambda value: f"{100 * value:.1f}")


def numbers():
    """The running mean absolute error."""

    def text(value):
        if value >= 1e6:
            return f"{value:.0e}"
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"

    return _table("error", text)


def short():
    """Where the promise does not hold."""
    lines = []
    for kind, sign in (("accuracy", 1), ("error", -1)):
        for stream, rows in _found(kind).items():
            best = max(SIMPLE, key=lambda name, rows=rows: sign * rows[name][kind][0])
            ours, other = rows[OURS][kind][0], rows[best][kind][0]
            if kind == "accuracy" and ours < other - 0.005:
                lines.append([stream, NAMES[best], f"{100 * (other - ours):.1f} points"])
            if kind == "error" and ours > other * 1.02:
                lines.append(
                    [stream, NAMES[best], f"{100 * (ours / other - 1):.1f} % of the error"]
                )
    count = sum(len(_found(kind)) for kind in ("accuracy", "error"))
    return table([f"of {count} tables", "better", "by"], lines or [["none", "", ""]])
