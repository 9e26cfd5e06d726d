"""Simulated robots: worlds, cameras, a laser, an expert, and Gymnasium environments.

`pip install taskfree[robots]`, then `import taskfree.robots` and
`gymnasium.make("taskfree/Corridor-v0", corridor="B")` or `gymnasium.make("taskfree/Arena-v0")`.
"""

from gymnasium import register

from taskfree.robots.arena import Arena
from taskfree.robots.corridor import Corridor
from taskfree.robots.drive import ArenaEnv
from taskfree.robots.flight import CorridorEnv
from taskfree.robots.robot import Player, Recorder, Robot, RobotEnv

__all__ = [
    "Arena", "ArenaEnv", "Corridor", "CorridorEnv", "Player", "Recorder", "Robot", "RobotEnv",
]  # fmt: skip

register("taskfree/Corridor-v0", "taskfree.robots.flight:CorridorEnv", max_episode_steps=3000)
register("taskfree/Arena-v0", "taskfree.robots.drive:ArenaEnv", max_episode_steps=3000)
