"""Simulated robots: worlds, cameras, a laser, an expert, and Gymnasium environments.

`pip install taskfree[robots]`, then `import taskfree.robots` and
`gymnasium.make("taskfree/Corridor-v0", corridor="B")`.
"""

from gymnasium import register

from taskfree.robots.corridor import Corridor
from taskfree.robots.flight import CorridorEnv

__all__ = ["Corridor", "CorridorEnv"]

register("taskfree/Corridor-v0", "taskfree.robots.flight:CorridorEnv", max_episode_steps=3000)
