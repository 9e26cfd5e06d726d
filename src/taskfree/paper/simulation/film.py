"""Videos of a robot: what its camera and laser observed, and what it did."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from taskfree._core.files import atomic_write
from taskfree.paper.simulation.laser import FAR
from taskfree.robot import Action, Image

__all__ = ["Shot", "write"]

SIZE = 384
"""Pixels: height and width of the camera's half of a frame and of the laser's."""


class Shot(NamedTuple):
    """One frame of a video."""

    image: Image
    scan: Any
    """The laser's distances in metres."""
    action: int
    """The action taken."""
    expert: int | None = None
    """The expert's action, underlined; None hides it."""
    caption: str = ""
    """Shown above the laser."""


def write(file: Path, shots: Iterable[Shot], rate: int) -> None:
    """Write a video with `rate` frames per second; the file appears only when it is complete."""
    import av

    with atomic_write(file) as unfinished, av.open(str(unfinished), "w") as container:
        stream = container.add_stream("mpeg4", rate=rate)
        stream.width, stream.height = 2 * SIZE, SIZE
        stream.pix_fmt, stream.bit_rate = "yuv420p", 2_000_000
        for shot in shots:
            for packet in stream.encode(av.VideoFrame.from_ndarray(draw(shot), format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)


def draw(shot: Shot) -> Image:
    """The camera on the left; the laser from above and the three actions on the right."""
    from PIL import Image as Pillow
    from PIL import ImageDraw

    canvas = Pillow.new("RGB", (2 * SIZE, SIZE), (18, 18, 22))
    canvas.paste(Pillow.fromarray(np.asarray(shot.image)).resize((SIZE, SIZE)), (0, 0))
    pen = ImageDraw.Draw(canvas)
    beams, angles = np.asarray(shot.scan), np.radians(np.arange(len(shot.scan)))
    hit = beams <= FAR
    scale = 154 / min(FAR, 1.2 * float(beams[hit].max(initial=1.0)))
    x = 576 - scale * beams * np.sin(angles)
    y = 172 - scale * beams * np.cos(angles)
    for a, b in zip(x[hit], y[hit], strict=True):
        pen.ellipse((a - 1.5, b - 1.5, a + 1.5, b + 1.5), fill=(86, 180, 233))
    pen.polygon([(576, 162), (568, 182), (584, 182)], fill=(240, 240, 240))
    for action, left in ((Action.LEFT, 440), (Action.STRAIGHT, 546), (Action.RIGHT, 668)):
        colour = (230, 159, 0) if shot.action == action else (90, 90, 95)
        pen.text((left, 352), action.name.lower(), fill=colour, font_size=18)
        if shot.expert == action:
            pen.line((left, 376, left + 60, 376), fill=(0, 158, 115), width=3)
    pen.text((400, 6), shot.caption, fill=(240, 240, 240), font_size=16)
    return np.asarray(canvas)
