"""The options and settings of the television experiment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from taskfree._core import validation
from taskfree.how.mas import Accumulate, Penalty


@dataclass(frozen=True)
class TVConfig:
    """An AlexNet learns to recognize actors while it watches a series, each track once.

    Choose a series: `--faces` and `--order` compose one from photographs; `--series` is a folder
    that `taskfree tracks` and `taskfree label` made of your own episodes; `--clip` is 30 seconds of
    The Big Bang Theory, processed from the video on. All settings of a seed start from the same
    weights.
    """

    out: Path = Path("results/tv")
    """where results.json, figures and report.html go; finished runs are not repeated"""
    faces: Path | None = None
    """a folder with one folder of photographs per person"""
    lfw: bool = False
    """use Labeled Faces in the Wild as photographs, downloaded by scikit-learn"""
    crop: bool = True
    """detect and crop the face in each photograph; otherwise use whole photographs"""
    order: Path | None = None
    """a CSV file with the columns episode and name: the actor of every track, in order"""
    series: Path | None = None
    """a folder of labelled tracks"""
    clip: bool = False
    """download the clip, track its faces, and learn from them"""
    seeds: int = 3
    """seeds per setting"""
    first_seed: int = 0
    """the first seed"""
    episodes: int = 0
    """use only this many episodes, from the first on, and nothing of the others; 0 for all.
    The settings were chosen on the first episode alone"""
    held_out: int = 10
    """hold out every n-th track for testing; 0 tests on all faces, including learned ones"""
    tests_per_episode: int = 1
    """evaluations per episode"""
    tracks_per_episode: int = 50
    """composed series: tracks of each episode; 0 for all in the order"""
    scene_length: int = 10
    """composed series: consecutive tracks of the order before the next jump"""
    actors: int = 8
    """composed series: use this many of the most frequent names; 0 for as many as people"""
    weights: Path | None = None
    """AlexNet's convolutions, torchvision's file (.pth) or safetensors; downloaded by default"""
    lr: float = 0.001
    """learning rate of SGD"""
    repeats: int = 2
    """gradient steps per time step, weakly supervised"""
    repeats_self_supervised: int = 10
    """gradient steps per time step, self-supervised"""
    buffer_size: int = 100
    """triplets in the hard buffer"""
    strength: float = 0.003
    """strength of the penalty"""
    penalty: Penalty = "relative"
    """how the penalty is applied; "gradient" is the paper's"""
    mean: float = 0.3
    """threshold on the mean of the trigger's window"""
    variance: float = 0.1
    """threshold on the variance of the trigger's window"""
    dropout: float = 0.0
    """dropout of the trained layers; torchvision's AlexNet has 0.5"""
    merge_threshold: float = 0.6
    """self-supervised: merge adjacent tracks closer than this fraction of the mean distance"""
    epochs: int = 5
    """epochs of offline joint learning, which has no hard buffer"""
    workers: int | None = None
    """processes; one per core by default"""

    def __post_init__(self) -> None:
        for name in (
            "seeds", "repeats", "repeats_self_supervised", "buffer_size", "epochs",
            "tests_per_episode", "scene_length",
        ):  # fmt: skip
            validation.integer(name, getattr(self, name), least=1)
        for name in ("first_seed", "episodes", "tracks_per_episode", "actors", "held_out"):
            validation.integer(name, getattr(self, name), least=0)
        for name in ("lr", "mean", "variance"):
            validation.number(name, getattr(self, name), above=0)
        for name in ("strength", "dropout", "merge_threshold"):
            validation.number(name, getattr(self, name), least=0)
        if self.dropout >= 1:
            raise ValueError(f"dropout must be below 1, got {self.dropout}")
        if self.actors == 1:
            raise ValueError(
                "actors must be 0 or at least 2, got 1: one actor needs no recognition"
            )
        if self.held_out == 1:
            raise ValueError("held_out must be 0 or at least 2, got 1: no track is left to learn")

    @property
    def tested(self) -> str:
        """A description of the faces it is tested on."""
        return "held-out faces" if self.held_out and not self.clip else "all faces"


@dataclass(frozen=True)
class TVSetting:
    """A way to learn."""

    name: str
    order: str = "as seen"
    """`"as seen"`; `"shuffled"`, the same time steps in random order; `"none"`, no learning."""
    buffer: bool = True
    consolidate: Accumulate | None = None
    """How importance is accumulated; None for no consolidation."""
    annotated: bool = True
    """Whether an annotator tells people apart; otherwise it is self-supervised."""
    epochs: bool = False
    """Whether it learns offline, for several epochs."""


SETTINGS = (
    TVSetting("initial", order="none"),
    TVSetting("online"),
    TVSetting("online continual", consolidate="mean"),
    TVSetting("online joint", order="shuffled"),
    TVSetting("offline joint", order="shuffled", buffer=False, epochs=True),
    TVSetting("online, no hard buffer", buffer=False),
    TVSetting("online continual, no hard buffer", buffer=False, consolidate="mean"),
    TVSetting("online continual, decay", consolidate="decay"),
    TVSetting("online, self-supervised", annotated=False),
    TVSetting("online continual, self-supervised", annotated=False, consolidate="mean"),
)


@dataclass(frozen=True)
class TVJob:
    """A setting with a seed."""

    config: TVConfig
    setting: TVSetting
    seed: int
