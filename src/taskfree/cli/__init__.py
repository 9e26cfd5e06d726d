"""The command `taskfree`: one file per command, imported only when it is used."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import NamedTuple

__all__ = ["COMMANDS", "EXPERIMENTS", "Command", "main"]

USAGE = """taskfree keeps a PyTorch model learning on a changing stream without forgetting.

usage: taskfree learn SOURCE --target COLUMN --state DIR    learn from a table, feed or folder
       taskfree predict SOURCE --state DIR                  predictions of the learned network
       taskfree inspect DIR                                 what it has learned, and when
       taskfree report DIR                                  the same as an HTML page with figures
       taskfree watch DIR                                   the same live, while it learns
       taskfree export DIR --onnx FILE                      the network for other programs
       taskfree reproduce NAME [options]                    run one of the paper's experiments
       taskfree record corridors [options]                  record the expert's flights
       taskfree tracks VIDEO... --out DIR                   detect and track faces in videos
       taskfree label DIR                                   name these tracks in your browser
       taskfree data NAME                                   download what experiments use
       taskfree --version

experiments:
  synthetic    points in 4-D, two quadrants one after the other (section 4.1, Figures 2 and 3)
  triggers     when to consolidate and how strongly to regularize: eight streams, nine settings
  methods      the default against other methods of continual learning: sixteen streams
  tv           an AlexNet learns the actors of a TV series by watching it (section 4.2)
  corridors    a drone learns to fly through four corridors (section 4.3, Figure 6)
  corridors10  ... through ten (the supplement)
  arena        a wheeled robot learns while driving by its own network (section 4.4, Figure 7)

for example:
  taskfree learn prices.csv --target class --state prices  learn a CSV file
  taskfree learn --help                                    every option, with its default
  taskfree reproduce synthetic --seeds 3 --sweep-seeds 0 --out demo
                                                           half a minute; see demo/report.html
"""


class Command(NamedTuple):
    """Where a command is implemented."""

    module: str
    """A module with the options and `run`."""
    options: str
    """The name of the dataclass of its options."""
    extra: str
    """The extra that installs what it needs."""


COMMANDS = {
    "learn": Command("taskfree.cli.learn", "Learn", "learn"),
    "predict": Command("taskfree.cli.predict", "Predict", "learn"),
    "inspect": Command("taskfree.cli.inspect", "Inspect", "learn"),
    "report": Command("taskfree.cli.report", "WriteReport", "learn"),
    "watch": Command("taskfree.cli.watch", "Watch", "learn"),
    "export": Command("taskfree.cli.export", "Export", "onnx"),
    "record corridors": Command("taskfree.paper.corridors.recording", "Recording", "paper"),
    "tracks": Command("taskfree.paper.tv.tracks", "TrackFaces", "paper"),
    "label": Command("taskfree.paper.tv.label", "LabelTracks", "paper"),
    "data": Command("taskfree.paper.data", "Download", "paper"),
}
EXPERIMENTS = {
    "synthetic": Command("taskfree.paper.synthetic.experiment", "SyntheticConfig", "paper"),
    "triggers": Command("taskfree.paper.triggers.experiment", "TriggersConfig", "paper"),
    "methods": Command("taskfree.paper.methods.experiment", "MethodsConfig", "paper"),
    "tv": Command("taskfree.paper.tv.experiment", "TVConfig", "paper"),
    "corridors": Command("taskfree.paper.corridors.experiment", "CorridorsConfig", "paper"),
    "corridors10": Command("taskfree.paper.corridors.experiment", "TenCorridorsConfig", "paper"),
    "arena": Command("taskfree.paper.arena.experiment", "ArenaConfig", "paper"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    match words:
        case [] | ["-h" | "--help"] | ["reproduce"] | ["reproduce", "-h" | "--help"]:
            print(USAGE, end="")  # noqa: T201 - the answer
            return 0 if words else 2
        case ["--version"]:
            print(f"taskfree {version('taskfree')}")  # noqa: T201 - the answer
            return 0
        case ["reproduce", name, *options] if name in EXPERIMENTS:
            return _run(f"reproduce {name}", EXPERIMENTS[name], options)
        case ["reproduce", name, *_]:
            return _fail(f"no experiment is called {name!r}; there is {', '.join(EXPERIMENTS)}")
        case ["record", "corridors", *options]:
            return _run("record corridors", COMMANDS["record corridors"], options)
        case ["record", *_]:
            return _fail("there is taskfree record corridors; try it with --help")
        case [name, *options] if name in COMMANDS:
            return _run(name, COMMANDS[name], options)
    return _fail(f"{words[0]!r} is not a command; try taskfree --help")


def _run(name: str, command: Command, options: list[str]) -> int:
    """Parse the options of a command and run it."""
    try:
        import tyro

        module = import_module(command.module)
        parsed = tyro.cli(getattr(module, command.options), prog=f"taskfree {name}", args=options)
        module.run(parsed)
    except ModuleNotFoundError as error:  # on import, or when it is first used
        install = f"pip install 'taskfree[{command.extra}]'"
        return _fail(f"taskfree {name} needs {error.name}, which is not installed: {install}")
    except BrokenPipeError:  # the reader of the output has left
        sys.stdout = None
    except (ValueError, TypeError, OSError) as error:
        return _fail(str(error), getattr(error, "status", 2))
    except KeyboardInterrupt:
        _fail("interrupted")
        return 130
    return 0


def _fail(message: str, status: int = 2) -> int:
    print(f"taskfree: {message}", file=sys.stderr)  # noqa: T201 - the error
    return status
