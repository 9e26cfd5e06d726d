"""The contract of a trigger."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from taskfree.checks.comparison import check_undo, require, same, snapshot
from taskfree.when import Trigger


def _losses(count: int) -> list[float]:
    """Three descents with noise, each from a higher peak, with awkward values in between."""
    noise = torch.Generator().manual_seed(0)
    falls = [
        10 ** (index // (count // 3)) * math.exp(-(index % (count // 3)) / 8)
        for index in range(count)
    ]
    drawn = torch.rand(count, generator=noise, dtype=torch.float64).tolist()
    losses = [fall * (0.9 + 0.2 * wobble) for fall, wobble in zip(falls, drawn, strict=True)]
    losses[count // 2 : count // 2] = [0.0, 1e30, -1.0, 1e-30]
    return losses


def check_trigger(make: Callable[[], Trigger]) -> None:
    """Check a trigger; `make` creates a new one.

    >>> from taskfree import when
    >>> check_trigger(lambda: when.Every(3))
    """
    losses = _losses(300)
    trigger, twin = make(), make()
    sizes = []
    for index, loss in enumerate(losses):
        armed = trigger.armed
        attributes, before = vars(trigger).copy(), snapshot(trigger.state_dict())
        decision = trigger.update(loss)
        if index % 37 == 0:
            check_undo(trigger, attributes, before)
        require(
            decision in (None, "plateau", "peak"),
            f"update must answer 'plateau', 'peak' or None, got {decision!r}",
        )
        require(armed or decision != "plateau", "only an armed trigger may find a plateau")
        require(trigger.armed or decision != "peak", "a peak must leave the trigger armed")
        require(isinstance(trigger.window_mean, float), "window_mean must be a float")
        before = snapshot(trigger.state_dict())
        text = trigger.explain(decision).text
        require(bool(text) and "\n" not in text, "explain must give one sentence of text")
        require(same(before, trigger.state_dict()), "explain must not change the trigger")
        require(decision == twin.update(loss), "two new triggers must decide alike")
        state = snapshot(trigger.state_dict())
        sizes.append(sum(value.numel() for value in state.values()))
        if index % 37 == 0:
            _check_continuation(make, state, losses[index + 1 :], trigger)
    require(
        max(sizes) == max(sizes[: len(sizes) // 2]),
        "a trigger's state must not grow with the stream",
    )


def _check_continuation(
    make: Callable[[], Trigger], state: dict[str, Tensor], rest: list[float], original: Trigger
) -> None:
    """Two triggers loaded from one state must continue alike, and the state must not change."""
    before = snapshot(state)
    loaded, again = make(), make()
    loaded.load_state_dict(state)
    require(same(loaded.state_dict(), state), "a loaded state must be what was saved")
    require(loaded.armed == original.armed, "armed must be part of the state")
    again.load_state_dict(state)
    for loss in rest[:50]:
        require(loaded.update(loss) == again.update(loss), "a loaded trigger must continue alike")
    require(same(before, state), "a trigger must not write to the state it was loaded from")
