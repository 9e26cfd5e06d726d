import av
import numpy as np
import pytest

from taskfree.paper.simulation import film
from taskfree.robot import Action

IMAGE = np.full((128, 128, 3), 200, np.uint8)


def shot(**changes):
    return film.Shot(IMAGE, np.full(360, 2.0), int(Action.LEFT))._replace(**changes)


def test_a_frame_shows_camera_laser_action_expert_and_caption():
    plain = film.draw(shot())
    assert plain.shape == (384, 768, 3)
    assert (plain[:, :384] == 200).all(), "the camera is on the left"
    right = plain[:, 384:]
    assert (right == (86, 180, 233)).all(2).sum() > 360, "beams"
    for changes in ({"action": int(Action.RIGHT)}, {"expert": 1}, {"caption": "3 collisions"},
                    {"scan": np.full(360, 5.0)}):  # fmt: skip
        other = film.draw(shot(**changes))
        assert not np.array_equal(other[:, 384:], right), changes
        assert np.array_equal(other[:, :384], plain[:, :384])


def test_a_video_is_complete_or_not_there(tmp_path):
    film.write(tmp_path / "a.mp4", [shot() for _ in range(5)], rate=5)
    with av.open(str(tmp_path / "a.mp4")) as video:
        images = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
        assert video.streams.video[0].average_rate == 5
    assert len(images) == 5
    assert images[0][:, :384].mean() == pytest.approx(200, abs=3)

    def failing():
        yield shot()
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        film.write(tmp_path / "b.mp4", failing(), rate=5)
    assert [file.name for file in tmp_path.iterdir()] == ["a.mp4"]
