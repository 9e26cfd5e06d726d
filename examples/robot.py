"""A robot of your own: what it has to do, and how a network learns while it drives.

    python examples/robot.py                   # records a short log in the simulator first
    python examples/robot.py my.safetensors    # plays a log of yours

A robot is anything with `picture`, `scan` and `drive`; examples/ros2.py is one for ROS 2. Record a
log with it first, try everything on the log, then let it drive.
"""

import sys
import tempfile
from pathlib import Path

import torch

from taskfree import Learner
from taskfree.onpolicy import OnPolicy
from taskfree.robots import Arena, Player, Recorder, Robot, RobotEnv, tiny
from taskfree.robots.drive import SimulatedRobot
from taskfree.which import Hardest


def learner() -> Learner:
    """A small network for pictures, and a buffer with as many of every action."""
    model = tiny.network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = torch.nn.CrossEntropyLoss(reduction="none")
    return Learner(model, optimizer, loss=loss, which=Hardest(30, balanced=True))


def record(robot: Robot, file: Path, steps: int) -> None:
    """The laser's expert drives, and everything is kept."""
    recorder = Recorder(robot)
    acting = OnPolicy(RobotEnv(recorder), None, policy=lambda _, info: info["expert"], seed=0)
    for _ in range(steps):
        acting.step()
    recorder.save(file)


def learn(robot: Robot, steps: int, budget: float | None = None) -> OnPolicy:
    """The network drives and learns. On a real robot, `budget` keeps learning from delaying it."""
    acting = OnPolicy(RobotEnv(robot), learner(), prepare=tiny.scaled, budget=budget, seed=0)
    right = 0
    for step, moment in zip(range(1, steps + 1), acting, strict=False):
        right += moment.action == moment.expert
        if step % 100 == 0:
            print(f"step {step}: acted as the expert would {right} % of the time")
            right = 0
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
    print(f"{done.frames} frames, {done.collisions} collisions, {done.put_off} put off")
