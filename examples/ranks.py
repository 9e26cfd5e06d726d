"""Learn from one stream on several processes, and resume with any number of them.

    OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 examples/ranks.py
    OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 4 examples/ranks.py    # continues

On several machines, start the same command on each with torchrun's `--nnodes` and
`--rdzv-endpoint`; on GPUs, use the backend "nccl" and move model and samples to the rank's
device.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from taskfree import Learner, checkpoint
from taskfree.paper.streams import ball


def main() -> None:
    """Learn quadrant after quadrant of the ball, each rank from its shard of every batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--state", type=Path, default=Path("ranks"))
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Linear(100, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    learner = Learner(model, optimizer, loss=nn.CrossEntropyLoss(reduction="none"))
    checkpoint.resume(options.state, learner=learner)  # saved by any number of ranks
    start = f"step {learner.step}" if learner.step else "the start"
    print(f"rank {rank} of {ranks} continues from {start}", flush=True)

    stream = torch.Generator().manual_seed(learner.step)  # the same stream on every rank ...
    for number in range(options.steps):
        quadrant = 1 + number * 4 // options.steps
        x, y = ball.quadrant(quadrant, 40, stream)
        report = learner.learn(x[rank::ranks], y[rank::ranks])  # ... each takes its shard
        if rank == 0 and report.consolidated:
            print(f"step {report.step}: consolidated at a loss of {report.loss:.3f}", flush=True)

    checkpoint.save(options.state, learner=learner)  # all ranks send their shard, rank 0 writes
    dist.barrier()
    dist.destroy_process_group()
    # Everything is saved. At exit, Python can race with threads that gloo leaves behind, and abort.
    os._exit(0)


if __name__ == "__main__":
    main()
