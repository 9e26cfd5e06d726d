"""Checkpoints that survive a crash at any moment and are refused if anything is wrong with them.

A folder holds the last generations, one file each, written by one process at a time. A file is in
the safetensors format; its metadata has a manifest with a SHA-256 over the whole file. It is
written under a temporary name, flushed to disk and then renamed, so that a generation is there
whole or not at all. Nothing is ever unpickled.

    checkpoint.save("run", learner=learner, stream=stream)
    checkpoint.resume("run", learner=learner, stream=stream)  # at the first start: does nothing
"""

from taskfree._core.errors import CheckpointError
from taskfree.checkpoint.generations import Saving, peek, resume, save

__all__ = ["CheckpointError", "Saving", "peek", "resume", "save"]
