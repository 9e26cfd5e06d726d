"""Section 4.3 and the supplement: a drone learns collision avoidance, corridor after corridor.

Importing this registers the Gymnasium environment `taskfree/Corridor-v0`.
"""

from gymnasium import register

from taskfree.paper.corridors.env import CorridorEnv
from taskfree.paper.corridors.world import Corridor

__all__ = ["Corridor", "CorridorEnv"]

register("taskfree/Corridor-v0", "taskfree.paper.corridors.env:CorridorEnv", max_episode_steps=3000)
