"""How often the expert collides: ten corridors of many seeds, none left out.

The expert steers by its laser alone, so that the camera can stay shut, and a flight takes seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from taskfree.experiments import pool
from taskfree.robots import CorridorEnv, closed_loop
from taskfree.robots.camera import SIZE
from taskfree.robots.worlds import THEMES, corridor


class Shut:
    """A camera that sees nothing."""

    def picture(self, _: mujoco.MjData) -> Any:
        """Black."""
        return np.zeros((SIZE, SIZE, 3), np.uint8)

    def close(self) -> None:
        """Nothing to give back."""


def fly(job: tuple[str, int]) -> dict[str, Any]:
    """One corridor, to its end."""
    name, seed = job
    env = CorridorEnv(corridor(name, seed))
    env._camera = Shut()
    flown = closed_loop.fly(env, lambda _, info: info["expert"], seconds=300, seed=seed)
    return {"corridor": name, "seed": seed, **flown._asdict()}


def main() -> None:
    """Fly all and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("results/expert.json"))
    options = parser.parse_args()
    jobs = [(name, seed) for seed in range(options.seeds) for name in THEMES]
    flights = pool.run_all(fly, jobs, describe=lambda job: f"corridor {job[0]}, seed {job[1]}")
    minutes = sum(one["seconds"] for one in flights) / 60
    collisions = sum(one["collisions"] for one in flights)
    found = {
        "flights": len(flights),
        "without a collision": sum(one["collisions"] == 0 for one in flights),
        "to the end": sum(one["seconds"] < 300 for one in flights),
        "collisions a minute": round(collisions / minutes, 3),
        "metres": round(sum(one["metres"] for one in flights)),
    }
    print(found)  # noqa: T201
    versions = pool.versions() | {"mujoco": mujoco.__version__}
    content = {"command": f"python benchmarks/expert.py --seeds {options.seeds}",
               "versions": versions, "found": found, "each": flights}  # fmt: skip
    pool.write_json(options.out, content)


if __name__ == "__main__":
    main()
