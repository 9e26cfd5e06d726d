"""The package's face: what importing it does, and what it may import."""

import subprocess
import sys

import taskfree

CORE = [
    "advice", "arguments", "batch", "checkpoint", "checks", "closed", "events", "forms", "guards", "how", "importance", "learner", "pictures", "ranks", "state", "undo", "when", "which",
]  # fmt: skip


def python(code):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_core_imports_torch_and_safetensors_and_nothing_else():
    code = (
        "import sys, torch, safetensors; before = set(sys.modules); import taskfree, taskfree.checks;"
        "print(' '.join({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    third_party = set(python(code).split()) - set(sys.stdlib_module_names)
    assert third_party == {"taskfree", "safetensors"}


def test_importing_has_no_effect():
    code = (
        "import torch; torch.manual_seed(3); threads = torch.get_num_threads();"
        "random = torch.get_rng_state(); import logging; handlers = list(logging.root.handlers);"
        "import taskfree, taskfree.cli;"
        "assert torch.equal(random, torch.get_rng_state());"
        "assert threads == torch.get_num_threads() and handlers == logging.root.handlers;"
        "assert torch.get_default_dtype() == torch.float32"
    )
    assert python(code) == ""


def test_the_public_names():
    assert len(taskfree.__all__) <= 22
    assert all(hasattr(taskfree, name) for name in taskfree.__all__)


def test_arrows_point_one_way():
    """The core knows nothing of streams, experiments, report or command line."""
    code = (
        "import sys, taskfree, taskfree.checks;"
        "print(' '.join(name for name in sys.modules if name.startswith('taskfree.')))"
    )
    assert set(python(code).split()) == {f"taskfree.{name}" for name in CORE}
