import sys

import pytest
import torch

from taskfree.tabular import networks


def test_the_cnn_takes_images_of_any_size():
    model = networks.cnn(3, 5)
    for size in (8, 33):
        assert model(torch.zeros(2, 3, size, size)).shape == (2, 5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "model must be module:function, got 'nothing'"),
        ("no.such.module:net", "cannot be imported: No module named"),
        ("mine:none", "cannot be imported: .* has no attribute 'none'"),
        ("mine:wrong", "must be a function of the number of inputs and outputs"),
        ("mine:number", "must be a function of the number of inputs and outputs"),
    ],
)
def test_names_that_are_not_a_network(tmp_path, monkeypatch, name, message):
    (tmp_path / "mine.py").write_text("def wrong(inputs):\n    return None\nnumber = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    with pytest.raises(ValueError, match=message):
        networks.load(name)
