"""Face detection: YuNet, through OpenCV."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from taskfree._core import validation
from taskfree.paper.data import fetch

__all__ = ["Face", "FaceDetector"]


class Face(NamedTuple):
    """A detected face: its box in pixels, and its score."""

    left: float
    top: float
    right: float
    bottom: float
    score: float


class FaceDetector:
    """Detects faces.

    Args:
        score: the minimum score of a face, between 0 and 1.
        largest: images with a longer side than this are scaled down first.
        model: YuNet's ONNX file; downloaded by default.
    """

    def __init__(self, score: float = 0.6, largest: int = 720, model: Path | None = None) -> None:
        self.score = validation.number("score", score, above=0)
        self.largest = validation.integer("largest", largest, least=32)
        file = fetch("yunet") if model is None else model
        log_level = cv2.utils.logging.getLogLevel()
        # It would warn about a default that was not chosen here.
        cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_ERROR)
        self._net = cv2.FaceDetectorYN.create(str(file), "", (320, 320), score, 0.3, 100)
        cv2.utils.logging.setLogLevel(log_level)

    def faces(self, image: NDArray[np.uint8]) -> list[Face]:
        """The faces in an RGB image."""
        height, width = image.shape[:2]
        scale = min(1.0, self.largest / max(height, width))
        bgr = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
        if scale < 1:
            bgr = cv2.resize(bgr, (round(width * scale), round(height * scale)))
        self._net.setInputSize((bgr.shape[1], bgr.shape[0]))
        _, found = self._net.detect(bgr)
        return [
            Face(x / scale, y / scale, (x + w) / scale, (y + h) / scale, float(one[14]))
            for one in ([] if found is None else found)
            for x, y, w, h in [one[:4].tolist()]
        ]
