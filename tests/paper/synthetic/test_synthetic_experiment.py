"""The synthetic experiment, end to end and short."""

import json
import re
from dataclasses import replace

import pytest
from PIL import Image

from taskfree.paper.synthetic import experiment as synthetic

SMALL = synthetic.SyntheticConfig(
    seeds=2, sweep_seeds=1, strengths=(0.5, 1e6), samples=400, test_samples=100, mean=0.9, workers=1
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("synthetic")
    return synthetic.run(replace(SMALL, out=out)), out


def test_the_results_have_every_seed_and_setting(finished):
    results, out = finished
    written = json.loads((out / "results.json").read_text())
    assert written == json.loads(json.dumps(results))
    names = {setting.name for setting in (*synthetic.MAIN, *synthetic.EXTRA)}
    swept = {f"{penalty} at {s:g}" for penalty in ("proximal", "gradient") for s in (0.5, 1e6)}
    assert {(one["setting"], one["seed"]) for one in written["runs"]} == {
        *((name, seed) for name in names for seed in (0, 1)),
        *((name, 0) for name in swept),
    }
    assert set(written["versions"]) == {"python", "torch", "taskfree"}
    assert written["config"]["samples"] == 400
    for one in written["runs"]:
        joint = one["setting"] == "joint (shuffled)"
        assert len(one["after"]) == (1 if joint else 2)
        for after in one["after"]:
            assert len(after["accuracy"]) == len(after["flat"]) == 2
        steps = one["consolidations"]
        assert steps == sorted(steps)
        assert bool(steps) <= (one["strength"] is not None)
    assert any(one["consolidations"] for one in written["runs"])


def test_all_settings_of_a_seed_start_from_the_same_weights_and_points(finished):
    results, _ = finished
    for seed in (0, 1):
        initial = [one["initial"] for one in results["runs"] if one["seed"] == seed]
        assert len(initial) > 5
        assert all(one == initial[0] for one in initial)


def test_a_run_is_reproducible_whatever_ran_before():
    job = synthetic.SyntheticJob(SMALL, synthetic.MAIN[-1], seed=3)
    first = synthetic.run_one(job)
    synthetic.run_one(replace(job, setting=synthetic.MAIN[0]))
    second = synthetic.run_one(job)
    first.pop("seconds"), second.pop("seconds")
    assert first == second


def test_figures_and_report(finished):
    _, out = finished
    for name in ("figure2.png", "figure3.png", "strength.png"):
        with Image.open(out / name) as image:
            assert image.size[0] > 800
    page = (out / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert not re.search(r"(src|href)='(?!data:)", page), "the page is self-contained"
    for setting in synthetic.MAIN:
        assert setting.name in page


def test_the_summary_is_mean_and_standard_deviation_over_seeds():
    runs = [
        {
            "setting": "a", "after": [{"accuracy": [first, 1.0], "flat": [0.0, 0.0]}],
            "consolidations": [3], "diverged": False,
        }
        for first in (0.4, 0.8)
    ]  # fmt: skip
    (row,) = synthetic.summary(runs)
    assert row["first quadrant"] == [0.6, 0.2828]
    assert row["total"] == [0.8, 0.1414]
    assert row["consolidations"] == 1


def test_divergence_is_detected_and_the_run_continues():
    setting = synthetic.SyntheticSetting("diverges", penalty="gradient", strength=1e6)
    job = synthetic.SyntheticJob(replace(SMALL, samples=1200), setting, seed=0)
    result = synthetic.run_one(job)
    assert result["diverged"]
    assert len(result["after"]) == 2
