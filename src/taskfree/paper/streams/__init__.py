"""Streams with sudden, gradual and recurring concept drift, in the inputs or also in the labels.

Each is a function of a seed and a part of the data. Settings are chosen on `part=1` and evaluated
on `part=0`: other points, other images, other permutations, other texts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from taskfree.paper.streams import images, points, text
from taskfree.paper.streams.changing import ChangingStream

STREAMS: dict[str, Callable[..., ChangingStream]] = {
    "two quadrants": points.quadrants,
    "four quadrants": partial(points.quadrants, number=4),
    "drifting quadrants": points.drifting,
    "permuted images": images.permuted,
    "rotated images": images.rotated,
    "split images": images.split,
    "recurring images": images.recurring,
    "waves": points.waves,
    "class-incremental images": images.class_incremental,
    "10 % wrong labels": partial(images.wrong_labels, fraction=0.1),
    "20 % wrong labels": partial(images.wrong_labels, fraction=0.2),
    "imbalanced images": images.imbalanced,
    "blurry images": images.blurry,
    "twenty permutations": images.twenty,
    "recurring regimes": points.regimes,
    "topics of text": text.topics,
}
"""Every stream, by name."""
STUDY = tuple(STREAMS)[:8]
"""Those of the study of triggers."""
