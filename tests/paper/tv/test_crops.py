"""Crops of faces, and those cut from the frames of a dataset."""

import numpy as np
import pytest
from PIL import Image

from taskfree.paper.tv import crops
from taskfree.paper.tv.detect import Face


def test_a_crop_is_the_face_with_a_margin():
    image = np.zeros((100, 100, 3), np.uint8)
    image[40:60, 40:60] = 255
    crop = crops.crop(image, Face(40, 40, 60, 60, 0.9), 48)
    assert crop.shape == (48, 48, 3)
    assert crop[24, 24].tolist() == [255, 255, 255]
    assert crop[0, 0].tolist() == [0, 0, 0]
    assert crop.mean() / 255 == pytest.approx(20**2 / 24**2, rel=0.1), "a margin of a tenth each"


@pytest.mark.parametrize("box", [(-30, -30, 10, 10), (90, 90, 130, 130), (150, 150, 160, 160)])
def test_a_face_at_the_edge_or_outside_is_still_a_crop(box):
    image = np.full((100, 100, 3), 7, np.uint8)
    crop = crops.crop(image, Face(*box, 0.9), 16)
    assert crop.shape == (16, 16, 3)
    assert (crop == 7).all()


def test_a_failed_write_raises(tmp_path):
    with pytest.raises(OSError, match=r"000007\.jpg could not be written"):
        crops.write_crop(tmp_path / "none", 7, np.zeros((8, 8, 3), np.uint8))


@pytest.fixture
def episode(tmp_path):
    """Twelve frames with a red face on the left and a blue one on the right."""
    (tmp_path / "frames").mkdir()
    values = np.zeros((60, 90, 3), np.uint8)
    values[:, :45], values[:, 45:] = (250, 0, 0), (0, 0, 250)
    rows = ["frame,left,top,right,bottom,track"]
    for frame in range(1, 13):
        Image.fromarray(values).save(tmp_path / "frames" / f"s01e01_{frame:04d}.png")
        rows += [f"{frame},10,20,30,40,0", f"{frame},60,20,80,40,1"]
    (tmp_path / "faces.csv").write_text("\n".join(rows))
    return tmp_path


def test_crops_are_cut_from_frames_by_the_last_number_of_their_names(episode):
    (episode / "frames" / ".DS_Store").write_text("not a frame")
    crops.cut_crops(episode, every=5, size=20)
    found = sorted(str(file.relative_to(episode / "crops")) for file in episode.glob("crops/*/*"))
    assert found == [f"{track:05d}/{frame:06d}.jpg" for track in (0, 1) for frame in (1, 6, 11)]
    for track, channel in ((0, 0), (1, 2)):
        with Image.open(episode / "crops" / f"{track:05d}" / "000001.jpg") as image:
            assert image.size == (20, 20)
            assert np.array(image).mean((0, 1)).argmax() == channel


def test_all_crops_are_written_or_none(episode):
    (episode / "frames" / "s01e01_0011.png").write_text("not an image")
    with pytest.raises(ValueError, match=r"_0011\.png cannot be read as an image"):
        crops.cut_crops(episode)
    (episode / "frames" / "s01e01_0011.png").unlink()
    with pytest.raises(ValueError, match=r"frames has no frame 11, which is in faces\.csv"):
        crops.cut_crops(episode)
    assert not (episode / "crops").exists()
