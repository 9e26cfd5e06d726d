"""How often the expert collides: ten corridors with many seeds, none left out.

The expert uses only its laser. So the camera can be off, and a flight takes seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from taskfree.paper import cache, publish, runner
from taskfree.paper.corridors import CorridorEnv, rollout
from taskfree.paper.corridors.themes import THEMES, corridor
from taskfree.robot import SIZE


class CameraOff:
    """A camera that is off."""

    def image(self, _: mujoco.MjData) -> Any:
        """A black image."""
        return np.zeros((SIZE, SIZE, 3), np.uint8)

    def close(self) -> None:
        """Nothing to release."""


def fly(job: tuple[str, int]) -> dict[str, Any]:
    """Fly through one corridor, to its end."""
    name, seed = job
    env = CorridorEnv(corridor(name, seed))
    env._camera = CameraOff()
    flown = rollout.fly(env, lambda _, info: info["expert"], seconds=300, seed=seed)
    return {"corridor": name, "seed": seed, **flown._asdict()}


def main() -> None:
    """Fly all flights and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("results/expert.json"))
    options = parser.parse_args()
    jobs = [(name, seed) for seed in range(options.seeds) for name in THEMES]
    flights = runner.run_all(fly, jobs, describe=lambda job: f"corridor {job[0]}, seed {job[1]}")
    minutes = sum(one["seconds"] for one in flights) / 60
    collisions = sum(one["collisions"] for one in flights)
    found = {
        "flights": len(flights),
        "without a collision": sum(one["collisions"] == 0 for one in flights),
        "to the end": sum(one["seconds"] < 300 for one in flights),
        "collisions per minute": round(collisions / minutes, 3),
        "metres": round(sum(one["metres"] for one in flights)),
    }
    print(found)  # noqa: T201
    versions = cache.versions() | {"mujoco": mujoco.__version__}
    content = {"command": f"python benchmarks/expert.py --seeds {options.seeds}",
               "versions": versions, "found": found, "each": flights}  # fmt: skip
    publish.write_results(options.out, content)


if __name__ == "__main__":
    main()
