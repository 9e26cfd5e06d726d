"""The command `taskfree` in a forked process, killed at any moment.

A server process imports the library once and forks: each import takes seconds. The moment is
a number of function calls, so that it does not depend on how fast the machine is.
"""

import multiprocessing
import os
import signal
import sys

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["taskfree.cli.learn", "torch._dynamo"])


def run(*words, kill_after=None):
    """Run the command; its exit status, and how many function calls it made in all.

    With `kill_after`, it is killed (SIGKILL) after this many calls, if it makes as many. Its status
    is then `-signal.SIGKILL` and the number of calls None.
    """
    answer, told = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_run, args=(told, list(map(str, words)), kill_after))
    process.start()
    told.close()
    try:
        calls = answer.recv()
    except EOFError:
        calls = None
    process.join()
    return process.exitcode, calls


def _run(told, words, kill_after):
    from taskfree.cli import main

    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stderr.fileno())
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    calls = 0

    def count(_frame, _event, _argument):
        nonlocal calls
        calls += 1
        if calls == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    status = main(words)
    sys.setprofile(None)
    told.send(calls)
    sys.exit(status)
