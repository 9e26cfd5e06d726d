"""Run commands of `taskfree` without a module that they need: what a small installation says.

`python blocked.py` reads a list of cases, [words, module], as JSON from standard input and answers
with a list of [exit status, errors]. Each case runs in a fork, so that none changes another.
"""

import importlib
import json
import os
import sys
import tempfile
import traceback


def block(module):
    """Make a module missing: importing it, or a part of it, raises what Python raises."""
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        del sys.modules[name]

    class Missing:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == module:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Missing)


def run(words, module):
    """The exit status and the errors of a command that cannot import a module."""
    with tempfile.TemporaryFile("w+") as errors:
        process = os.fork()
        if process == 0:
            status = 99
            try:
                os.dup2(errors.fileno(), 2)
                block(module)
                from taskfree.cli import main

                status = main(words)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        _, status = os.waitpid(process, 0)
        errors.seek(0)
        return os.waitstatus_to_exitcode(status), errors.read()


if __name__ == "__main__":
    cases = json.load(sys.stdin)
    for name in ("torch", *{module for _, module in cases}):
        importlib.import_module(name)  # once, for all cases
    json.dump([run(*case) for case in cases], sys.stdout)
