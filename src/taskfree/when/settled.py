"""The default trigger: a plateau is where the loss has stopped falling."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from taskfree._core import validation
from taskfree._core.serialization import load_fields, save_fields
from taskfree.when.trigger import Decision, Explanation, check_window

FALL = 0.1
"""At a plateau, the last third of the steps has at most this fraction of the whole descent."""
RISE = 0.1
"""A peak regains at least this fraction of the descent ..."""
ERRORS = 6
"""... and is at least this many standard errors high."""
EARLY_RISE = 0.25
"""A rise before a plateau regains at least this fraction of the descent so far."""
MEMORY = 40
"""About how many differences of successive losses the noise is averaged over."""
BLOCKS = 12
"""The steps since the last rise are averaged in at most this many blocks."""
STATE = (
    "armed", "window", "window_mean", "noise", "height", "level", "descent", "_settled", "_before",
    "_differences", "_blocks", "_length", "_count", "_sum", "_age", "_again", "_first", "_wait",
    "_thirds",
)  # fmt: skip


class Settled:
    """Consolidate where the loss has stopped falling, once after each rise. No thresholds to set.

    *Plateau.* The steps since the last rise, at least `min_steps`, are divided into thirds. The
    loss has settled if it fell by at most a tenth of its whole descent from the second third to
    the last. A slow descent gets the time it needs.

    *Peak.* The window's mean exceeds the level of the plateau by a tenth of that descent and by six
    standard errors. The noise is estimated from the differences of successive losses before the
    window. The level follows the loss down.

    *Rise before a plateau.* If the loss regains a quarter of its descent before it has settled, and
    six standard errors, what was learned so far is consolidated at once: the wait ends at the
    latest when the stream changes.

    *Again.* If no peak comes for as long as it took to reach the plateau, what was refined since is
    consolidated too. The next such plateau comes after twice that time, then three times, and so
    on.

    Losses are only compared with each other: scaling or shifting all of them changes no decision.

    Args:
        window: how many losses are judged together.
        min_steps: how many steps after a rise a plateau is found at the earliest.

    >>> trigger = Settled(window=2, min_steps=6)
    >>> losses = [8, 4, 2, 1, 1, 1, 1, 1, 1, 9, 9, 1, 1, 1, 1, 1, 1, 1, 1]
    >>> [(step, d) for step, loss in enumerate(losses) if (d := trigger.update(100 * loss))]
    [(5, 'plateau'), (10, 'peak'), (16, 'plateau')]
    """

    def __init__(self, window: int = 5, min_steps: int = 60) -> None:
        self.size = validation.integer("window", window, least=1)
        self.min_steps = validation.integer("min_steps", min_steps, least=3)
        self.window: tuple[float, ...] = ()
        self.window_mean = math.nan
        self.armed = True
        self.noise = self._before = math.nan
        """The variance of single losses, and the loss before the window."""
        self._differences = 0
        self.height = -math.inf
        """The largest window mean since the last rise."""
        self.level = math.inf
        """The lowest block mean since then."""
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
        """Take the loss of one time step and decide."""
        self._estimate_noise()
        self.window = (*self.window, loss)[-self.size :]
        full = len(self.window) == self.size
        mean = self.window_mean = sum(self.window) / self.size if full else math.nan
        self._age += 1
        return self._watch(loss, mean) if self._settled else self._look_for_plateau(loss, mean)

    def _estimate_noise(self) -> None:
        """Use the loss that leaves the window: a rise must not hide in its own noise."""
        if len(self.window) < self.size:
            return
        difference = self.window[0] - self._before
        if not math.isnan(difference):
            square, self._differences = difference * difference / 2, self._differences + 1
            share = max(1 / MEMORY, 1 / self._differences)
            first = self._differences == 1
            self.noise = square if first else self.noise + share * (square - self.noise)
        self._before = self.window[0]

    def _look_for_plateau(self, loss: float, mean: float) -> Decision | None:
        if not math.isnan(mean):
            self.height = max(self.height, mean)
            rise = max(EARLY_RISE * (self.height - self.level), self._smallest_rise())
            if mean > self.level + rise:
                long_enough = len(self._blocks) * self._length >= self.min_steps
                self._risen = (self.level, rise)
                self._begin()
                self.height = mean
                if long_enough:
                    return "plateau"
        self._count, self._sum = self._count + 1, self._sum + loss
        if self._count < self._length:
            return None
        block, self._count, self._sum = self._sum / self._count, 0, 0.0
        self._blocks, self.level = (*self._blocks, block), min(self.level, block)
        if self._levels_off():
            self._remember()
            return "plateau"
        if len(self._blocks) == BLOCKS:  # blocks twice as long, half as many
            pairs = zip(self._blocks[::2], self._blocks[1::2], strict=True)
            self._blocks, self._length = tuple((a + b) / 2 for a, b in pairs), 2 * self._length
        return None

    def _levels_off(self) -> bool:
        """Whether the loss fell only a little in the last third of the steps."""
        third = len(self._blocks) // 3
        if not third or len(self._blocks) * self._length < self.min_steps:
            return False
        last = sum(self._blocks[-third:]) / third
        before = sum(self._blocks[-2 * third : -third]) / third
        self._thirds = (before, last)
        return before - last <= FALL * (self.height - last)

    def _remember(self) -> None:
        """Remember the plateau, and look for a rise from here on."""
        self.armed, self._settled = False, True
        self.level = self._thirds[1]
        self.descent = self.height - self.level
        self._first = self._wait = self._age
        self._again = self._age + self._wait
        self._count, self._sum = 0, 0.0

    def _watch(self, loss: float, mean: float) -> Decision | None:
        """Look for a rise; if none comes for long enough, this is a plateau again."""
        rise = max(RISE * self.descent, self._smallest_rise())
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

    def _smallest_rise(self) -> float:
        """The smallest rise of the window's mean that is not noise."""
        return 0.0 if math.isnan(self.noise) else ERRORS * math.sqrt(self.noise / self.size)

    def explain(self, decision: Decision | None) -> Explanation:
        """Why the last update decided so."""
        if math.isnan(self.window_mean):
            return Explanation(f"the window holds {len(self.window)} of {self.size} losses")
        mean = self.window_mean
        variance = sum((loss - mean) * (loss - mean) for loss in self.window) / self.size
        if decision == "peak" or (decision == "plateau" and not self._age):
            early = decision == "plateau"
            found = self._explain_rise(*self._risen, variance, EARLY_RISE if early else RISE)
            intro = "the loss rises before it has settled: " if early else ""
            return found._replace(text=intro + found.text)
        if decision == "plateau" and self._wait > self._first:
            text = (
                f"no rise for {self._age} steps, {self._wait - self._first} of them since the "
                "last plateau"
            )
            return Explanation(text, variance)
        if decision is None and self._settled:
            rise = max(RISE * self.descent, self._smallest_rise())
            return self._explain_rise(self.level, rise, variance)
        before, last = self._thirds
        if math.isnan(last):
            steps = len(self._blocks) * self._length + self._count
            text = f"{steps} of at least {self.min_steps} steps since the last rise"
            return Explanation(text, variance)
        drop, side = self.height - last, "below" if before >= last else "above"
        text = (
            f"loss {last:.3g} over the last third of the steps since the last rise, "
            f"{abs(before - last):.3g} {side} the third before: {'' if decision else 'not '}"
            f"settled (limit {FALL:.0%} of the {drop:.3g} drop)"
        )
        return Explanation(text, variance, {"fall": FALL * drop})

    def _explain_rise(
        self, level: float, rise: float, variance: float, fraction: float = RISE
    ) -> Explanation:
        risen = self.window_mean > level + rise
        text = (
            f"the last {self.size} losses have mean {self.window_mean:.3g}, "
            f"{'' if risen else 'not '}above {level + rise:.3g}: the level {level:.3g} plus what "
            f"noise or {fraction:.0%} of the descent may add"
        )
        return Explanation(text, variance, {"mean": level + rise})

    def state_dict(self) -> dict[str, Tensor]:
        """The window, the blocks since the last rise and a few numbers."""
        return save_fields(self, STATE)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        if "numbers" in state:
            state = _named(state)
        check_window(tuple(state["window"].tolist()), self.size)
        load_fields(self, STATE, state)


def _named(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state by names, of one whose numbers were saved by position (checkpoints up to 0.1)."""
    counts = ("differences", "length", "count", "age", "again", "first", "wait")
    numbers = ("window_mean", "noise", "before", "height", "level", "descent", "sum")
    named = dict(zip(counts, state["counts"], strict=True))
    named |= dict(zip(numbers, state["numbers"][:7], strict=True))
    named["thirds"] = state["numbers"][7:]
    return {**{name: state[name] for name in ("armed", "window", "blocks", "settled")}, **named}
