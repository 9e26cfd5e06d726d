"""Reading the frames of a video, and detecting cuts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
from numpy.typing import NDArray

from taskfree._core import validation
from taskfree._core.errors import TaskfreeError

__all__ = ["CutDetector", "Frame", "VideoError", "frame_count", "frame_rate", "frames"]

Image = NDArray[np.uint8]
DARK = 32.0
"""Of 255: the smallest brightness that colours are scaled by; below it, there is mostly noise."""


class VideoError(TaskfreeError, ValueError):
    """A video that cannot be read, or not to its end."""


class Frame(NamedTuple):
    """One frame of a video."""

    number: int
    seconds: float
    image: Image
    """RGB bytes, [height, width, 3]."""


def frames(file: Path) -> Iterator[Frame]:
    """All frames in order. A damaged video raises VideoError after the last readable frame."""
    try:
        with av.open(str(file)) as container:
            if not container.streams.video:
                raise VideoError(f"{file} contains no images")
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            rate = frame_rate(file)
            end, number = 0.0, -1  # seconds of images or sound read so far; the last frame
            try:
                for packet in container.demux():
                    if packet.pts is not None and packet.stream.type in ("audio", "video"):
                        packet_end = packet.pts + (packet.duration or 0)
                        end = max(end, float(packet_end * packet.time_base))
                    if packet.stream is not stream:
                        continue
                    decoded: Any = packet.decode()
                    for frame in decoded:
                        number += 1
                        seconds = number / rate if frame.time is None else float(frame.time)
                        yield Frame(number, seconds, frame.to_ndarray(format="rgb24"))
            except av.FFmpegError as error:
                raise VideoError(
                    f"{file} is damaged after frame {number}: {error}; everything before is saved"
                ) from error
            expected = ((container.duration or 0) + (container.start_time or 0)) / av.time_base
            if end < 0.9 * expected - 0.5:
                raise VideoError(
                    f"{file} ends after frame {number}, at {end:.1f} of {expected:.1f} seconds; "
                    "everything before is saved"
                )
    except (av.FFmpegError, OSError) as error:
        raise VideoError(f"{file} cannot be read as a video: {error}") from error


def frame_count(file: Path) -> int | None:
    """The approximate number of frames, for a progress bar; None if the file does not state it."""
    try:
        with av.open(str(file)) as container:
            stream = container.streams.video[0]
            if stream.frames:
                return int(stream.frames)
            if container.duration and stream.average_rate:
                return int(container.duration / av.time_base * stream.average_rate)
    except (av.FFmpegError, OSError, IndexError):
        pass
    return None


def frame_rate(file: Path) -> float:
    """Frames per second; 25 if the file does not state it."""
    try:
        with av.open(str(file)) as container:
            return float(container.streams.video[0].average_rate or 25)
    except (av.FFmpegError, OSError, IndexError):
        return 25.0


class CutDetector:
    """Detects cuts: frames whose colour histograms differ from those of the previous frame.

    Colours are scaled by the brightness of the image, so cuts in dim scenes are detected as well.

    Args:
        threshold: the fraction of the image, between 0 and 1, that must have changed its colour.

    >>> detector, dark, bright = CutDetector(), np.zeros((64, 64, 3)), np.full((64, 64, 3), 200)
    >>> [detector.is_cut(image.astype(np.uint8)) for image in (dark, dark, bright, bright)]
    [False, False, True, False]
    """

    def __init__(self, threshold: float = 0.3) -> None:
        self.threshold = validation.number("threshold", threshold, above=0)
        self._before: Image | None = None

    def is_cut(self, image: Image) -> bool:
        """Add the next frame: whether it is the first of a shot."""
        now = image[::4, ::4].copy()
        before, self._before = self._before, now
        if before is None or before.shape != now.shape:
            return before is not None
        difference = np.abs(self._histograms(now) - self._histograms(before)).sum()
        return float(difference) / 2 > self.threshold

    @staticmethod
    def _histograms(small: Image) -> NDArray[np.float64]:
        """The fractions of 64 colours in each of sixteen parts of the image."""
        brightest = max(DARK, float(np.percentile(small, 99)))
        levels = np.minimum(3, small * (4 / brightest)).astype(int)
        colours = 16 * levels[..., 0] + 4 * levels[..., 1] + levels[..., 2]
        rows, columns = (np.arange(size) * 4 // size for size in colours.shape)
        parts = 4 * rows[:, None] + columns[None, :]
        counts = np.bincount((64 * parts + colours).ravel(), minlength=1024)
        fractions: NDArray[np.float64] = counts / counts.sum()
        return fractions
