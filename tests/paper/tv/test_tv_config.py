import pytest

from taskfree.paper.tv.config import TVConfig


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"actors": 1}, "actors must be 0 or at least 2"),
        ({"held_out": 1}, "held_out must be 0 or at least 2"),
        ({"dropout": 1.0}, "dropout must be below 1"),
        ({"mean": 0.0}, "mean must be above 0"),
        ({"merge_threshold": -1.0}, "merge_threshold must be"),
        ({"tests_per_episode": 0}, "tests_per_episode must be an integer of at least 1"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TVConfig(**options)


def test_the_description_of_the_test_faces():
    assert TVConfig().tested == "held-out faces"
    assert TVConfig(held_out=0).tested == TVConfig(clip=True).tested == "all faces"
