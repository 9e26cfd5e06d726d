import pytest
import torch
from safetensors.torch import save_file

from taskfree.paper.tv.alexnet import AlexNet, preprocess


def same(one, other, part):
    pairs = zip(getattr(one, part).parameters(), getattr(other, part).parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("end", ["safetensors", "pth"])
def test_only_the_convolutions_of_a_file_are_used(tmp_path, end):
    whole = AlexNet(1000, seed=1)
    file = tmp_path / f"alexnet.{end}"
    save = save_file if end == "safetensors" else torch.save  # noqa: TID251
    save(whole.state_dict(), file)
    loaded = AlexNet(100, file, seed=2)
    assert same(loaded, whole, "features")
    assert same(loaded, AlexNet(100, seed=2), "classifier"), "these start from random weights"
    assert not same(AlexNet(100, seed=2), whole, "features")


def test_the_seed_determines_the_weights_and_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, again, other = (AlexNet(10, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert same(one, again, "classifier")
    assert not same(one, other, "classifier")


@pytest.mark.parametrize(
    "change",
    [
        lambda weights: weights.pop("features.0.weight"),
        lambda weights: weights.update({"features.0.weight": torch.zeros(64, 1, 11, 11)}),
    ],
    ids=["missing", "another shape"],
)
def test_missing_weights_are_named(tmp_path, change):
    weights = dict(AlexNet(1).features.state_dict(prefix="features."))
    change(weights)
    torch.save(weights, tmp_path / "other.pth")  # noqa: TID251
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
def test_a_damaged_file_is_refused(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(b"" if "empty" in name else b"not weights" * 9)
    with pytest.raises(ValueError, match=rf"weights: .*{name} cannot be read"):
        AlexNet(100, file)


def test_images_are_resized_and_standardized_by_channel():
    image = torch.zeros(1, 30, 50, 3, dtype=torch.uint8)
    image[..., 1] = 255
    found = preprocess(image)
    assert found.shape == (1, 3, 224, 224)
    expected = [-0.485 / 0.229, (1 - 0.456) / 0.224, -0.406 / 0.225]
    assert found.mean((0, 2, 3)).tolist() == pytest.approx(expected, rel=1e-4)
    same = torch.randint(0, 255, (1, 224, 224, 3), dtype=torch.uint8)
    one = preprocess(same)[0, 2]
    assert torch.allclose(one, (same[0, ..., 2].float() / 255 - 0.406) / 0.225)
