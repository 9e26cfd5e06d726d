"""Tracking faces from frame to frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import supervision as sv
from trackers import ByteTrackTracker

from taskfree.paper.tv.detect import Face

LOST = 12
"""A face that is missed for at most this many frames, at 30 per second, stays in its track."""


class FaceTracker:
    """Tracks faces from frame to frame (ByteTrack), within a shot.

    Tracks are numbered in order of appearance.

    Args:
        rate: frames per second.
        score: the minimum score of a face that starts a track.
    """

    def __init__(self, rate: float = 25.0, score: float = 0.6) -> None:
        self._make: Any = lambda: ByteTrackTracker(
            frame_rate=rate, lost_track_buffer=LOST, track_activation_threshold=score,
            high_conf_det_threshold=score, minimum_consecutive_frames=1, minimum_iou_threshold=0.2,
        )  # fmt: skip
        self._tracker = self._make()
        self._numbers: dict[int, int] = {}
        self._next = 0

    def cut(self) -> None:
        """Start over: the next frame starts a new shot."""
        self._tracker, self._numbers = self._make(), {}

    def update(self, faces: list[Face]) -> list[tuple[Face, int]]:
        """Add a frame: the faces that are in a track, and the numbers of their tracks."""
        boxes = np.array([face[:4] for face in faces], dtype=np.float32).reshape(-1, 4)
        scores = np.array([face.score for face in faces], dtype=np.float32)
        tracked: Any = self._tracker.update(
            sv.Detections(xyxy=boxes, confidence=scores, data={"index": np.arange(len(faces))})
        )
        found = []
        for index, number in zip(tracked.data.get("index", []), tracked.tracker_id, strict=True):
            if number < 0:
                continue
            if number not in self._numbers:
                self._numbers[number], self._next = self._next, self._next + 1
            found.append((faces[int(index)], self._numbers[number]))
        return found
