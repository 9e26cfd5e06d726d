"""The command `taskfree`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import taskfree

USAGE = """taskfree keeps a PyTorch model learning on a changing stream without forgetting.

usage: taskfree learn SOURCE --target COLUMN --state DIR    learn from a table, feed or folder
       taskfree predict SOURCE --state DIR                  what the learned network says
       taskfree inspect DIR                                 what it has learned, and when
       taskfree report DIR                                  the same as a page with figures
       taskfree watch DIR                                   the same while it learns, live
       taskfree tracks VIDEO... --out DIR    find faces in videos and follow them
       taskfree label DIR                    name these tracks on a page in your browser
       taskfree reproduce NAME [options]    run one of the paper's experiments
       taskfree record corridors [options]  have the expert fly the ten corridors, and keep it
       taskfree data NAME                   fetch what experiments use: alexnet, yunet, flights, ...
       taskfree --version

experiments:
  synthetic    points in 4-D, two quadrants one after the other (section 4.1, Figures 2 and 3)
  triggers     when to consolidate and how hard to hold: eight streams, ten triggers, no tuning
  soap         an AlexNet learns a series' actors by watching it (section 4.2, Figures 4 and 5)
  corridors    a drone learns to fly through four corridors (section 4.3, Figure 6)
  corridors10  ... through ten (the supplement)
  arena        a wheeled robot learns while it drives by its own network (section 4.4, Figure 7)

for example:
  taskfree learn prices.csv --target class --state prices  from a CSV, in one command
  taskfree reproduce synthetic --help                      every option, with its default
  taskfree reproduce synthetic --seeds 3 --sweep-seeds 0 --out demo
                                                 half a minute, report in demo/report.html
"""

EXPERIMENTS = ("synthetic", "triggers", "soap", "corridors", "corridors10", "arena")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the answer is the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    match words:
        case [] | ["-h" | "--help"] | ["reproduce"] | ["reproduce", "-h" | "--help"]:
            print(USAGE, end="")  # noqa: T201
            return 0 if words else 2
        case ["--version"]:
            print(f"taskfree {taskfree.__version__}")  # noqa: T201
            return 0
        case ["reproduce", name, *options] if name in EXPERIMENTS:
            return _run(f"reproduce {name}", f"taskfree.experiments.{name}", options)
        case [("learn" | "predict" | "inspect" | "report") as name, *options]:
            return _run(name, f"taskfree.feed.{name}", options)
        case ["watch", *options]:
            return _run("watch", "taskfree.watch", options)
        case [("tracks" | "label") as name, *options]:
            return _run(name, f"taskfree.faces.{name}", options)
        case ["data", *options]:
            return _run("data", "taskfree.data", options)
        case ["record", "corridors", *options]:
            return _run("record corridors", "taskfree.robots.record", options)
        case ["record", *_]:
            return _complain("there is taskfree record corridors; try it with --help")
        case ["reproduce", name, *_]:
            return _complain(f"no experiment is called {name!r}; there is {', '.join(EXPERIMENTS)}")
        case [word, *_]:
            return _complain(f"{word!r} is not a command; try taskfree --help")
    raise AssertionError(words)


def _run(name: str, module: str, options: list[str]) -> int:
    """Make the config that a module wants of the options, and run it."""
    try:
        import tyro

        command = import_module(module)
    except ModuleNotFoundError as error:
        extras = "cli,river"
        if "feed" in module:
            extras = "learn"
        elif any(word in module for word in ("faces", "soap")):
            extras = "cli,faces"
        elif any(word in module for word in ("robots", "corridors", "arena")):
            extras = "cli,robots"
        return _complain(f"{error.name} is not installed: pip install 'taskfree[{extras}]'")
    try:
        command.run(tyro.cli(command.Config, prog=f"taskfree {name}", args=options))
    except BrokenPipeError:  # whoever read the answers has read enough
        sys.stdout = None
    except (ValueError, TypeError, OSError) as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130
    return 0


def _complain(message: str) -> int:
    print(f"taskfree: {message}", file=sys.stderr)  # noqa: T201
    return 2
