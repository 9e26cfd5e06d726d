"""Photographs and a short video for the tests of the television experiment."""

import csv
from itertools import islice

import numpy as np
import pytest
from footage import FIRST, LAST, fetched, write_video
from PIL import Image

from taskfree.cli import main
from taskfree.paper.tv.video import frames

NAMES = ("amy", "leo", "raj", "sue")


@pytest.fixture(scope="session")
def photographs(tmp_path_factory):
    """Four people with sixteen photographs each: the number of stripes says who it is."""
    folder = tmp_path_factory.mktemp("photographs")
    generator = np.random.default_rng(0)
    for at, name in enumerate(NAMES):
        (folder / name).mkdir()
        for number in range(16):
            rows = np.arange(64)[:, None] + np.zeros(64)
            values = 120 + 100 * np.sin(rows * (at + 1) / 4) + generator.normal(0, 10, (64, 64))
            image = Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))
            pose = ("straight", "left", "right", "up")[number % 4]
            eyes = "sunglasses" if number % 8 >= 4 else "open"
            image.save(folder / name / f"{pose}_{number}_{eyes}.png")
    return folder


@pytest.fixture(scope="session")
def order(tmp_path_factory):
    """The order of two episodes of thirty tracks."""
    file = tmp_path_factory.mktemp("order") / "order.csv"
    generator = np.random.default_rng(1)
    with open(file, "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["episode", "track", "name"])
        for episode in (1, 2):
            for track in range(30):
                role = generator.choice(4, p=[0.4, 0.3, 0.2, 0.1])
                writer.writerow([episode, track, f"role{role}"])
    return file


@pytest.fixture(scope="session")
def film(tmp_path_factory):
    """Three seconds of the clip, with two cuts."""
    fetched("yunet")
    file = tmp_path_factory.mktemp("film") / "part.mp4"
    write_video(file, [f.image for f in islice(frames(fetched("bbt")), FIRST, LAST)])
    return file


@pytest.fixture(scope="session")
def tracked(film, tmp_path_factory):
    """The tracks of the short video."""
    out = tmp_path_factory.mktemp("tracked") / "series"
    assert main(["tracks", str(film), "--out", str(out)]) == 0
    return out
