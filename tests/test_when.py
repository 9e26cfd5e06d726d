import math
from itertools import pairwise
from statistics import pvariance

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from same import assert_same, snapshot
from taskfree.when import At, Every, Never, Plateau, RelativePlateau, Settled

LOSSES = st.lists(st.floats(0, 10), max_size=60)


def decisions(trigger, losses):
    return [trigger.update(loss) for loss in losses]


def literal(losses, size, mean_threshold, variance_threshold):
    """The design's words, as a function of the whole history."""
    window, armed, old, found = [], True, (0, 0), []
    for loss in losses:
        window = [*window, loss][-size:]
        found.append(None)
        if len(window) < size:
            continue
        mean = sum(window) / len(window)
        variance = sum((loss - mean) ** 2 for loss in window) / len(window)
        if armed and mean < mean_threshold and variance < variance_threshold:
            window, armed, old = [], False, (mean, variance**0.5)
            found[-1] = "plateau"
        elif not armed and mean > old[0] + old[1]:
            armed = True
            found[-1] = "peak"
    return found


@given(LOSSES, st.integers(1, 6))
def test_plateau_is_the_designs_words(losses, size):
    expected = literal(losses, size, 3, 2)
    assert decisions(Plateau(window=size, mean=3, variance=2), losses) == expected


def test_a_partly_filled_window_is_not_judged():
    trigger = Plateau(window=5, mean=1, variance=1)
    assert decisions(trigger, [0.0] * 4) == [None] * 4
    assert math.isnan(trigger.window_mean)
    assert trigger.update(0.0) == "plateau"
    assert trigger.window_mean == 0.0


def test_a_plateau_empties_the_window_and_only_a_peak_arms_again():
    trigger = Plateau(window=2, mean=1, variance=1)
    assert decisions(trigger, [0.5, 0.5]) == [None, "plateau"]
    assert not trigger.armed
    assert trigger.window == ()
    assert decisions(trigger, [0.5] * 10) == [None] * 10
    assert decisions(trigger, [0.6]) == ["peak"]
    assert trigger.armed
    assert decisions(trigger, [0.5]) == ["plateau"], "the window is not emptied by a peak"


def test_thresholds_are_strict():
    assert decisions(Plateau(window=1, mean=1, variance=1), [1.0]) == [None]
    assert decisions(Plateau(window=2, mean=9, variance=1), [0.0, 2.0]) == [None, None]


@given(st.lists(st.floats(0.01, 10), max_size=80), st.sampled_from([1e-3, 0.25, 8.0, 1e4]))
def test_relative_plateau_has_no_scale(losses, scale):
    # Powers of two scale exactly; the others may round, so losses are kept to a few bits.
    losses = [round(loss * 16) / 16 for loss in losses]
    scale = 2.0 ** round(math.log2(scale))
    plain = decisions(RelativePlateau(), losses)
    assert decisions(RelativePlateau(), [loss * scale for loss in losses]) == plain


def test_relative_plateau_is_measured_from_the_height_since_the_peak():
    trigger = RelativePlateau(window=1, fall=0.5, ripple=1)
    assert decisions(trigger, [8.0, 5.0, 3.9]) == [None, None, "plateau"]
    assert decisions(trigger, [4.0, 2.1]) == ["peak", None], "2.1 is not below half of 4"
    assert decisions(trigger, [1.9]) == ["plateau"]


def found(trigger, losses):
    """The steps of plateaus and of peaks, counted from 1."""
    told = [(step, d) for step, loss in enumerate(losses, 1) if (d := trigger.update(loss))]
    return tuple([step for step, d in told if d == kind] for kind in ("plateau", "peak"))


def noisy(levels, spread=0.05, seed=0):
    generator = torch.Generator().manual_seed(seed)
    levels = torch.tensor(levels, dtype=torch.float64)
    return (
        levels + spread * torch.randn(len(levels), generator=generator, dtype=torch.float64)
    ).tolist()


@given(st.lists(st.floats(0.01, 10), max_size=80), st.sampled_from([-10, -2, 3, 13]))
def test_settled_has_no_scale(losses, power):
    plain = decisions(Settled(window=2, least=6), losses)
    scaled = [math.ldexp(loss, power) for loss in losses]  # powers of two scale exactly
    assert decisions(Settled(window=2, least=6), scaled) == plain


def noise_of(losses):
    """The mean of half the squared differences of successive losses; of about the last 40."""
    noise = math.nan
    for number, (before, after) in enumerate(pairwise(losses), 1):
        square = (after - before) * (after - before) / 2
        noise = square if number == 1 else noise + max(1 / 40, 1 / number) * (square - noise)
    return noise


def literal_settled(losses, size, least):
    """Settled's words, with all that was seen since the last rise looked at again at every step."""
    found, begin, age, height, low, plateau = [], 0, 0, -math.inf, math.inf, None
    for now, loss in enumerate(losses, 1):
        found.append(None)
        age += 1
        mean = sum(losses[now - size : now]) / size if now >= size else math.nan
        noise = noise_of(losses[: max(0, now - size)])
        certain = 0.0 if math.isnan(noise) else 6 * math.sqrt(noise / size)
        if plateau is None:
            height = max(height, mean) if mean == mean else height
            if mean > low + max((height - low) / 2, certain):
                begin, age, height, low = now - 1, 0, mean, math.inf
            since, length = losses[begin:now], size
            while len(since) > 12 * length:
                length *= 2
            if len(since) % length:
                continue
            blocks = [
                sum(since[start : start + length]) / length
                for start in range(0, len(since), length)
            ]
            low, third = min(low, blocks[-1]), len(blocks) // 3
            if third and len(since) >= least:
                last = sum(blocks[-third:]) / third
                before = sum(blocks[-2 * third : -third]) / third
                if before - last <= 0.1 * (height - last):
                    plateau = {"level": last, "descent": height - last, "seen": [], "wait": age}
                    first, again = age, 2 * age
                    found[-1] = "plateau"
        elif mean > plateau["level"] + max(0.1 * plateau["descent"], certain):
            found[-1] = "peak"
            begin, age, height, low, plateau = now, 0, mean, math.inf, None
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
def test_settled_is_its_words(stretches, size, least, chance):
    """Whole numbers, so that sums are exact in any order."""
    losses = [
        float(height + chance.randint(-noise, noise))
        for height, noise, steps in stretches
        for _ in range(steps)
    ]
    expected = literal_settled(losses, size, least)
    assert decisions(Settled(window=size, least=least), losses) == expected


def test_settled_is_its_words_on_long_streams():
    for seed in range(3):
        levels = [3.0] * 10 + [0.5] * 300 + [2.0] * 20 + [0.4] * 400 + [0.9] * 50 + [0.3] * 100
        losses = [round(64 * loss) / 64 for loss in noisy(levels, spread=0.1, seed=seed)]
        expected = literal_settled(losses, 4, 60)
        assert {"plateau", "peak"} <= set(expected)
        assert decisions(Settled(window=4, least=60), losses) == expected


def test_settled_tells_the_windows_variance_whatever_it_decides():
    trigger = Settled(window=4, least=12)
    losses = noisy([4.0] * 6 + [1.0] * 40 + [5.0] * 10 + [1.0] * 30, spread=0.1)
    seen = set()
    for number, loss in enumerate(losses, 1):
        decision = trigger.update(loss)
        told = trigger.explain(decision)
        if number >= 4:
            assert told.variance == pytest.approx(pvariance(losses[number - 4 : number]))
            seen.add((decision, *told.thresholds))
        else:
            assert math.isnan(told.variance)
    assert seen == {
        (None,), (None, "fall"), (None, "mean"), ("plateau",), ("plateau", "fall"), ("peak", "mean"),
    }  # fmt: skip


def test_settled_says_where_the_next_peak_would_be():
    trigger = Settled(window=2, least=6)
    decisions(trigger, [9.0, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert not trigger.armed
    assert trigger.explain(None).thresholds["mean"] == 1 + max(0.8, trigger._least_rise())


def test_settled_counts_the_steps_of_an_unfinished_block():
    trigger = Settled(window=2, least=60)
    decisions(trigger, [9.0, 8.0, 7.0, 6.0, 5.0])
    assert trigger.explain(None).text == "5 of at least 60 steps since the last rise"


def test_settled_has_no_zero():
    losses = noisy([2.0] * 20 + [0.5] * 200 + [3.0] * 30 + [0.4] * 200)
    moved = [loss + 7 for loss in losses]
    expected = found(Settled(), losses)
    assert [len(steps) for steps in expected] == [4, 1]
    assert found(Settled(), moved) == expected


@pytest.mark.parametrize("time", [5, 50, 200, 1000])
def test_settled_gives_a_descent_the_time_it_takes(time):
    losses = [3 * math.exp(-step / time) + 0.2 for step in range(12 * time + 80)]
    first = found(Settled(), losses)[0][0]
    assert (losses[first] - 0.2) / 3 < 0.15, "most of the way down"
    assert first <= max(80, 6 * time)


def test_settled_finds_sudden_changes_at_once_and_keeps_what_is_refined():
    losses = noisy([2.0, 1.5, 1.0] + [0.5] * 297 + [2.0, 1.6, 1.2] + [0.6] * 297)
    plateaus, peaks = found(Settled(), losses)
    assert plateaus == [60, 120, 240, peaks[0] + 60, peaks[0] + 120, peaks[0] + 240]
    assert len(peaks) == 1
    assert 301 <= peaks[0] <= 304


@pytest.mark.parametrize("seed", range(5))
def test_settled_takes_no_noise_for_a_change(seed):
    losses = noisy([2.0] * 10 + [0.5] * 4000, spread=0.2, seed=seed)
    plateaus, peaks = found(Settled(), losses)
    assert len(peaks) <= 1
    assert len(plateaus) <= 13  # 60, 120, 240, 420, ...


def test_settled_finds_a_small_rise_that_stands_out_of_the_noise():
    losses = noisy([2.0] * 10 + [0.5] * 150 + [0.8] * 20, spread=0.03)
    assert found(Settled(), losses)[1][0] <= 166


def test_settled_starts_anew_if_the_loss_rises_before_it_has_settled():
    fall = [2 * math.exp(-step / 20) for step in range(40)]
    plateaus, peaks = found(Settled(), noisy(fall + fall + fall + [0.0] * 90, spread=0.01))
    assert peaks == []
    assert 140 <= plateaus[0] <= 200, "60 steps or more after the last rise"


def test_settled_follows_the_level_down():
    losses = noisy([3.0] * 5 + [1.0] * 75 + [0.2] * 100 + [0.8] * 20)
    plateaus, peaks = found(Settled(), losses)
    assert plateaus[0] <= 65
    assert 181 <= peaks[0] <= 186, "0.8 is below the first plateau, and far above the second"


def test_settled_says_why():
    trigger = Settled(window=2, least=12)
    assert trigger.explain(None).text == "the window holds 0 of 2 losses"
    decisions(trigger, [4.0, 2.0])
    assert trigger.explain(None).text == "2 of at least 12 steps since the last rise"
    assert decisions(trigger, [1.0] * 10)[-1] == "plateau"
    told = trigger.explain("plateau")
    assert told.text == (
        "in the last third of the steps since the last rise the loss was 1, lower by 0 than in the "
        "third before, within a tenth of the 2 that it has come down"
    )
    assert told.thresholds == {"fall": pytest.approx(0.2)}
    assert decisions(trigger, [1.0] * 12)[-1] == "plateau"
    assert "has not risen for 24 steps" in trigger.explain("plateau").text
    assert trigger.update(1.0) is None
    level = trigger.explain(None).thresholds["mean"]
    assert f"mean of 1, not above {level:.3g}: the level of 1 and" in trigger.explain(None).text
    assert trigger.update(9.0) == "peak"
    told = trigger.explain("peak")
    level = told.thresholds["mean"]
    assert told.text.startswith(f"the last 2 losses have a mean of 5, above {level:.3g}: the level")
    assert told.variance == 16


def test_relative_thresholds_are_parts_of_the_height():
    trigger = RelativePlateau(window=2, fall=0.25, ripple=0.5)
    decisions(trigger, [8.0, 8.0, 4.0])
    told = trigger.explain(None)
    assert told.thresholds == {"mean": 2.0, "variance": 16.0}
    assert told.text.endswith("; it came down from 8")
    assert decisions(trigger, [0.0, 0.0])[-1] == "plateau"
    assert trigger.explain("plateau").text.endswith("; it came down from 8")
    decisions(trigger, [0.0, 0.0])
    assert "came down" not in trigger.explain(None).text
    assert RelativePlateau().size == 5
    assert (RelativePlateau().fall, RelativePlateau().ripple) == (0.2, 0.3)


def test_at_says_which_step_it_is():
    trigger = At([2])
    assert (
        trigger.explain(trigger.update(1.0)).text
        == "this is time step 1, not one that was asked for"
    )
    assert (
        trigger.explain(trigger.update(1.0)).text == "this is time step 2, one that was asked for"
    )


def test_a_saved_trigger_keeps_every_bit_of_what_it_saw():
    for trigger in (Settled(window=3, least=6), Plateau(window=3, mean=1, variance=1)):
        decisions(trigger, [1 / 3, 1 / 7, 0.1] * 4)
        assert all(
            value.dtype == torch.float64
            for value in trigger.state_dict().values()
            if value.is_floating_point()
        )


def test_at():
    assert decisions(At([2, 5]), [1.0] * 6) == [None, "plateau", None, None, "plateau", None]


@given(
    LOSSES,
    st.integers(0, 60),
    st.sampled_from(["plateau", "relative", "settled", "at", "every", "never"]),
)
def test_a_loaded_trigger_continues_alike(losses, cut, kind):
    make = {
        "plateau": lambda: Plateau(window=3, mean=3, variance=2),
        "relative": lambda: RelativePlateau(window=3),
        "settled": lambda: Settled(window=2, least=6),
        "at": lambda: At([3, 20]),
        "every": lambda: Every(4),
        "never": Never,
    }[kind]
    whole, first, second = make(), make(), make()
    expected = decisions(whole, losses)
    begun = decisions(first, losses[:cut])
    second.load_state_dict(snapshot(first))
    assert begun + decisions(second, losses[cut:]) == expected
    assert_same(snapshot(second), snapshot(whole))


def test_a_window_that_does_not_fit_is_refused_and_nothing_changes():
    saved = Plateau(window=9, mean=1, variance=1)
    decisions(saved, [5.0] * 9)
    trigger = Plateau(window=3, mean=1, variance=1)
    before = snapshot(trigger)
    with pytest.raises(ValueError, match="holds 9 losses and this trigger's 3"):
        trigger.load_state_dict(saved.state_dict())
    assert_same(snapshot(trigger), before)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Plateau(window=0, mean=1, variance=1),
            "window must be a whole number of at least 1",
        ),
        (lambda: Plateau(window=2.5, mean=1, variance=1), "window must be a whole number"),
        (lambda: Plateau(window=True, mean=1, variance=1), "window must be a whole number"),
        (lambda: Plateau(window=5, mean=math.nan, variance=1), "mean must be a number, got nan"),
        (lambda: Plateau(window=5, mean="low", variance=1), "mean must be a number, got 'low'"),
        (lambda: Plateau(window=5, mean=1, variance=0), "variance must be above 0, got 0"),
        (lambda: RelativePlateau(fall=0), "fall must be above 0"),
        (lambda: RelativePlateau(ripple=-1), "ripple must be above 0"),
        (lambda: Settled(window=0), "window must be a whole number of at least 1"),
        (lambda: Settled(least=2), "least must be a whole number of at least 3"),
        (lambda: At([0]), "steps must be a whole number of at least 1"),
        (lambda: Every(0), "n must be a whole number of at least 1"),
    ],
)
def test_settings_that_make_no_sense(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_state_is_flat_tensors():
    for name, value in Plateau(window=5, mean=1, variance=1).state_dict().items():
        assert isinstance(name, str)
        assert isinstance(value, torch.Tensor)
