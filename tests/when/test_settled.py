import math
from itertools import pairwise
from statistics import pvariance

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from losses import decision_steps, decisions, noisy
from same import assert_same, snapshot
from taskfree.when import Settled


def noise_of(losses):
    """The mean of half the squared differences of successive losses, over about the last 40."""
    noise = math.nan
    for number, (before, after) in enumerate(pairwise(losses), 1):
        square = (after - before) * (after - before) / 2
        noise = square if number == 1 else noise + max(1 / 40, 1 / number) * (square - noise)
    return noise


def definition(losses, size, min_steps):
    """The docstring of Settled, computed from the whole history at every step."""
    found, start, age, height, low, plateau = [], 0, 0, -math.inf, math.inf, None
    length = size
    for now, loss in enumerate(losses, 1):
        found.append(None)
        age += 1
        mean = sum(losses[now - size : now]) / size if now >= size else math.nan
        noise = noise_of(losses[: max(0, now - size)])
        certain = 0.0 if math.isnan(noise) else 6 * math.sqrt(noise / size)
        if plateau is None:
            height = max(height, mean) if mean == mean else height
            if mean > low + max(0.25 * (height - low), certain):
                blocks_done = (now - 1 - start) // length * length
                start, age, height, low = now - 1, 0, mean, math.inf
                if blocks_done >= min_steps:
                    found[-1], start, length = "plateau", now, size
                    continue
            since, length = losses[start:now], size
            while len(since) > 12 * length:
                length *= 2
            if len(since) % length:
                continue
            blocks = [
                sum(since[first : first + length]) / length
                for first in range(0, len(since), length)
            ]
            low, third = min(low, blocks[-1]), len(blocks) // 3
            if third and len(since) >= min_steps:
                last = sum(blocks[-third:]) / third
                before = sum(blocks[-2 * third : -third]) / third
                if before - last <= 0.1 * (height - last):
                    plateau = {"level": last, "descent": height - last, "seen": [], "wait": age}
                    first, again = age, 2 * age
                    found[-1] = "plateau"
        elif mean > plateau["level"] + max(0.1 * plateau["descent"], certain):
            found[-1] = "peak"
            start, age, height, low, plateau = now, 0, mean, math.inf, None
        else:
            plateau["seen"].append(loss)
            if len(plateau["seen"]) == 5 * size:
                plateau["level"] = min(plateau["level"], sum(plateau["seen"]) / (5 * size))
                plateau["seen"] = []
            if age == again:
                plateau["wait"] += first
                again = age + plateau["wait"]
                found[-1] = "plateau"
    return found


STRETCHES = st.lists(
    st.tuples(st.integers(0, 64), st.integers(0, 3), st.integers(1, 40)), min_size=1, max_size=8
)


@given(STRETCHES, st.sampled_from([1, 2, 4]), st.integers(3, 20), st.randoms(use_true_random=False))
def test_settled_follows_its_definition(stretches, size, min_steps, random):
    """Integers, so that sums are exact in any order."""
    losses = [
        float(height + random.randint(-noise, noise))
        for height, noise, steps in stretches
        for _ in range(steps)
    ]
    expected = definition(losses, size, min_steps)
    assert decisions(Settled(window=size, min_steps=min_steps), losses) == expected


def test_settled_follows_its_definition_on_long_streams():
    for seed in range(3):
        levels = [3.0] * 10 + [0.5] * 300 + [2.0] * 20 + [0.4] * 400 + [0.9] * 50 + [0.3] * 100
        losses = [round(64 * loss) / 64 for loss in noisy(levels, std=0.1, seed=seed)]
        expected = definition(losses, 4, 60)
        assert {"plateau", "peak"} <= set(expected)
        assert decisions(Settled(window=4, min_steps=60), losses) == expected


@given(st.lists(st.floats(0.01, 10), max_size=80), st.sampled_from([-10, -2, 3, 13]))
def test_settled_has_no_scale(losses, power):
    plain = decisions(Settled(window=2, min_steps=6), losses)
    scaled = [math.ldexp(loss, power) for loss in losses]  # powers of two scale exactly
    assert decisions(Settled(window=2, min_steps=6), scaled) == plain


def test_settled_has_no_zero():
    losses = noisy([2.0] * 20 + [0.5] * 200 + [3.0] * 30 + [0.4] * 200)
    shifted = [loss + 7 for loss in losses]
    expected = decision_steps(Settled(), losses)
    assert [len(steps) for steps in expected] == [4, 1]
    assert decision_steps(Settled(), shifted) == expected


@pytest.mark.parametrize("time", [5, 50, 200, 1000])
def test_settled_gives_a_descent_the_time_it_takes(time):
    losses = [3 * math.exp(-step / time) + 0.2 for step in range(12 * time + 80)]
    first = decision_steps(Settled(), losses)[0][0]
    assert (losses[first] - 0.2) / 3 < 0.15, "most of the way down"
    assert first <= max(80, 6 * time)


def test_settled_finds_sudden_changes_at_once_and_consolidates_again():
    losses = noisy([2.0, 1.5, 1.0] + [0.5] * 297 + [2.0, 1.6, 1.2] + [0.6] * 297)
    plateaus, peaks = decision_steps(Settled(), losses)
    assert plateaus == [60, 120, 240, peaks[0] + 60, peaks[0] + 120, peaks[0] + 240]
    assert len(peaks) == 1
    assert 301 <= peaks[0] <= 304


@pytest.mark.parametrize("seed", range(5))
def test_settled_does_not_mistake_noise_for_a_change(seed):
    losses = noisy([2.0] * 10 + [0.5] * 4000, std=0.2, seed=seed)
    plateaus, peaks = decision_steps(Settled(), losses)
    assert len(peaks) <= 1
    assert len(plateaus) <= 13  # 60, 120, 240, 420, ...


def test_settled_finds_a_small_rise_that_stands_out_of_the_noise():
    losses = noisy([2.0] * 10 + [0.5] * 150 + [0.8] * 20, std=0.03)
    assert decision_steps(Settled(), losses)[1][0] <= 166


def test_settled_starts_over_if_the_loss_rises_before_it_has_settled():
    fall = [2 * math.exp(-step / 20) for step in range(40)]
    plateaus, peaks = decision_steps(Settled(), noisy(fall + fall + fall + [0.0] * 90, std=0.01))
    assert peaks == []
    assert 140 <= plateaus[0] <= 200, "at least 60 steps after the last rise"


def test_settled_follows_the_level_down():
    losses = noisy([3.0] * 5 + [1.0] * 75 + [0.2] * 100 + [0.8] * 20)
    plateaus, peaks = decision_steps(Settled(), losses)
    assert plateaus[0] <= 65
    assert 181 <= peaks[0] <= 186, "0.8 is below the first plateau, and far above the second"


def test_settled_explains_each_decision():
    trigger = Settled(window=2, min_steps=12)
    assert trigger.explain(None).text == "the window holds 0 of 2 losses"
    decisions(trigger, [4.0, 2.0])
    assert trigger.explain(None).text == "2 of at least 12 steps since the last rise"
    assert decisions(trigger, [1.0] * 10)[-1] == "plateau"
    reason = trigger.explain("plateau")
    assert reason.text == (
        "loss 1 over the last third of the steps since the last rise, 0 below the third before: "
        "settled (limit 10% of the 2 drop)"
    )
    assert reason.thresholds == {"fall": pytest.approx(0.2)}
    assert decisions(trigger, [1.0] * 12)[-1] == "plateau"
    assert trigger.explain("plateau").text == (
        "no rise for 24 steps, 12 of them since the last plateau"
    )
    assert trigger.update(1.0) is None
    level = trigger.explain(None).thresholds["mean"]
    rise = f"{level:.3g}: the level 1 plus what noise or 10% of the descent may add"
    assert trigger.explain(None).text == f"the last 2 losses have mean 1, not above {rise}"
    assert trigger.update(9.0) == "peak"
    reason = trigger.explain("peak")
    level = reason.thresholds["mean"]
    assert reason.text.startswith(f"the last 2 losses have mean 5, above {level:.3g}: the level 1")
    assert reason.variance == 16


def test_settled_explains_a_loss_that_still_falls():
    trigger = Settled(window=2, min_steps=6)
    assert decisions(trigger, [8.0, 8.0, 6.0, 6.0, 4.0, 4.0])[-1] is None
    reason = trigger.explain(None)
    assert reason.text == (
        "loss 4 over the last third of the steps since the last rise, 2 below the third before: "
        "not settled (limit 10% of the 4 drop)"
    )
    assert reason.thresholds == {"fall": pytest.approx(0.4)}


def test_settled_gives_the_threshold_of_the_next_peak():
    trigger = Settled(window=2, min_steps=6)
    decisions(trigger, [9.0, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert not trigger.armed
    noise = noise_of([9.0, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0])  # of the losses before the window
    expected = 1 + max(0.8, 6 * math.sqrt(noise / 2))
    assert trigger.explain(None).thresholds["mean"] == pytest.approx(expected)


def test_settled_counts_the_steps_of_an_unfinished_block():
    trigger = Settled(window=2, min_steps=60)
    decisions(trigger, [9.0, 8.0, 7.0, 6.0, 5.0])
    assert trigger.explain(None).text == "5 of at least 60 steps since the last rise"


def test_settled_reports_the_variance_of_the_window_with_every_decision():
    trigger = Settled(window=4, min_steps=12)
    losses = noisy([4.0] * 6 + [1.0] * 40 + [5.0] * 10 + [1.0] * 30, std=0.1)
    seen = set()
    for number, loss in enumerate(losses, 1):
        decision = trigger.update(loss)
        reason = trigger.explain(decision)
        if number >= 4:
            assert reason.variance == pytest.approx(pvariance(losses[number - 4 : number]))
            seen.add((decision, *reason.thresholds))
        else:
            assert math.isnan(reason.variance)
    assert seen == {
        (None,), (None, "fall"), (None, "mean"), ("plateau",), ("plateau", "fall"), ("peak", "mean"),
    }  # fmt: skip


@given(st.lists(st.floats(0, 10), max_size=60), st.integers(0, 60))
def test_a_loaded_settled_continues_alike(losses, cut):
    whole, first, second = (Settled(window=2, min_steps=6) for _ in range(3))
    expected = decisions(whole, losses)
    started = decisions(first, losses[:cut])
    second.load_state_dict(snapshot(first))
    assert second.explain(None).text == first.explain(None).text
    assert started + decisions(second, losses[cut:]) == expected
    assert_same(snapshot(second), snapshot(whole))


def by_position(trigger):
    """The state as version 0.1 saved it: numbers by their position."""
    counts = [
        trigger._differences, trigger._length, trigger._count,
        trigger._age, trigger._again, trigger._first, trigger._wait,
    ]  # fmt: skip
    numbers = [
        trigger.window_mean, trigger.noise, trigger._before, trigger.height, trigger.level,
        trigger.descent, trigger._sum, *trigger._thirds,
    ]  # fmt: skip
    return {
        "armed": torch.tensor(trigger.armed),
        "window": torch.tensor(trigger.window, dtype=torch.float64),
        "blocks": torch.tensor(trigger._blocks, dtype=torch.float64),
        "settled": torch.tensor(trigger._settled),
        "counts": torch.tensor(counts),
        "numbers": torch.tensor(numbers, dtype=torch.float64),
    }


@pytest.mark.parametrize("cut", [0, 1, 30, 62, 130, 300, 325])
def test_a_state_of_version_0_1_continues_alike(cut):
    losses = noisy([3.0] * 10 + [0.5] * 300 + [2.0] * 20 + [0.4] * 200)
    whole, loaded = Settled(), Settled()
    decisions(whole, losses[:cut])
    loaded.load_state_dict(by_position(whole))
    assert_same(snapshot(loaded), snapshot(whole))
    assert decisions(loaded, losses[cut:]) == decisions(whole, losses[cut:])


def test_a_longer_saved_window_of_settled_is_refused_and_nothing_changes():
    saved, trigger = Settled(window=9), Settled(window=3)
    decisions(saved, [5.0] * 9)
    before = snapshot(trigger)
    with pytest.raises(ValueError, match="holds 9 losses and this trigger's 3"):
        trigger.load_state_dict(saved.state_dict())
    assert_same(snapshot(trigger), before)


def test_settled_saves_its_numbers_in_double_precision():
    trigger = Settled(window=3, min_steps=6)
    decisions(trigger, [1 / 3, 1 / 7, 0.1] * 4)
    floats = [value for value in trigger.state_dict().values() if value.is_floating_point()]
    assert floats
    assert all(value.dtype == torch.float64 for value in floats)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": 0}, "window must be an integer of at least 1, got 0"),
        ({"min_steps": 2}, "min_steps must be an integer of at least 3, got 2"),
    ],
)
def test_invalid_settings_of_settled(arguments, message):
    with pytest.raises(ValueError, match=message):
        Settled(**arguments)


def test_a_rise_before_the_loss_has_settled_consolidates_at_once():
    falling = [2.0 - step / 200 for step in range(200)]  # never settles
    trigger = Settled()
    plateaus, peaks = decision_steps(trigger, [*falling, *[2.0 - step / 200 for step in range(50)]])
    assert [len(plateaus), len(peaks)] == [1, 0]
    assert 200 <= plateaus[0] < 205, "within a window of the change"
    assert trigger.armed, "the next plateau is looked for"


def test_a_rise_right_after_the_start_is_not_a_plateau():
    losses = [2.0 - step / 50 for step in range(40)] * 2
    assert decision_steps(Settled(), losses) == ([], [])


def test_an_early_consolidation_says_why():
    trigger = Settled(window=2, min_steps=6)
    for loss in [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 19.0]:
        decision = trigger.update(loss)
    assert decision == "plateau"
    assert trigger.explain(decision).text == (
        "the loss rises before it has settled: the last 2 losses have mean 11, above 6.5: the level "
        "3.5 plus what noise or 25% of the descent may add"
    )
