import numpy as np
import pytest
from footage import fetched

from taskfree.paper.tv.detect import FaceDetector
from taskfree.paper.tv.video import frames


def test_noise_contains_no_face():
    fetched("yunet")
    image = np.random.default_rng(0).integers(0, 255, (300, 400, 3), dtype=np.uint8)
    assert FaceDetector().faces(image) == []


def test_faces_in_a_large_image_are_in_its_coordinates(film):
    image = next(f.image for f in frames(film) if f.number == 74)
    large = image.repeat(2, 0).repeat(2, 1)  # which is scaled down for detection
    once, twice = (FaceDetector().faces(one) for one in (image, large))
    assert once
    assert len(once) == len(twice)
    for face, other in zip(once, twice, strict=True):
        assert other[:4] == pytest.approx([2 * value for value in face[:4]], abs=4)


def test_a_higher_score_finds_fewer_faces(film):
    image = next(f.image for f in frames(film) if f.number == 74)
    faces = FaceDetector(score=0.3).faces(image)
    best = max(face.score for face in faces)
    assert all(face.score >= 0.3 for face in faces)
    assert FaceDetector(score=min(1.0, best + 0.01)).faces(image) == []
