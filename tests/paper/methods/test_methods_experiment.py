"""The comparison of methods, end to end on short streams."""

import json
from dataclasses import replace

import pytest
import torch

from taskfree.paper.methods import experiment as methods
from taskfree.paper.streams import STREAMS, points

SMALL = methods.MethodsConfig(
    seeds=2, tuning_seeds=1, streams=("two quadrants", "waves"), memories=(10, 40), workers=1
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("methods")
    with pytest.MonkeyPatch.context() as patch:
        short = {"two quadrants": points.quadrants, "waves": points.waves}
        for name, make in short.items():
            patch.setitem(STREAMS, name, lambda seed, part=0, make=make: make(seed, part, steps=15))
        first = methods.run(replace(SMALL, seeds=1, out=out))
        again = methods.run(replace(SMALL, out=out))
    return first, again, out


def test_everything_is_run_and_written(finished):
    _, results, out = finished
    assert json.loads((out / "results.json").read_text()) == json.loads(json.dumps(results))
    ran = {
        (r["method"], r["stream"], r["memory"], r["seed"]) for r in results["runs"] if not r["part"]
    }
    expected = {
        (method, stream, memory, seed)
        for stream in SMALL.streams
        for seed in (0, 1)
        for method, memories in {
            "taskfree": (10, 40), "replay": (10, 40), "paper": (10, 40), "online": (0,), "joint": (0,),
        }.items()
        for memory in memories
    }  # fmt: skip
    assert ran == expected
    assert {path.name for path in out.iterdir() if path.is_file()} == {
        "results.json", "report.html", "memory.png",
    }  # fmt: skip


def test_runs_that_results_json_holds_are_not_repeated(finished):
    first, again, _ = finished
    kept = {methods._name(one): one for one in again["runs"]}
    assert all(kept[methods._name(one)] == one for one in first["runs"]), "down to the seconds"


def test_all_methods_start_from_the_same_weights_and_see_the_same_samples():
    first = [STREAMS["two quadrants"](3) for _ in range(2)]
    states = [torch.cat([p.flatten() for p in s.model.parameters()]) for s in first]
    assert torch.equal(*states)
    assert all(torch.equal(a[0], b[0]) for a, b in zip(*(s.batches for s in first), strict=True))


def test_settings_are_chosen_on_other_data(finished):
    _, results, _ = finished
    tuning = [one for one in results["runs"] if one["part"] == 1]
    assert {one["method"] for one in tuning} == {"paper"}
    best = max(methods.GRIDS["paper"], key=lambda setting: next(
        one["final"] for one in tuning if one["stream"] == "waves" and one["setting"] == setting
    ))  # fmt: skip
    used = [r["setting"] for r in results["runs"]
            if (r["method"], r["stream"], r["part"]) == ("paper", "waves", 0)]  # fmt: skip
    assert used == [best] * 4


def test_a_peer_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(methods, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"methods Avalanche ER need Avalanche, .*make methods"):
        methods.run(replace(SMALL, methods=("taskfree", "Avalanche ER"), out=tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def row(method, seed, final, running=0.5):
    measures = dict.fromkeys(methods.MEASURES, 0.0)
    return measures | {
        "method": method, "stream": "waves", "memory": 30, "seed": seed, "part": 0,
        "setting": {}, "final": final, "running": running,
    }  # fmt: skip


@pytest.mark.parametrize(("ours", "below"), [((0.5, 0.7), 0), ((0.4, 0.5), 1), ((0.3, 0.8), 0)])
def test_being_below_replay_is_judged_by_paired_differences(ours, below):
    runs = [row("replay", seed, final) for seed, final in enumerate((0.5, 0.6))]
    runs += [row("taskfree", seed, final) for seed, final in enumerate(ours)]
    found = methods.claims(runs)
    assert len(found["final score below plain replay by more than a standard error"]) == below


def test_falling_behind_replay_while_learning_is_told():
    runs = [row("replay", 0, 0.5, 0.9), row("taskfree", 0, 0.6, 0.87)]
    found = methods.claims(runs)["running score below plain replay by more than 2 points"]
    assert found == {"waves, 30": [-0.03, 0.0]}


def test_the_best_peer_is_compared_over_the_seeds_that_both_have():
    ours = [row("taskfree", seed, final) for seed, final in enumerate((0.7, 0.8, 0.1))]
    weaker = [row("Avalanche ER", seed, 0.5) for seed in range(2)]
    better = [row("Avalanche DER++", seed, 0.6) for seed in range(2)]
    (found,) = methods.best_peers(ours + weaker + better)
    assert (found["stream"], found["memory"], found["peer"]) == ("waves", 30, "Avalanche DER++")
    assert (found["seeds"], found["final"]) == (2, [0.6, 0.0])
    assert found["difference"] == pytest.approx([0.15, 0.05])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"methods": ("magic",)}, "methods must be 'taskfree' or 'replay' .* got 'magic'"),
        ({"streams": ("river",)}, "streams must be 'two quadrants' or .* got 'river'"),
        ({"memories": (0,)}, "memories must be an integer of at least 1, got 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, error):
    with pytest.raises(ValueError, match=error):
        methods.MethodsConfig(**options)
