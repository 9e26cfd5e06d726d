"""Your own robot: the interface it needs, and how a network learns while it drives.

    python examples/robot.py                   # records a short log in the simulator first
    python examples/robot.py my.safetensors    # replays your log

A robot is anything with `image`, `scan` and `drive`; examples/ros2.py is one for ROS 2. First
record a log with it, then try everything on the log, then let it drive.
"""

import sys
import tempfile
from pathlib import Path

import torch

from taskfree import Learner
from taskfree.onpolicy import OnPolicy
from taskfree.paper.arena import Arena, SimulatedRobot
from taskfree.paper.simulation import tiny_v2
from taskfree.robot import Player, Recorder, Robot, RobotEnv
from taskfree.which import Hardest


def learner() -> Learner:
    """A small network for images, with a buffer that holds equally many samples of each action."""
    model = tiny_v2.network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = torch.nn.CrossEntropyLoss(reduction="none")
    return Learner(model, optimizer, loss=loss, which=Hardest(30, balanced=True))


def record(robot: Robot, file: Path, steps: int) -> None:
    """The expert, which sees the laser, drives; everything is recorded."""
    recorder = Recorder(robot)
    acting = OnPolicy(RobotEnv(recorder), None, policy=lambda _, info: info["expert"], seed=0)
    for _ in range(steps):
        acting.step()
    recorder.save(file)


def learn(robot: Robot, steps: int, budget: float | None = None) -> OnPolicy:
    """The network drives and learns. On a real robot, `budget` limits the time of learning."""
    acting = OnPolicy(
        RobotEnv(robot), learner(), prepare=tiny_v2.standardize, budget=budget, seed=0
    )
    agreed = 0
    for step, moment in zip(range(1, steps + 1), acting, strict=False):
        agreed += moment.action == moment.expert
        if step % 100 == 0:
            print(f"step {step}: agreed with the expert {agreed} % of the time")
            agreed = 0
    return acting


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        log = Path(sys.argv[1])
    else:
        log = Path(tempfile.mkdtemp()) / "log.safetensors"
        simulated = SimulatedRobot(Arena())
        simulated.put(0.5, 0.0, 1.5)
        record(simulated, log, steps=300)
    player = Player(log)
    done = learn(player, steps=len(player))
    print(f"{done.frames} frames, {done.collisions} collisions, {done.postponed} steps postponed")
