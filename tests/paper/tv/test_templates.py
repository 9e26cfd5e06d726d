import pytest
import torch

from taskfree.paper.tv.templates import Templates


def test_a_face_is_identified_by_the_nearest_template():
    gallery = torch.tensor(
        [[0.0, 0.0], [4.0, 0.0], [10.0, 0.0], [5.0, 0.0], [-1.0, 1.0], [9.0, 0.0]]
    )
    known = Templates({"amy": [0, 2], "leo": [1]})
    faces = torch.tensor([3, 4, 5])
    assert known.identify(gallery.__getitem__, faces) == ["leo", "amy", "amy"]
    many = faces.repeat(200)
    assert known.identify(gallery.__getitem__, many) == ["leo", "amy", "amy"] * 200, "in parts"


@pytest.mark.parametrize("faces", [{}, {"amy": []}, {"amy": [1], "leo": []}])
def test_every_person_needs_a_template(faces):
    with pytest.raises(ValueError, match="at least one face of each person"):
        Templates(faces)
