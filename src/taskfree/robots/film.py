"""Films for people: what a robot's camera and laser saw, and what it did."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from taskfree.robots.laser import FAR, Action
from taskfree.robots.textures import Picture

__all__ = ["Shot", "write"]

SIZE = 384
"""Pixels: the camera's half of the picture and the laser's."""


class Shot(NamedTuple):
    """One picture of a film."""

    picture: Picture
    scan: Any
    """The laser's beams in metres."""
    action: int
    """What was done."""
    wanted: int | None = None
    """What the expert would have done, if that is to be shown: underlined."""
    words: str = ""
    """Written above the laser."""


def write(file: Path, shots: Iterable[Shot], rate: int) -> None:
    """Write a film, so many pictures a second; it is there only when it is whole."""
    import av

    unfinished = file.with_suffix(f".writing{file.suffix}")
    with av.open(str(unfinished), "w") as container:
        stream = container.add_stream("mpeg4", rate=rate)
        stream.width, stream.height = 2 * SIZE, SIZE
        stream.pix_fmt, stream.bit_rate = "yuv420p", 2_000_000
        for shot in shots:
            for packet in stream.encode(av.VideoFrame.from_ndarray(drawn(shot), format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    unfinished.replace(file)


def drawn(shot: Shot) -> Picture:
    """The camera on the left; on the right the laser from above, and the three actions."""
    from PIL import Image, ImageDraw

    canvas = Image.new("RGB", (2 * SIZE, SIZE), (18, 18, 22))
    canvas.paste(Image.fromarray(np.asarray(shot.picture)).resize((SIZE, SIZE)), (0, 0))
    draw = ImageDraw.Draw(canvas)
    beams, angles = np.asarray(shot.scan), np.radians(np.arange(len(shot.scan)))
    seen = beams <= FAR
    scale = 154 / min(FAR, 1.2 * float(beams[seen].max(initial=1.0)))
    x = 576 - scale * beams * np.sin(angles)
    y = 172 - scale * beams * np.cos(angles)
    for a, b in zip(x[seen], y[seen], strict=True):
        draw.ellipse((a - 1.5, b - 1.5, a + 1.5, b + 1.5), fill=(86, 180, 233))
    draw.polygon([(576, 162), (568, 182), (584, 182)], fill=(240, 240, 240))
    for action, left in ((Action.LEFT, 440), (Action.STRAIGHT, 546), (Action.RIGHT, 668)):
        colour = (230, 159, 0) if shot.action == action else (90, 90, 95)
        draw.text((left, 352), action.name.lower(), fill=colour, font_size=18)
        if shot.wanted == action:
            draw.line((left, 376, left + 60, 376), fill=(0, 158, 115), width=3)
    draw.text((400, 6), shot.words, fill=(240, 240, 240), font_size=16)
    return np.asarray(canvas)
