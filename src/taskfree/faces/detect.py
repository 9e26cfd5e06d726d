"""Faces in a picture: YuNet, through OpenCV."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from taskfree import arguments
from taskfree.data import fetch

__all__ = ["Detector", "Face"]


class Face(NamedTuple):
    """A face in a picture, in pixels."""

    left: float
    top: float
    right: float
    bottom: float
    score: float


class Detector:
    """Finds faces.

    Args:
        score: the least score of a face, between 0 and 1.
        largest: pictures with a longer side than this are made smaller before it looks.
        model: YuNet's ONNX file; fetched if not given.
    """

    def __init__(self, score: float = 0.6, largest: int = 720, model: Path | None = None) -> None:
        self.score = arguments.number("score", score, above=0)
        self.largest = arguments.whole("largest", largest, least=32)
        file = fetch("yunet") if model is None else model
        loud = cv2.utils.logging.getLogLevel()
        # It would warn of a choice that nobody made.
        cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_ERROR)
        self._net = cv2.FaceDetectorYN.create(str(file), "", (320, 320), score, 0.3, 100)
        cv2.utils.logging.setLogLevel(loud)

    def faces(self, picture: NDArray[np.uint8]) -> list[Face]:
        """The faces in a picture, red first."""
        height, width = picture.shape[:2]
        scale = min(1.0, self.largest / max(height, width))
        seen = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
        if scale < 1:
            seen = cv2.resize(seen, (round(width * scale), round(height * scale)))
        self._net.setInputSize((seen.shape[1], seen.shape[0]))
        _, found = self._net.detect(seen)
        return [
            Face(x / scale, y / scale, (x + w) / scale, (y + h) / scale, float(one[14]))
            for one in ([] if found is None else found)
            for x, y, w, h in [one[:4].tolist()]
        ]
