"""What a test needs and cannot get: skipped at home, a failure in CI."""

import os

import pytest


def unavailable(reason):
    """End a test. In CI everything that a registry carries is installed: nothing is skipped."""
    if os.environ.get("CI"):
        pytest.fail(f"missing in CI: {reason}")
    pytest.skip(reason)
