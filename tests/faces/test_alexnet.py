import pytest
import torch
from safetensors.torch import save_file

from taskfree.faces.alexnet import AlexNet


def same(one, other, part):
    pairs = zip(getattr(one, part).parameters(), getattr(other, part).parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("end", ["safetensors", "pth"])
def test_the_convolutions_of_a_file_are_taken_and_nothing_else(tmp_path, end):
    whole = AlexNet(1000, seed=1)
    file = tmp_path / f"alexnet.{end}"
    save = save_file if end == "safetensors" else torch.save  # noqa: TID251
    save(whole.state_dict(), file)
    loaded = AlexNet(100, file, seed=2)
    assert same(loaded, whole, "features")
    assert same(loaded, AlexNet(100, seed=2), "classifier"), "these begin at random"
    assert not same(AlexNet(100, seed=2), whole, "features")


def test_a_seed_gives_the_same_weights_and_leaves_the_global_one_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, again, other = (AlexNet(10, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert same(one, again, "classifier")
    assert not same(one, other, "classifier")


@pytest.mark.parametrize(
    "change",
    [
        lambda named: named.pop("features.0.weight"),
        lambda named: named.update({"features.0.weight": torch.zeros(64, 1, 11, 11)}),
    ],
    ids=["missing", "another shape"],
)
def test_what_a_file_lacks_is_named(tmp_path, change):
    named = AlexNet(1).state_dict()
    change(named)
    torch.save(named, tmp_path / "other.pth")  # noqa: TID251
    with pytest.raises(ValueError, match=r"features\.0\.weight.*64, 3, 11, 11"):
        AlexNet(100, tmp_path / "other.pth")


def test_a_file_that_would_run_code_is_refused(tmp_path):
    class Harm:
        def __reduce__(self):
            return exec, ("raise SystemExit('it ran')",)

    torch.save({"features.0.weight": Harm()}, tmp_path / "harm.pth")  # noqa: TID251
    with pytest.raises(Exception, match="Weights only load failed"):
        AlexNet(100, tmp_path / "harm.pth")


@pytest.mark.parametrize("name", ["damaged.safetensors", "damaged.pth", "empty.pth"])
def test_a_damaged_file_is_named(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(b"" if "empty" in name else b"no weights at all" * 9)
    with pytest.raises(ValueError, match=rf"weights: .*{name} cannot be read"):
        AlexNet(100, file)
