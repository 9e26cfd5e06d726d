"""Tables about the library: speed, reliability, triggers, tabular data, adapters."""

from tables.markdown import percent, points, results, summary, table

NETWORKS = ("MLP", "Tiny v2", "AlexNet")


def _ratio(measure, network, contestant="taskfree", samples=None):
    return next(
        row["ratio"]
        for row in results("speed/speed")["rows"]
        if (row["measure"], row["network"]) == (measure, network)
        and contestant in row["contestant"]
        and samples in (None, row["samples"])
    )


def default_step():
    """A time step of the default, part by part, against replay by hand."""
    rows = results("replay")["rows"]
    found = {(row["contestant"], row["network"]): row["ratio"] for row in rows}
    networks = [name for name in NETWORKS if any(row["network"] == name for row in rows)]
    lines = [
        [contestant, *(f"{found[contestant, name]:.2f}" for name in networks)]
        for contestant in dict.fromkeys(row["contestant"] for row in rows)
    ]
    return table(["time step", *networks], lines, bold=lambda row: "default" in row[0])


def speed_targets():
    """What was measured, the target, and whether it was met."""
    stream, every = _ratio("stream", "MLP", "proximal"), _ratio("stream", "MLP", "every step")
    memory = next(
        row for row in results("speed/speed")["rows"] if row["measure"] == "extra peak memory"
    )

    def faster(case):
        return next(row["faster by"] for row in results("ranks")["rows"] if row["case"] == case)

    found = [
        ("exact importance, MLP, 100 samples", _ratio("importance", "MLP"), "most", 2),
        ("exact importance, Tiny v2", _ratio("importance", "Tiny v2", samples=100), "most", 1.15),
        ("exact importance, AlexNet", _ratio("importance", "AlexNet", samples=100), "most", 1.15),
        ("extra peak memory of importance, AlexNet, in copies of the parameters",
         memory["copies of the parameters"], "most", 1),
        ("time step, AlexNet", _ratio("step", "AlexNet"), "most", 1.05),
        ("time step, Tiny v2", _ratio("step", "Tiny v2"), "most", 1.10),
        ("time step, MLP", _ratio("step", "MLP"), "most", 1.15),
        *(
            (f"time step, fully connected, {size} parameters",
             _ratio("step", f"connected {size}"), "most", 1.15)
            for size in ("1e+05", "1e+06", "4e+06")
        ),
        ("stream: Avalanche's replay + MAS, divided by ours",
         _ratio("stream", "MLP", "replay + MAS") / stream, "least", 8),
        ("the same, with ours also consolidating in every step",
         _ratio("stream", "MLP", "replay + MAS") / every, "", None),
        ("stream: the authors' method on tensors, divided by ours",
         _ratio("stream", "MLP", "on tensors") / stream, "least", 3),
        ("stream: the authors' demo, divided by ours",
         _ratio("stream", "MLP", "their demo") / stream, "least", 3),
        ("speed-up of two ranks, Tiny v2, 300 samples", faster("Tiny v2, 300 samples"), "least",
         1.2),
        ("speed-up of two ranks, AlexNet, 64 samples", faster("AlexNet, 64 samples"), "least", 1.3),
        ("speed-up of two ranks, Tiny v2, 60 samples", faster("Tiny v2, 60 samples"), "", None),
        ("speed-up of two ranks, MLP, 50 samples", faster("MLP, 50 samples"), "", None),
    ]  # fmt: skip

    def row(name, value, bound, target):
        met = target is None or (value <= target if bound == "most" else value >= target)
        wanted = "" if target is None else f"at {bound} {target:g}"
        return [name, f"{value:.2f}", wanted, "" if met else "**missed**"]

    return table(["ratio", "measured", "target", ""], [row(*one) for one in found])


def reliability():
    """What was attacked, what was found, and that the controls failed."""

    def number(value):
        whole = isinstance(value, int) and not isinstance(value, bool)
        return f"{value:,}" if whole else str(value)

    def text(found):
        if not isinstance(found, dict):
            return str(found)
        simple = {
            name: value
            for name, value in found.items()
            if not isinstance(value, dict | list) or len(value) == 1
        }
        return ", ".join(f"{name}: {number(value)}" for name, value in simple.items())

    rows = []
    for row in results("reliability")["results"].values():
        controls = "; ".join(f"*{name}*: {text(found)}" for name, found in row["controls"].items())
        held = "held" if row["held"] and row["controls failed"] else "**did not hold**"
        rows.append([row["check"], text(row["found"]), controls, held])
    return table(["check", "found", "found in its control", ""], rows)


def _trigger_rows():
    rows = results("triggers/results")["summary"]
    return [row for row in rows if not row["setting"].startswith("strength")]


def trigger_scores():
    """The final score of every trigger on every stream."""
    rows = _trigger_rows()
    streams = list(dict.fromkeys(row["stream"] for row in rows))
    found = {(row["stream"], row["setting"]): row["final"] for row in rows}
    lines = []
    for setting in dict.fromkeys(row["setting"] for row in rows):
        cells = [found[stream, setting] for stream in streams]
        mean = f"{100 * sum(value for value, _ in cells) / len(cells):.1f}"
        lines.append([setting, *map(percent, cells), mean])
    return table(["", *streams, "mean"], lines, bold=lambda row: row[0] == "default")


def trigger_means():
    """Other measures of the triggers, as means over the streams."""
    scales = {"final": 100, "average": 100, "forgetting": 100, "consolidations": 1}
    rows = _trigger_rows()
    lines = []
    for setting in dict.fromkeys(row["setting"] for row in rows):
        own = [row for row in rows if row["setting"] == setting]
        means = (n * sum(row[key][0] for row in own) / len(own) for key, n in scales.items())
        lines.append([setting, *(f"{value:.1f}" for value in means)])
    heading = ["mean over the streams", "final", "over time", "forgetting", "consolidations"]
    return table(heading, lines, bold=lambda row: row[0] == "default")


def trigger_targets():
    """The targets of the default trigger, and whether they were met."""
    found = results("triggers/results")["aims"]
    part = found["of the tuned Plateau's gain, the default has"]
    below = found["streams where the default is below online by more than a standard error"]
    empty, many = found["of them without a consolidation"], found["of them with more than 3"]
    near = found["streams where that is at most 2 points"]
    gains = found["gain over online, mean of all streams"]
    apart = found["points that the best strength of the grid is better than the default's"]
    total = found["stretches between changes"]
    rows = [
        ("at least 95 % of the gain over online that the tuned Plateau has, mean over the streams",
         f"{100 * part:.0f} % ({points(gains['default'])} and "
         f"{points(gains['Plateau, tuned'])} points)", part >= 0.95),
        ("below online by more than a standard error on no stream",
         ", ".join(f"{k}: {points(v)} points" for k, v in below.items()) or "on none", not below),
        (f"a consolidation between any two changes at least 100 steps apart ({total} cases)",
         f"{empty} without", empty == 0),
        ("at most 3 consolidations in each of them", f"{many} with more", many == 0),
        ("default strength within 2 points of the best over four decades on 5 streams",
         f"on {near} of {len(apart)}; largest gap {points(max(apart.values()))} points", near >= 5),
    ]  # fmt: skip
    lines = [[target, reached, "" if met else "**missed**"] for target, reached, met in rows]
    return table(["target", "reached", ""], lines)


def rows_per_second():
    """How fast `taskfree learn` reads and learns a CSV file."""
    found = results("rows")
    early, late = found["MiB after a quarter and at the end"]
    speed = found["rows per second"]
    return table(
        [f"{found['rows']:,} rows of {found['columns']} columns, one core", "measured", "target"],
        [
            [
                "`taskfree learn`, rows per second",
                f"{speed['taskfree learn']:,}",
                "at least 25,000",
            ],
            ["hand-written loop, rows per second", f"{speed['plain']:,}", ""],
            ["hand-written loop, faster by", f"{found['plain is faster by']:.2f}", "at most 1.5"],
            ["memory after a quarter and at the end (MiB)", f"{early:.0f}, {late:.0f}", "flat"],
        ],
    )


def real_streams():
    """Ours and river on real streams, with what they know at the end."""
    columns = {
        "accuracy": "prequential accuracy", "balanced accuracy": "balanced accuracy",
        "at the end, all quarters": "final accuracy on all quarters", "forgetting": "forgetting",
    }  # fmt: skip

    def cell(row, key):
        mean, spread = (100 * value for value in row[key])
        return f"{mean:.1f}" + (f" ± {spread:.1f}" if row["seeds"] > 1 else "")

    lines = [
        [row["stream"], row["contestant"], *(cell(row, key) for key in columns)]
        for row in results("streams")["summary"]
    ]
    heading = ["stream", "model", *columns.values()]
    return table(heading, lines, bold=lambda row: row[1] == "taskfree learn")


def adapters():
    """What the examples print: without and with taskfree, in each library."""
    found = results("adapters")["percent"]
    lines = []
    for name, title, extra, of in (
        ("with_river", "river", "`river`", "ten digits, two classes at a time"),
        ("with_sklearn", "scikit-learn", "`sklearn`", "the same, by `partial_fit`"),
        ("with_lightning", "Lightning", "`lightning`", "the first of two quadrants"),
        ("with_avalanche", "Avalanche", "`avalanche`", "the same"),
        ("with_gymnasium", "Gymnasium", "none", "the first of two rooms, while acting"),
        ("own_loop", "your own loop", "none", "the first of two quadrants"),
    ):
        ours = [
            f"{value} %{key.removeprefix('taskfree')}"
            for key, value in found[name].items()
            if key.startswith("taskfree")
        ]
        link = f"[{title}](../examples/{name}.py)"
        lines.append([link, extra, f"{found[name]['plain']} %", ", ".join(ours), of])
    return table(["library", "extra", "plain", "with taskfree", "accuracy on"], lines)


def three_experiments():
    """Online learning, replay, continual and joint learning in three experiments."""
    ball, corridors, tv = (summary(name) for name in ("synthetic", "corridors10", "tv"))
    balanced = "balanced accuracy"

    def row(text, *cells):
        online, replay, ours, joint = map(percent, cells)
        return [text, online, replay, f"**{ours}**", joint]

    return table(
        ["final accuracy (%)", "online", "online + replay", "continual", "shuffled"],
        [
            row("points in 4-D from two quadrants, 20 seeds",
                ball["online, no buffer"]["total"], ball["online"]["total"],
                ball["online continual"]["total"], ball["joint (shuffled)"]["total"]),
            row("drone in ten corridors, balanced accuracy, 3 seeds",
                corridors["online, no buffer"][balanced],
                corridors["online, class-balanced"][balanced],
                corridors["online continual, class-balanced"][balanced],
                corridors["online joint"][balanced]),
            row("actors in six TV episodes, 3 seeds",
                tv["online, no hard buffer"]["accuracy"], tv["online"]["accuracy"],
                tv["online continual"]["accuracy"], tv["online joint"]["accuracy"]),
        ],
    )  # fmt: skip
