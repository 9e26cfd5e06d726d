"""Section 4.4: a wheeled robot learns in an arena while its own network drives it.

Importing this registers the Gymnasium environment `taskfree/Arena-v0`.
"""

from gymnasium import register

from taskfree.paper.arena.env import ArenaEnv, SimulatedRobot
from taskfree.paper.arena.world import Arena

__all__ = ["Arena", "ArenaEnv", "SimulatedRobot"]

register("taskfree/Arena-v0", "taskfree.paper.arena.env:ArenaEnv", max_episode_steps=3000)
