"""WHEN to consolidate: plateaus and peaks of the loss, seen through a short window.

A trigger is fed one loss a time step and answers `"plateau"` (consolidate now), `"peak"` (new,
harder data has come: look out for the next plateau) or None. Every trigger keeps a bounded
amount of state, however long the stream.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from taskfree import arguments

__all__ = [
    "At",
    "Decision",
    "Every",
    "Explanation",
    "Never",
    "Plateau",
    "RelativePlateau",
    "Settled",
    "Trigger",
]

Decision: TypeAlias = Literal["plateau", "peak"]


class Explanation(NamedTuple):
    """Why a trigger decided as it did."""

    text: str
    """One sentence with the numbers."""
    variance: float = math.nan
    """The variance of the window judged last; nan if there is none."""
    thresholds: Mapping[str, float] = {}
    """What the window's numbers were compared with, by name."""


class Trigger(Protocol):
    """What the learner asks of a trigger. `taskfree.checks.check_trigger` tries yours.

    `update` replaces attributes and does not change objects in place, so that a step that fails
    can be taken back.
    """

    armed: bool
    """Whether the next plateau consolidates."""
    window_mean: float
    """The mean of the window judged last; nan while it fills, or if there is none."""

    def update(self, loss: float) -> Decision | None:
        """Take in the loss of one time step and decide."""

    def explain(self, decision: Decision | None) -> Explanation:
        """Why the last update decided so."""

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that later decisions depend on."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""


class Plateau:
    """The paper's trigger: consolidate where the loss is low and steady, once after each peak.

    A full window whose mean and population variance are both below the thresholds is a plateau.
    It empties the window and disarms the trigger, until a window's mean rises above the
    plateau's mean by more than the plateau's standard deviation: a peak, which arms it again.

    Args:
        window: how many losses are looked at together.
        mean: the threshold on their mean.
        variance: the threshold on their population variance.

    >>> trigger = Plateau(window=2, mean=0.5, variance=0.1)
    >>> [trigger.update(loss) for loss in [2.0, 0.4, 0.4, 0.4, 0.4, 1.9, 0.3, 0.3]]
    [None, None, 'plateau', None, None, 'peak', None, 'plateau']
    >>> trigger.explain("plateau").text
    'the last 2 losses have a mean of 0.3, below 0.5, and a variance of 0, below 0.1'
    """

    def __init__(self, window: int, mean: float, variance: float) -> None:
        self.mean = arguments.number("mean", mean)
        self.variance = arguments.number(
            "variance", variance, above=0, hint="no window has a variance below that"
        )
        self._start(window)

    def _start(self, window: int) -> None:
        self.size = arguments.whole("window", window, least=1)
        self.window: tuple[float, ...] = ()
        self.window_mean = self.window_variance = math.nan
        self.armed = True
        self.plateau_mean = 0.0
        self.plateau_deviation = 0.0

    def update(self, loss: float) -> Decision | None:
        """Take in the loss of one time step and decide."""
        self.window = (*self.window, loss)[-self.size :]
        if len(self.window) < self.size:
            self.window_mean = self.window_variance = math.nan
            return None
        mean = self.window_mean = sum(self.window) / self.size
        variance = sum((loss - mean) * (loss - mean) for loss in self.window) / self.size
        self.window_variance = variance
        if self.armed:
            mean_threshold, variance_threshold = self._thresholds(mean)
            if mean < mean_threshold and variance < variance_threshold:
                self.plateau_mean, self.plateau_deviation = mean, math.sqrt(variance)
                self.window = ()
                self.armed = False
                return "plateau"
        elif mean > self.plateau_mean + self.plateau_deviation:
            self.armed = True
            return "peak"
        return None

    def _thresholds(self, mean: float) -> tuple[float, float]:
        return self.mean, self.variance

    def explain(self, decision: Decision | None) -> Explanation:
        """Why the last update decided so."""
        mean, variance = self.window_mean, self.window_variance
        if math.isnan(mean):
            return Explanation(f"the window holds {len(self.window)} of {self.size} losses")
        said = f"the last {self.size} losses have a mean of {mean:.3g}"
        if decision == "plateau" or (decision is None and self.armed):
            low, steady = self._thresholds(mean)
            text = (
                f"{said}, {'' if mean < low else 'not '}below {low:.3g}, and a variance of "
                f"{variance:.3g}, {'' if variance < steady else 'not '}below {steady:.3g}"
            )
            return Explanation(text, variance, {"mean": low, "variance": steady})
        level = self.plateau_mean + self.plateau_deviation
        text = (
            f"{said}, {'' if mean > level else 'not '}above {level:.3g}: the last plateau's mean "
            f"of {self.plateau_mean:.3g} and standard deviation of {self.plateau_deviation:.3g}"
        )
        return Explanation(text, variance, {"mean": level})

    def state_dict(self) -> dict[str, Tensor]:
        """The window, whether it is armed, and the last plateau's mean and deviation."""
        return {
            "window": torch.tensor(self.window, dtype=torch.float64),
            "window_mean": torch.tensor(self.window_mean, dtype=torch.float64),
            "window_variance": torch.tensor(self.window_variance, dtype=torch.float64),
            "armed": torch.tensor(self.armed),
            "plateau_mean": torch.tensor(self.plateau_mean, dtype=torch.float64),
            "plateau_deviation": torch.tensor(self.plateau_deviation, dtype=torch.float64),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        window = tuple(state["window"].tolist())
        _check_window(window, self.size)
        names = ("window_mean", "window_variance", "plateau_mean", "plateau_deviation")
        numbers = {name: state[name].item() for name in names}
        self.armed, self.window = bool(state["armed"]), window
        vars(self).update(numbers)


class Settled:
    """Consolidate where the loss has stopped falling, once after each rise: nothing to set.

    A *plateau*: the steps since the last rise, at least `least` of them, are seen in thirds, and
    in the last third the loss was lower than in the second by less than a tenth of all that it
    has come down. A slow descent is given the time it takes.

    A *peak*: the window's mean is above the level of the plateau by a tenth of that descent, and by
    six times its standard error, which the differences of successive losses before the window
    tell. The level follows the loss down. If no peak comes for as long again as it took to get
    there, what was refined since then is worth keeping too: that is a plateau again, the next one
    comes after twice that wait, then after three times it, and so on.

    Losses are only compared with each other: multiplied by any number, or moved by one, they lead
    to the same decisions. The state is a few numbers, however long the stream.

    Args:
        window: how many losses are looked at together.
        least: how many steps after a rise a plateau is found at the earliest.

    >>> trigger = Settled(window=2, least=6)
    >>> losses = [8, 4, 2, 1, 1, 1, 1, 1, 1, 9, 9, 1, 1, 1, 1, 1, 1, 1, 1]
    >>> [(step, d) for step, loss in enumerate(losses) if (d := trigger.update(100 * loss))]
    [(5, 'plateau'), (10, 'peak'), (16, 'plateau')]
    """

    def __init__(self, window: int = 5, least: int = 60) -> None:
        self.size = arguments.whole("window", window, least=1)
        self.least = arguments.whole("least", least, least=3)
        self.window: tuple[float, ...] = ()
        self.window_mean = math.nan
        self.armed = True
        self.noise = self._before = math.nan
        """The variance of single losses, and the loss before the window."""
        self._differences = 0
        self.height = -math.inf
        """The highest mean of a window since the last rise."""
        self.level = math.inf
        """The lowest mean of some steps since then."""
        self.descent = math.nan
        """How far the loss had come down at the last plateau."""
        self._risen = (math.nan, math.nan)
        self._begin()

    def _begin(self) -> None:
        """Look for a plateau from here on."""
        self.armed, self._settled = True, False
        self._age = self._again = self._first = self._wait = 0
        self.level = math.inf
        self._thirds = (math.nan, math.nan)
        self._blocks: tuple[float, ...] = ()
        self._length = self.size
        self._count, self._sum = 0, 0.0

    def update(self, loss: float) -> Decision | None:
        """Take in the loss of one time step and decide."""
        self._measure_noise()
        self.window = (*self.window, loss)[-self.size :]
        full = len(self.window) == self.size
        mean = self.window_mean = sum(self.window) / self.size if full else math.nan
        self._age += 1
        return self._watch(loss, mean) if self._settled else self._look_for_plateau(loss, mean)

    def _measure_noise(self) -> None:
        """Take in the loss that leaves the window: a rise must not hide in its own noise."""
        if len(self.window) < self.size:
            return
        difference = self.window[0] - self._before
        if not math.isnan(difference):
            square, self._differences = difference * difference / 2, self._differences + 1
            share = max(1 / MEMORY, 1 / self._differences)
            self.noise = square if self._differences == 1 else self.noise + share * (
                square - self.noise
            )  # fmt: skip
        self._before = self.window[0]

    def _look_for_plateau(self, loss: float, mean: float) -> Decision | None:
        if not math.isnan(mean):
            self.height = max(self.height, mean)
            back = (self.height - self.level) / 2  # half of the way up again: a new rise
            if mean > self.level + max(back, self._least_rise()):
                self._begin()
                self.height = mean
        self._count, self._sum = self._count + 1, self._sum + loss
        if self._count < self._length:
            return None
        block, self._count, self._sum = self._sum / self._count, 0, 0.0
        self._blocks, self.level = (*self._blocks, block), min(self.level, block)
        if self._levels_off():
            self._keep()
            return "plateau"
        if len(self._blocks) == BLOCKS:  # blocks twice as long, half as many
            pairs = zip(self._blocks[::2], self._blocks[1::2], strict=True)
            self._blocks, self._length = tuple((a + b) / 2 for a, b in pairs), 2 * self._length
        return None

    def _levels_off(self) -> bool:
        """Whether the loss has come down by little in the last third of the time."""
        third = len(self._blocks) // 3
        if not third or len(self._blocks) * self._length < self.least:
            return False
        last = sum(self._blocks[-third:]) / third
        before = sum(self._blocks[-2 * third : -third]) / third
        self._thirds = (before, last)
        return before - last <= FALL * (self.height - last)

    def _keep(self) -> None:
        """Remember the plateau, and look for a rise from here on."""
        self.armed, self._settled = False, True
        self.level = self._thirds[1]
        self.descent = self.height - self.level
        self._first = self._wait = self._age
        self._again = self._age + self._wait
        self._count, self._sum = 0, 0.0

    def _watch(self, loss: float, mean: float) -> Decision | None:
        """Look for a rise; if none comes in a while, it is a plateau again."""
        rise = max(RISE * self.descent, self._least_rise())
        if mean > self.level + rise:
            self._risen = (self.level, rise)
            self._begin()
            self.height = mean
            return "peak"
        self._count, self._sum = self._count + 1, self._sum + loss
        if self._count == 5 * self.size:
            self.level = min(self.level, self._sum / self._count)
            self._count, self._sum = 0, 0.0
        if self.armed:
            self.armed, self._wait = False, self._wait + self._first
            self._again = self._age + self._wait
            return "plateau"
        self.armed = self._age + 1 >= self._again
        return None

    def _least_rise(self) -> float:
        """The least rise of the window's mean that is not noise."""
        return 0.0 if math.isnan(self.noise) else ERRORS * math.sqrt(self.noise / self.size)

    def explain(self, decision: Decision | None) -> Explanation:
        """Why the last update decided so."""
        if math.isnan(self.window_mean):
            return Explanation(f"the window holds {len(self.window)} of {self.size} losses")
        mean = self.window_mean
        variance = sum((loss - mean) * (loss - mean) for loss in self.window) / self.size
        if decision == "peak":
            return self._explain_rise(*self._risen, variance)
        if decision == "plateau" and self._wait > self._first:
            text = (
                f"the loss has not risen for {self._age} steps, "
                f"{self._wait - self._first} of them since the last plateau"
            )
            return Explanation(text, variance)
        if decision is None and self._settled:
            rise = max(RISE * self.descent, self._least_rise())
            return self._explain_rise(self.level, rise, variance)
        before, last = self._thirds
        if math.isnan(last):
            steps = len(self._blocks) * self._length + self._count
            return Explanation(
                f"{steps} of at least {self.least} steps since the last rise", variance
            )
        limit = FALL * (self.height - last)
        text = (
            f"in the last third of the steps since the last rise the loss was {last:.3g}, lower by "
            f"{before - last:.3g} than in the third before, {'' if decision else 'not '}within a "
            f"tenth of the {self.height - last:.3g} that it has come down"
        )
        return Explanation(text, variance, {"fall": limit})

    def _explain_rise(self, level: float, rise: float, variance: float) -> Explanation:
        risen = self.window_mean > level + rise
        text = (
            f"the last {self.size} losses have a mean of {self.window_mean:.3g}, "
            f"{'' if risen else 'not '}above {level + rise:.3g}: the level of {level:.3g} and what "
            "noise, or a tenth of the descent to it, may add"
        )
        return Explanation(text, variance, {"mean": level + rise})

    def state_dict(self) -> dict[str, Tensor]:
        """The window, the blocks since the last rise and a few numbers."""
        return {
            "armed": torch.tensor(self.armed),
            "window": torch.tensor(self.window, dtype=torch.float64),
            "blocks": torch.tensor(self._blocks, dtype=torch.float64),
            "settled": torch.tensor(self._settled),
            "counts": torch.tensor(
                [
                    self._differences, self._length, self._count,
                    self._age, self._again, self._first, self._wait,
                ]
            ),
            "numbers": torch.tensor(
                [
                    self.window_mean, self.noise, self._before, self.height, self.level,
                    self.descent, self._sum, *self._thirds,
                ],
                dtype=torch.float64,
            ),
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        window = tuple(state["window"].tolist())
        _check_window(window, self.size)
        armed, settled = bool(state["armed"]), bool(state["settled"])
        blocks, numbers = tuple(state["blocks"].tolist()), state["numbers"].tolist()
        (
            self._differences, self._length, self._count,
            self._age, self._again, self._first, self._wait,
        ) = state["counts"].tolist()  # fmt: skip
        (
            self.window_mean, self.noise, self._before, self.height, self.level, self.descent,
            self._sum,
        ) = numbers[:7]  # fmt: skip
        self._thirds = (numbers[7], numbers[8])
        self.window, self._blocks, self.armed, self._settled = window, blocks, armed, settled


FALL, RISE = 0.1, 0.1
"""Of a descent: how much of it may fall into its last third at a plateau, and what a peak must
regain."""
ERRORS = 6
"""How many standard errors a rise must be."""
MEMORY = 40
"""How many differences of losses the noise is a mean of, about."""
BLOCKS = 12
"""How many blocks the time since the last rise is seen in, at most."""


def _check_window(window: tuple[float, ...], size: int) -> None:
    if len(window) > size:
        raise ValueError(
            f"the saved window holds {len(window)} losses and this trigger's {size}; "
            "load it into a trigger with the window it was saved from"
        )


class RelativePlateau(Plateau):
    """A plateau measured against the height that the loss came down from: no loss scale to set.

    A plateau is a full window whose mean is below `fall` times the height, and whose standard
    deviation is below `ripple` times the height: the largest window mean since the last peak
    (at first: since the start). Peaks are the paper's.

    >>> trigger = RelativePlateau(window=2)
    >>> [trigger.update(100 * loss) for loss in [2.0, 2.0, 1.0, 0.3, 0.3, 0.3]]
    [None, None, None, None, 'plateau', None]
    """

    def __init__(self, window: int = 5, fall: float = 0.2, ripple: float = 0.3) -> None:
        self.fall = arguments.number("fall", fall, above=0, hint="0.2: a fifth of the height")
        self.ripple = arguments.number("ripple", ripple, above=0, hint="as a part of the height")
        self.height = 0.0
        self._start(window)

    def update(self, loss: float) -> Decision | None:
        """Take in the loss of one time step and decide."""
        decision = super().update(loss)
        if decision == "peak":
            self.height = self.window_mean
        return decision

    def _thresholds(self, mean: float) -> tuple[float, float]:
        self.height = max(self.height, mean)
        spread = self.ripple * self.height
        return self.fall * self.height, spread * spread

    def explain(self, decision: Decision | None) -> Explanation:
        """Why the last update decided so."""
        told = super().explain(decision)
        if "variance" not in told.thresholds:
            return told
        return told._replace(text=f"{told.text}; it came down from {self.height:.3g}")

    def state_dict(self) -> dict[str, Tensor]:
        """The state of the window and the height."""
        return super().state_dict() | {"height": torch.tensor(self.height, dtype=torch.float64)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        height = state["height"].item()
        super().load_state_dict(state)
        self.height = height


class Every:
    """Consolidate every `n` time steps, whatever the loss does: for comparison.

    >>> trigger = Every(3)
    >>> [trigger.update(1.0) for _ in range(6)]
    [None, None, 'plateau', None, None, 'plateau']
    """

    armed = True
    window_mean = math.nan

    def __init__(self, n: int) -> None:
        self.n = arguments.whole("n", n, least=1)
        self.since = 0

    def update(self, loss: float) -> Decision | None:
        """Count one time step."""
        self.since = (self.since + 1) % self.n
        return "plateau" if self.since == 0 else None

    def explain(self, decision: Decision | None) -> Explanation:
        """How many time steps have passed."""
        passed = self.n if decision == "plateau" else self.since
        return Explanation(f"{passed} of {self.n} time steps have passed")

    def state_dict(self) -> dict[str, Tensor]:
        """How many time steps have passed since the last consolidation."""
        return {"since": torch.tensor(self.since)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        self.since = int(state["since"])


class At:
    """Consolidate at these time steps, counted from 1: for who is told when the stream changes.

    >>> trigger = At([2, 3])
    >>> [trigger.update(1.0) for _ in range(4)]
    [None, 'plateau', 'plateau', None]
    """

    armed = True
    window_mean = math.nan

    def __init__(self, steps: Iterable[int]) -> None:
        self.steps = frozenset(arguments.whole("steps", step, least=1) for step in steps)
        self.step = 0

    def update(self, loss: float) -> Decision | None:
        """Count one time step."""
        self.step += 1
        return "plateau" if self.step in self.steps else None

    def explain(self, decision: Decision | None) -> Explanation:
        """Which time step it is."""
        told = "one that was" if decision == "plateau" else "not one that was"
        return Explanation(f"this is time step {self.step}, {told} asked for")

    def state_dict(self) -> dict[str, Tensor]:
        """How many time steps have passed."""
        return {"step": torch.tensor(self.step)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        self.step = int(state["step"])


class Never:
    """Never consolidate: online learning without importance weights.

    >>> Never().update(0.0) is None
    True
    """

    armed = False
    window_mean = math.nan

    def update(self, loss: float) -> Decision | None:
        """Let the loss pass."""
        return None

    def explain(self, decision: Decision | None) -> Explanation:
        """There is no more to say."""
        return Explanation("this trigger never decides anything")

    def state_dict(self) -> dict[str, Tensor]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Nothing to continue from."""
