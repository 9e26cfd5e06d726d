"""Keys of cached results: other settings or other versions have another key."""

from __future__ import annotations

import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch


def cache_key(content: Any) -> str:
    """A short digest of settings.

    >>> cache_key({"lr": 0.1, "seed": 0}) == cache_key({"seed": 0, "lr": 0.1})
    True
    """
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def run_file(folder: Path, name: str, settings: Any, suffix: str = ".json") -> Path:
    """The file of a run: its name, and a key of its settings and of the software versions.

    >>> run_file(Path("results"), "online, no buffer 3", {"lr": 0.1}).name[:19]
    'online-no-buffer-3-'
    """
    key = cache_key([settings, versions()])
    return folder / "runs" / f"{name.replace(', ', '-').replace(' ', '-')}-{key}{suffix}"


def versions() -> dict[str, str]:
    """The versions of Python, torch and taskfree, which are part of every result."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "taskfree": version("taskfree"),
    }
