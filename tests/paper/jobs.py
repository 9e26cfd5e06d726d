"""Jobs for tests of the runner, in a module that a new process imports quickly."""

import os
import time
from pathlib import Path

import torch

from taskfree.paper import cache


def double(job):
    return {"double": 2 * job["number"], "process": os.getpid(), "threads": torch.get_num_threads()}


def fail_on_odd(number):
    if number % 2:
        raise ValueError(f"job {number} failed")
    return number


def file(job):
    return cache.run_file(Path(job["folder"]), f"run, {job['number']}", job)


def sleep(path):
    """Write the id of this process to a file, and sleep for longer than any test takes."""
    unfinished = Path(f"{path}.writing")
    unfinished.write_text(str(os.getpid()))
    unfinished.rename(path)
    time.sleep(3600)
