import pytest
from PIL import Image

from taskfree.tabular.sources import open_source


def write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(folder / name)


def test_images_come_in_the_order_of_their_names(tmp_path):
    write(tmp_path, "cat/002.png", "dog/001.png", "dog/deep/003.jpg")
    (tmp_path / "notes.txt").write_text("no image")
    source = open_source(str(tmp_path))
    rows = list(source.rows())
    assert [row.values for row in rows] == [
        ["dog/001.png", "dog"], ["cat/002.png", "cat"], ["dog/deep/003.jpg", "deep"],
    ]  # fmt: skip
    assert list(source.rows(rows[0].end)) == rows[1:]
    assert source.size() == 3


def test_new_images_at_the_end_keep_the_fingerprint_and_earlier_ones_do_not(tmp_path):
    write(tmp_path, "cat/002.png", "dog/003.png")
    before = open_source(str(tmp_path)).fingerprint((2, 2))
    write(tmp_path, "dog/004.png")
    assert open_source(str(tmp_path)).fingerprint((2, 2)) == before
    write(tmp_path, "dog/001.png")
    assert open_source(str(tmp_path)).fingerprint((2, 2)) != before


def test_a_folder_may_grow_anywhere(tmp_path):
    write(tmp_path, "cat/002.png", "dog/003.png", "dog/005.png")
    source = open_source(str(tmp_path))
    place = source.place((2, 2))
    write(tmp_path, "cat/001.png", "dog/004.png")
    (tmp_path / "dog/003.png").unlink()
    grown = open_source(str(tmp_path))
    start = grown.continue_from(place)
    assert [row.values[0] for row in grown.rows(start)] == [
        "cat/001.png", "dog/004.png", "dog/005.png",
    ]  # fmt: skip
    again = open_source(str(tmp_path))
    assert again.continue_from(grown.place((2, 2))) == (2, 2)
    assert [row.values[0] for row in again.rows((2, 2))] == ["dog/004.png", "dog/005.png"]


def test_a_folder_without_images(tmp_path):
    with pytest.raises(ValueError, match="holds no images"):
        open_source(str(tmp_path))
