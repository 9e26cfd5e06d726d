import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from taskfree._core.random_state import GlobalGenerators, load_torch_state, torch_state
from taskfree._core.serialization import pack, unpack

NUMPY = np.random.mtrand._rand  # the generator that the functions of np.random share


def draw():
    """Numbers from every global generator, from normal ones too: they cache a second draw."""
    return (
        random.random(), random.gauss(0, 1), NUMPY.rand(), NUMPY.randn(),
        torch.rand(1).item(), torch.randn(1).item(),
    )  # fmt: skip


def test_torch_continues_from_a_saved_state():
    torch.rand(3)
    state = torch_state(torch.device("cpu"))
    expected = torch.rand(5)
    torch.manual_seed(99)
    load_torch_state(state)
    assert torch.equal(torch.rand(5), expected)


def test_a_saved_state_does_not_change_with_the_generator():
    state = torch_state(torch.device("cpu"))
    before = state["cpu"].clone()
    torch.rand(3)
    assert torch.equal(state["cpu"], before)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_device_without_a_generator_saves_only_the_cpu(device):
    assert list(torch_state(torch.device(device))) == ["cpu"]


class FakeDevice:
    """Stands for `torch.cuda` and the like."""

    def __init__(self, available):
        self.available, self.loaded = available, []

    def is_available(self):
        return self.available

    def get_rng_state(self, device):
        return torch.tensor([7, len(str(device))], dtype=torch.uint8)

    def set_rng_state(self, state, device):
        self.loaded.append((device, state.tolist()))


@pytest.mark.parametrize("available", [True, False])
def test_the_generator_of_a_device_is_restored_if_it_is_available(monkeypatch, available):
    fake = FakeDevice(available)
    monkeypatch.setattr(torch, "get_device_module", lambda _: fake)
    state = torch_state(torch.device("cuda:0"))
    assert list(state) == ["cpu", "cuda:0"]
    expected = torch.rand(2)
    load_torch_state(state)
    assert fake.loaded == ([("cuda:0", [7, 6])] if available else [])
    assert torch.equal(torch.rand(2), expected)


@pytest.mark.parametrize("packed", [False, True])
def test_all_global_generators_continue_from_a_saved_state(packed):
    generators = GlobalGenerators()
    draw()
    state = generators.state_dict()
    expected = [draw() for _ in range(3)]
    random.seed(9), NUMPY.seed(9), torch.manual_seed(9)
    assert draw() != expected[0]
    generators.load_state_dict(unpack(pack(state)) if packed else state)
    assert [draw() for _ in range(3)] == expected


def test_numpy_is_saved_only_if_it_is_imported():
    """taskfree does not import it, and a state without it loads."""
    code = (
        "import sys; from taskfree._core.random_state import GlobalGenerators as G;"
        "sys.modules.pop('numpy', None);"
        "state = G().state_dict(); assert set(state) == {'python', 'torch'}; G().load_state_dict(state)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
