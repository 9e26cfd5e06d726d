"""Real processes that form a process group, for tests of learning on several ranks."""

import datetime
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def _rank(rank, function, ranks, meeting, arguments):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks,
        timeout=datetime.timedelta(minutes=10),
    )  # fmt: skip
    function(rank, *arguments)
    dist.barrier()  # gloo aborts if a rank leaves while another is not done
    dist.destroy_process_group()
    # The test is over. The exit of the interpreter races with threads of gloo, which cannot be
    # joined here, and aborts once in a thousand times on a busy machine.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def run(function, ranks, folder, *arguments):
    """Call `function(rank, *arguments)` on each rank; raise if one of them does."""
    meeting = folder / f"meeting-{function.__name__}-{ranks}"
    meeting.unlink(missing_ok=True)
    mp.start_processes(
        _rank, (function, ranks, meeting, arguments), nprocs=ranks, start_method="spawn"
    )
