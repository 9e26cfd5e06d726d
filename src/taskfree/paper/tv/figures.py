"""The figures of the television experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from taskfree.observe.figures import COLOURS

CAPTIONS = {
    "accuracy.png": "Accuracy after each part of the series (the paper's Figures 4a and 4b): thin "
    "lines are seeds, thick lines their mean. Joint learning has the same time steps, shuffled "
    "across episodes: online, after each part; offline, only the end, after several epochs.",
    "ablation.png": "The effect of the hard buffer and of how importance is accumulated (Figure "
    "4c).",
    "self-supervised.png": "Without an annotator: tracks that share a frame are different people "
    "(Figures 5a and 5b).",
    "episodes.png": "Accuracy on the faces of each episode before it is watched (grey) and after. "
    "A decrease after the episode is forgetting. Means over the seeds.",
    "actors.png": "Accuracy on the four most frequent actors after each part, first seed (Figure "
    "5c). The size of a marker is the number of the actor's tracks that are learned from in that "
    "part; no marker means none.",
}
MAIN = {
    "initial": ("0.5", ":", ""),
    "online": (COLOURS[4], "-", "o"),
    "online continual": (COLOURS[0], "-", "s"),
    "online joint": (COLOURS[3], "--", "^"),
    "offline joint": (COLOURS[6], "--", "v"),
}
ABLATION = {
    "online": (COLOURS[4], "-", "o"),
    "online, no hard buffer": (COLOURS[4], ":", "o"),
    "online continual": (COLOURS[0], "-", "s"),
    "online continual, no hard buffer": (COLOURS[0], ":", "s"),
    "online continual, decay": (COLOURS[2], "--", "D"),
}
SELF_SUPERVISED = {
    "initial": ("0.5", ":", ""),
    "online, self-supervised": (COLOURS[4], "-", "o"),
    "online continual, self-supervised": (COLOURS[0], "-", "s"),
}


def curves(
    rows: Sequence[Mapping[str, Any]],
    styles: Mapping[str, tuple[str, str, str]],
    title: str,
    *,
    tested: str,
    tests_per_episode: int = 1,
) -> Figure:
    """Accuracy after each part: an episode, or a fraction of one."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axis = figure.subplots()
    found = {row["setting"]: row for row in rows}
    shown = len(found["online"]["after each part"]) - 1
    for setting, (colour, style, marker) in styles.items():
        if setting not in found:
            continue
        points = 100 * np.array(found[setting]["after each part"])
        if len(points) == 1:  # no learning
            axis.axhline(points[0, 0], color=colour, linestyle=style, label=setting)
            continue
        if len(points) > shown + 1:  # several epochs: only the end
            axis.axhline(points[-1, 0], color=colour, linestyle=style, label=setting)
            continue
        watched = np.arange(len(points)) / tests_per_episode
        axis.plot(
            watched, points[:, 0], color=colour, linestyle=style, marker=marker, lw=2.5,
            label=setting,
        )  # fmt: skip
        for curve in found[setting]["after each part, by seed"]:
            axis.plot(
                watched, 100 * np.array(curve), color=colour, linestyle=style, lw=0.8, alpha=0.6
            )
    axis.set(title=title, xlabel="episodes watched", ylabel=f"accuracy on {tested} (%)")
    axis.set_xticks(range(shown // tests_per_episode + 1))
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def episodes(
    runs: Sequence[Mapping[str, Any]], *, tested: str, tests_per_episode: int = 1
) -> Figure:
    """The accuracy on the faces of each episode, over the whole series."""
    learned = next(one["curve"] for one in runs if one["setting"] == "online")
    numbers = list(learned[0]["episodes"])
    columns = min(3, len(numbers))
    lines = -(-len(numbers) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.6 * lines + 0.8), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).flatten()
    for at, (axis, number) in enumerate(zip(axes, numbers, strict=False)):
        for setting in ("online", "online continual"):
            colour, style, marker = MAIN[setting]
            values = 100 * np.array(
                [
                    [point["episodes"][number] for point in one["curve"]]
                    for one in runs
                    if one["setting"] == setting
                ]
            )
            axis.plot(
                np.arange(values.shape[1]) / tests_per_episode, values.mean(0), color=colour,
                linestyle=style, marker=marker, markersize=4, label=None if at else setting,
            )  # fmt: skip
        before = sum(0 < point["episode"] < int(number) for point in learned)
        axis.axvspan(0, before / tests_per_episode, color="0.92", zorder=0)
        axis.set_title(f"episode {number}", fontsize=10)
    for axis in axes[len(numbers) :]:
        axis.set_axis_off()
    for axis in axes[max(0, len(numbers) - columns) : len(numbers)]:
        axis.set_xlabel("episodes watched")
    figure.suptitle("Accuracy on the faces of each episode")
    figure.supylabel(f"accuracy on its {tested} (%)", fontsize=10)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def actors(
    runs: Sequence[Mapping[str, Any]],
    track_counts: Sequence[Mapping[str, int]],
    count: int = 4,
    tests_per_episode: int = 1,
) -> Figure:
    """The accuracy on the most frequent actors, with markers sized by their tracks in each part.

    Args:
        runs: of all seeds; those of the first are shown.
        track_counts: for each part, the number of tracks of each actor.
        count: the number of actors.
        tests_per_episode: parts of an episode.
    """
    first = {one["setting"]: one for one in runs if one["seed"] == runs[0]["seed"]}
    total: dict[str, int] = {}
    for own in track_counts:
        for actor, tracks in own.items():
            total[actor] = total.get(actor, 0) + tracks
    known = first["online"]["curve"][0]["actors"]
    chosen = sorted((actor for actor in total if actor in known), key=lambda a: -total[a])[:count]
    figure = Figure(figsize=(9, 2.9 * -(-len(chosen) // 2)), layout="constrained")
    axes = figure.subplots(-(-len(chosen) // 2), 2, squeeze=False, sharex=True, sharey=True)
    for axis, actor in zip(axes.flatten(), chosen, strict=False):
        for setting, colour in (("online", COLOURS[4]), ("online continual", COLOURS[0])):
            curve = first[setting]["curve"]
            values = [100 * point["actors"][actor] for point in curve]
            watched = np.arange(len(values)) / tests_per_episode
            axis.plot(watched, values, color=colour, label=setting if actor == chosen[0] else None)
            sizes = [0, *(6 * own.get(actor, 0) for own in track_counts)]
            axis.scatter(watched, values, s=sizes, color=colour)
        axis.set_title(f"{actor}, {total[actor]} tracks", fontsize=10)
        axis.set(xlabel="episodes watched", ylabel="accuracy (%)")
    figure.suptitle("Accuracy on each actor over the series")
    figure.legend(loc="outside lower center", ncols=2)
    return figure
