"""Run a function in a fork and kill it (SIGKILL) at a random moment."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from subject import isolated


class Killer:
    """Kills functions at random moments of a run.

    Args:
        seed: of the moments.
        by_calls: a moment is a number of function calls, not a time. Then it does not depend on
            the machine's speed. Only a time can hit the inside of a system call.
    """

    def __init__(self, seed: int, by_calls: bool) -> None:
        self._draw, self._by_calls = random.Random(seed), by_calls
        self._latest = 0.0

    def measure(self, function: Callable[[], Any]) -> Any:
        """The result of a function that is not killed; its length limits the moments."""

        def measured() -> list[Any]:
            started, calls = perf_counter(), _count() if self._by_calls else [0]
            result = function()
            sys.setprofile(None)
            return [result, calls[0] if self._by_calls else perf_counter() - started]

        result, whole = isolated(measured)
        self._latest = 0.4 * whole  # so that a run is killed several times before it ends
        return result

    def attempt(self, function: Callable[[], int], kill: bool = True) -> int | None:
        """Run a function that returns an exit status, and kill it unless it ends before."""
        moment = self._draw.random() * self._latest if kill else None
        process = os.fork()
        if process == 0:
            status = 99
            try:
                torch.set_num_threads(1)
                if moment is not None and self._by_calls:
                    _count(kill_at=1 + int(moment))
                status = function()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        if moment is not None and not self._by_calls:
            time.sleep(moment)
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        if os.WIFSIGNALED(status):
            return None
        if os.WEXITSTATUS(status) == 99:
            raise RuntimeError("a fork failed")
        return os.WEXITSTATUS(status)


def _count(kill_at: int | None = None) -> list[int]:
    """Count calls and returns of functions from now on, and kill this process at one of them."""
    count = [0]

    def profile(_frame: object, _event: str, _argument: object) -> None:
        count[0] += 1
        if count[0] == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(profile)
    return count
