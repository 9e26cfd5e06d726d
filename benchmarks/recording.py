"""How fast flights are recorded, in control steps per second, with each camera on all cores."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any, get_args

import mujoco

from taskfree.paper import cache, publish
from taskfree.paper.corridors import recording
from taskfree.paper.simulation.camera import Kind


def main() -> None:
    """Record short flights with each camera and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiles", type=int, default=10, help="length of each of the ten corridors")
    parser.add_argument("--out", type=Path, default=Path("results/recording.json"))
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for camera in get_args(Kind):
        with tempfile.TemporaryDirectory() as folder:
            config = recording.Recording(
                out=Path(folder), camera=camera, tiles=options.tiles, bends=options.tiles // 2
            )
            started = perf_counter()
            rows = recording.run(config)
            seconds = perf_counter() - started
        frames = sum(row["frames"] for row in rows)
        found[camera] = {
            "control steps": frames,
            "seconds": round(seconds, 1),
            "control steps per second": round(frames / seconds, 1),
        }
    content = {
        "command": f"python benchmarks/recording.py --tiles {options.tiles}",
        "versions": cache.versions() | {"mujoco": mujoco.__version__},
        "cores": os.cpu_count(),
        "cameras": found,
    }
    publish.write_results(options.out, content)
    print(found)  # noqa: T201


if __name__ == "__main__":
    main()
