"""`taskfree learn` as a user runs it: real files, real processes."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from PIL import Image
from safetensors.torch import load_file

import forked
from points import learn, same, state_of, write
from taskfree import checkpoint
from taskfree.cli import main
from taskfree.tabular import networks
from taskfree.tabular.session import Session


def test_a_csv_is_learned_in_one_command(tmp_path, capsys):
    state = tmp_path / "state"
    assert learn(write(tmp_path / "a.csv"), "--target", "label", "--state", state) == 0
    session = Session(state)
    assert session.progress.rows == 1500
    assert session.metric.count == 1500
    assert session.schema.kinds == {"x": "number", "y": "number", "colour": "category", "label": ""}
    assert session.metric.mean > 0.75
    assert "the same command continues from here" in " ".join(capsys.readouterr().err.split())
    weights = load_file(state / "network.safetensors")
    model = networks.mlp(session.inputs.width, 2)
    model.load_state_dict(weights)
    history = [json.loads(line) for line in (state / "history.jsonl").read_text().splitlines()]
    assert history[-1]["count"] == 1500


def test_the_first_predictions_are_made_before_anything_is_known(tmp_path):
    file = write(tmp_path / "a.csv", rows=64)
    learn(file, "--target", "label", "--state", tmp_path / "state", "--batch-size", 64)
    assert Session(tmp_path / "state").metric.mean == 0, "no class was known yet"


def test_it_continues_where_it_stopped_as_if_it_had_not(tmp_path):
    file = write(tmp_path / "a.csv")
    options = ["--target", "label", "--batch-size", 16]
    learn(file, *options, "--state", tmp_path / "whole")
    for rows in (320, 960, 1500):
        learn(file, *options, "--state", tmp_path / "parts", "--rows", rows)
    assert same(state_of(tmp_path / "parts"), state_of(tmp_path / "whole"))
    assert learn(file, "--state", tmp_path / "parts") == 0, "there is nothing more to learn"
    assert same(state_of(tmp_path / "parts"), state_of(tmp_path / "whole"))


def test_what_a_run_logged_before_its_first_save_is_cut_off(tmp_path):
    file = write(tmp_path / "a.csv")
    options = ["--target", "label", "--batch-size", 16]
    learn(file, *options, "--state", tmp_path / "clean")
    left = tmp_path / "left"
    left.mkdir()
    (left / "losses.f32").write_bytes(b"1234" * 7)
    (left / "events.jsonl").write_text('{"step": 3}\n')
    (left / "history.jsonl").write_text('{"step": 4}\n')
    learn(file, *options, "--state", left)
    assert same(state_of(left), state_of(tmp_path / "clean"))
    histories = [(folder / "history.jsonl").read_text() for folder in (left, tmp_path / "clean")]
    assert histories[0] == histories[1]


def test_killed_at_any_moment_it_ends_as_if_it_had_not_been(tmp_path):
    file = write(tmp_path / "a.csv", rows=2000)
    command = [
        "learn", file, "--target", "label", "--batch-size", 16, "--save-rows", 160,
        "--evaluate-rows", 400, "--state",
    ]  # fmt: skip
    status, calls = forked.run(*command, tmp_path / "whole")
    assert status == 0
    draw, kills, saved = random.Random(0), 0, set()
    while status := forked.run(
        *command, tmp_path / "killed", kill_after=draw.randrange(calls // 3)
    )[0]:
        assert status == -signal.SIGKILL
        kills += 1
        saved |= {one.name for one in (tmp_path / "killed").glob("0*.safetensors")}
    assert kills > 4
    assert len(saved) > 4, "it was killed after several saves"
    assert same(state_of(tmp_path / "killed"), state_of(tmp_path / "whole"))
    histories = [(tmp_path / name / "history.jsonl").read_bytes() for name in ("killed", "whole")]
    assert histories[0] == histories[1]


def test_unreadable_rows_have_no_effect(tmp_path, capsys):
    bad = (3, 40, 700, 1499)
    dirty = write(tmp_path / "dirty.csv", bad=bad)
    clean = tmp_path / "clean.csv"
    lines = dirty.read_text().splitlines(keepends=True)
    clean.write_text("".join(line for line in lines if not line.startswith("inf")))
    # one row per step, so that the good rows make the same steps
    for name in ("dirty", "clean"):
        learn(tmp_path / f"{name}.csv", "--target", "label", "--state", tmp_path / name,
              "--batch-size", 1, "--rows", 300)  # fmt: skip
    assert "dirty.csv, line 5: x is infinite" in capsys.readouterr().err
    dirty_session, clean_session = Session(tmp_path / "dirty"), Session(tmp_path / "clean")
    assert dirty_session.progress.skipped == 2
    assert clean_session.progress.skipped == 0
    learn(tmp_path / "dirty.csv", "--state", tmp_path / "dirty", "--rows", 302)
    dirty_session = Session(tmp_path / "dirty")
    assert dirty_session.metric.count == clean_session.metric.count == 300
    for part in ("learner", "metric", "inputs", "targets"):
        states = [
            {k: v for k, v in getattr(s, part).state_dict().items() if "random" not in k}
            for s in (dirty_session, clean_session)
        ]
        assert same(*states), part


def test_strict_stops_at_the_first_unreadable_row_and_saves(tmp_path, capsys):
    file = write(tmp_path / "a.csv", bad=(500,))
    options = ("--target", "label", "--state", tmp_path / "state", "--batch-size", 64)
    assert learn(file, *options, "--strict") == 1
    assert "line 502: x is infinite; with --strict" in capsys.readouterr().err
    assert Session(tmp_path / "state").progress.rows == 500 // 64 * 64


def test_new_classes_may_appear_at_any_time(tmp_path):
    file = tmp_path / "a.csv"
    draw = random.Random(0)
    with open(file, "w") as out:
        out.write("x,y,label\n")
        for row in range(2400):
            kind = row // 800  # a new class every 800 rows; none disappears
            label = draw.randrange(kind + 1)
            x, y = draw.gauss(3 * label, 0.5), draw.gauss(-2 * label, 0.5)
            out.write(f"{x:.4f},{y:.4f},class {label}\n")
    learn(file, "--target", "label", "--state", tmp_path / "state", "--batch-size", 16)
    session = Session(tmp_path / "state")
    assert session.targets.names == ["class 0", "class 1", "class 2"]
    assert session.learner.model[-1].out_features == 3
    assert session.metric.windowed > 0.8
    assert set(session.metric.by_class) == {0, 1, 2}


def test_numbers_are_predicted_in_their_units(tmp_path, capsys):
    draw = random.Random(0)
    file = tmp_path / "a.jsonl"
    with open(file, "w") as out:
        for _ in range(3000):
            x = draw.uniform(0, 10)
            out.write(json.dumps({"x": x, "on": x > 5, "price": 1000 + 50 * x}) + "\n")
    learn(file, "--target", "price", "--state", tmp_path / "state")
    session = Session(tmp_path / "state")
    assert session.schema.task == "regression"
    assert session.metric.windowed < 20, "the standard deviation is 144"
    capsys.readouterr()
    (tmp_path / "b.jsonl").write_text('{"x": 4.0, "on": false}\n{"x": "?", "on": true}\n')
    main(["predict", str(tmp_path / "b.jsonl"), "--state", str(tmp_path / "state")])
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["prediction"] == pytest.approx(1200, abs=60)
    assert isinstance(second["prediction"], float), "a row with a missing value can be read"


def test_images_in_folders(tmp_path):
    draw = random.Random(0)
    for number in range(400):
        label = draw.choice(["bright", "dark"])
        image = Image.effect_noise((12, 12), 30).convert("RGB")
        half = Image.new("RGB", (12, 6), (255, 255, 255) if label == "bright" else (0, 0, 0))
        image.paste(half, (0, 0))
        (tmp_path / "images" / label).mkdir(parents=True, exist_ok=True)
        image.save(tmp_path / "images" / label / f"{number:05d}.png")
    (tmp_path / "images/dark/00100x.png").write_bytes(b"no image")
    learn(tmp_path / "images", "--state", tmp_path / "state", "--size", 16, "--batch-size", 8)
    session = Session(tmp_path / "state")
    assert session.progress.skipped == 1
    assert session.metric.windowed > 0.8


def test_a_list_of_images(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("a", "b"):
        Image.effect_noise((9, 9), 30).save(tmp_path / "deep" / f"{name}.png")
    manifest = tmp_path / "list.csv"
    manifest.write_text("file,what\ndeep/a.png,one\ndeep/b.png,two\nx.png,two\n")
    learn(manifest, "--state", tmp_path / "state", "--image", "file", "--target", "what")
    session = Session(tmp_path / "state")
    assert session.targets.names == ["one", "two"]
    assert session.progress.skipped == 1


def test_held_out_rows_are_evaluated_and_never_learned(tmp_path):
    held = write(tmp_path / "held.csv", rows=200, seed=5)
    file = write(tmp_path / "a.csv")
    learn(file, "--target", "label", "--state", tmp_path / "state", "--held-out", held,
          "--evaluate-rows", 500)  # fmt: skip
    history = [
        json.loads(one) for one in (tmp_path / "state/history.jsonl").read_text().splitlines()
    ]
    assert [point["count"] for point in history] == [100, 200, 500, 1000, 1500]
    assert all(str(held) in point["held out"] for point in history)
    assert history[-1]["held out"][str(held)] > 0.7
    assert Session(tmp_path / "state").metric.count == 1500, "held-out rows are not learned"


def test_accuracy_is_reported_by_environment(tmp_path, capsys):
    file = write(tmp_path / "a.csv")
    learn(file, "--target", "label", "--state", tmp_path / "state", "--environment", "colour")
    session = Session(tmp_path / "state")
    assert set(session.metric.by_environment) == {"red", "green"}
    assert session.inputs.width == 2, "an environment is not an input"
    assert "in red" in capsys.readouterr().err


def test_a_network_of_the_user(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n"
        "def net(inputs, outputs):\n"
        "    return nn.Sequential(nn.Linear(inputs, 7), nn.Tanh(), nn.Linear(7, outputs))\n"
        "def wrong(inputs):\n    return None\n"
    )
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "a.csv", rows=200)
    assert learn(file, "--target", "label", "--state", "state", "--model", "mine:net") == 0
    assert Session(tmp_path / "state").learner.model[0].out_features == 7
    assert learn(file, "--target", "label", "--state", "other", "--model", "mine:wrong") == 2
    assert learn(file, "--target", "label", "--state", "other", "--model", "mine:none") == 2


def saved_rows(folder):
    """How many rows the newest saved state has learned."""
    found = checkpoint.peek(folder, "read")
    return found["read"]["rows"] if found else 0


def test_standard_input_is_learned_as_it_comes_until_it_is_interrupted(tmp_path):
    command = [
        sys.executable, "-m", "taskfree", "learn", "-", "--target", "label", "--state",
        str(tmp_path / "state"), "--patience", "0.2", "--save-seconds", "0",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    for number in range(100):
        row = {"x": number % 7, "label": "odd" if number % 2 else "even"}
        process.stdin.write(json.dumps(row).encode() + b"\n")
    process.stdin.flush()  # more may come: the last 36 rows do not fill a batch
    while saved_rows(tmp_path / "state") < 100:
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    errors = process.communicate()[1].decode()
    assert process.returncode == 130, errors
    assert "interrupted" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_saves_what_it_has_learned(tmp_path, monkeypatch, number):
    learn_rows = Session.learn

    def interrupted(self, rows):
        report = learn_rows(self, rows)
        if report.step == 3:
            signal.raise_signal(number)
        return report

    monkeypatch.setattr(Session, "learn", interrupted)
    file = write(tmp_path / "a.csv")
    assert learn(file, "--target", "label", "--state", tmp_path / "state") == 130
    assert saved_rows(tmp_path / "state") == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--target must name the column to predict; there is x, y, colour, label"),
        (["--target", "price"], "has no column 'price'; it has 'x', 'y', 'colour', 'label'"),
        (["--target", "label", "--ignore", "z"], "has no column 'z'"),
        (["--target", "label", "--batch-size", "-1"], "batch_size must be an integer of at least 0, got -1"),
        (["--target", "label", "--model", "nothing"], "model must be module:function, got 'nothing'"),
        (["--target", "label", "--held-out", "nowhere.csv"], "there is no nowhere.csv"),
    ],
)  # fmt: skip
def test_invalid_options_are_reported_and_nothing_is_saved(tmp_path, capsys, options, message):
    file = write(tmp_path / "a.csv", rows=100)
    assert learn(file, "--state", tmp_path / "state", *options) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("state/*.safetensors"))


def test_the_choices_of_the_first_start_are_fixed(tmp_path, capsys):
    file = write(tmp_path / "a.csv", rows=100)
    learn(file, "--target", "label", "--state", tmp_path / "state", "--lr", 0.02)
    assert learn(file, "--state", tmp_path / "state", "--lr", 0.5) == 2
    assert "was started with lr 0.02, and 0.5 was given" in capsys.readouterr().err


def test_a_replaced_file_is_refused(tmp_path, capsys):
    file = write(tmp_path / "a.csv", rows=100)
    learn(file, "--target", "label", "--state", tmp_path / "state")
    write(file, rows=200, seed=3)
    assert learn(file, "--state", tmp_path / "state") == 2
    assert "has changed since it was last read" in capsys.readouterr().err
    other = write(tmp_path / "b.csv", rows=100, seed=4)
    assert learn(other, "--state", tmp_path / "state") == 0
    assert Session(tmp_path / "state").progress.rows == 200


def test_the_new_rows_of_a_file_that_grows_are_learned(tmp_path):
    file = write(tmp_path / "a.csv", rows=100)
    learn(file, "--target", "label", "--state", tmp_path / "state")
    with open(file, "a") as out:
        out.write("5.0,-3.0,red,high\n" * 20)
    learn(file, "--state", tmp_path / "state")
    assert Session(tmp_path / "state").progress.rows == 120


def test_old_states_and_open_files_do_not_pile_up(tmp_path):
    file = write(tmp_path / "a.csv", rows=3000)
    files = len(os.listdir("/proc/self/fd"))
    learn(file, "--target", "label", "--state", tmp_path / "state", "--save-rows", 300)
    assert len(os.listdir("/proc/self/fd")) <= files + 1
    assert len(list((tmp_path / "state").glob("0*.safetensors"))) == 3


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_it_stops_if_more_than_a_tenth_of_the_rows_cannot_be_read(tmp_path, capsys):
    file = write(tmp_path / "a.csv", bad=range(300, 600))
    assert learn(file, "--target", "label", "--state", tmp_path / "state") == 1
    assert "more than a tenth" in capsys.readouterr().err
    rows = Session(tmp_path / "state").progress.rows
    assert 300 < rows < 400, "what came before is saved"
    fine = write(tmp_path / "b.csv", bad=range(0, 1500, 11))
    assert learn(fine, "--target", "label", "--state", tmp_path / "fine") == 0


def test_predictions_are_written_as_it_learns(tmp_path):
    file = write(tmp_path / "a.csv", rows=400)
    out = tmp_path / "predictions.jsonl"
    options = ["--target", "label", "--state", tmp_path / "state", "--predictions", out]
    learn(file, *options)
    lines = lines_of(out)
    assert [line["line"] for line in lines] == list(range(2, 402))
    right = sum(line["prediction"] == line["target"] for line in lines)
    assert right / 400 == pytest.approx(Session(tmp_path / "state").metric.mean)


def test_predictions_continue_with_the_state(tmp_path, capsys):
    file = write(tmp_path / "a.csv", rows=400)
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    learn(file, "--target", "label", "--state", tmp_path / "w", "--predictions", whole)
    options = ["--target", "label", "--state", tmp_path / "p", "--predictions", parts]
    learn(file, *options, "--rows", 150)
    with parts.open("a") as out:
        out.write("written after the state was saved\n")
    learn(file, *options)
    assert parts.read_text() == whole.read_text()
    assert learn(file, "--target", "label", "--state", tmp_path / "o", "--predictions", whole) == 2
    assert "exists already; name another file" in capsys.readouterr().err


def test_rows_without_a_target_are_predicted_and_not_learned(tmp_path, capsys):
    with_gaps, without = tmp_path / "gaps.csv", tmp_path / "without.csv"
    lines = write(tmp_path / "a.csv", rows=400).read_text().splitlines()
    gaps = [line.rpartition(",")[0] + "," if at in (90, 91, 300) else line
            for at, line in enumerate(lines)]  # fmt: skip
    with_gaps.write_text("\n".join(gaps) + "\n")
    kept = [line for at, line in enumerate(lines) if at not in (90, 91, 300)]
    without.write_text("\n".join(kept) + "\n")
    out = tmp_path / "predictions.jsonl"
    learn(with_gaps, "--target", "label", "--state", tmp_path / "g", "--predictions", out)
    assert "400, of which 0 could not be read, and 3 had no target" in capsys.readouterr().err
    learn(without, "--target", "label", "--state", tmp_path / "n")
    states = [checkpoint.peek(tmp_path / name, "learner", "model") for name in "gn"]
    assert same(*states), "they have no effect"
    answers = [line for line in lines_of(out) if "target" not in line]
    assert [answer["line"] for answer in answers] == [91, 92, 301]
    assert all(answer["prediction"] in ("low", "high") for answer in answers)


def fraud(file, rows=6000):
    """Transactions, one in 100 of which is a fraud of a larger amount, mostly."""
    draw = random.Random(3)
    with file.open("w") as out:
        out.write("amount,kind\n")
        for row in range(rows):
            bad = row % 100 == 50
            out.write(f"{draw.gauss(2 if bad else 0, 1):.3f},{'fraud' if bad else 'fine'}\n")
    return file


def test_a_rare_class_is_found_with_balance(tmp_path, capsys):
    file = fraud(tmp_path / "a.csv")
    learn(file, "--target", "kind", "--state", tmp_path / "plain")
    told = capsys.readouterr().err
    assert told.index("balanced accuracy") < told.index("recall of 'fraud'")
    assert told.index("recall of 'fraud'") < told.index("most frequent class: 0.990")
    learn(file, "--target", "kind", "--state", tmp_path / "balance", "--balance")
    plain, balanced = (
        Session(tmp_path / name).metric.balanced_accuracy for name in ("plain", "balance")
    )
    assert balanced > 0.75 > plain + 0.1


def test_columns_that_are_not_plain_are_named_at_the_start(tmp_path, capsys):
    draw = random.Random(1)
    lines = ["row,when,price,kind"]
    for row in range(300):
        kind = "day" if 7 < row % 24 < 20 else "night"
        when = f"{1 + row // 24:02}.03.2024 {row % 24:02}:30"
        lines.append(f'{row},{when},"{draw.uniform(1, 9):.2f} €",{kind}'.replace(".", ",", 0))
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    learn(tmp_path / "a.csv", "--target", "kind", "--state", tmp_path / "state")
    told = " ".join(capsys.readouterr().err.split())
    assert "column 'row': left out: it counts the rows" in told
    assert "column 'when': time, such as '01.03.2024 00:30'" in told
    assert "column 'price': numbers with a decimal point" in told
    assert Session(tmp_path / "state").metric.windowed > 0.85, "the hour tells it"


def test_what_was_learned_can_be_looked_at_while_it_learns(tmp_path):
    file = write(tmp_path / "a.csv")
    learn(file, "--target", "label", "--state", tmp_path / "state", "--rows", 700)
    history = tmp_path / "state/history.jsonl"
    with history.open("a") as more:  # written by another process since the state was saved
        more.write('{"step": 999}\n')
    before = {one: one.read_bytes() for one in (tmp_path / "state").rglob("*") if one.is_file()}
    assert Session(tmp_path / "state", reading=True).progress.rows == 700
    for command in ("inspect", "predict"):
        words = [command, *([str(file)] if command == "predict" else [])]
        options = ["--state"] if command == "predict" else []
        assert main([*words, *options, str(tmp_path / "state")]) == 0
    assert {one: one.read_bytes() for one in before} == before


NASTY = (
    None, True, 0, -1e308, 1e308, "", "NaN", "-inf", "\ud800", "a\x00b", "[/b]", "1" * 300, 10**400,
    {"a": 1}, [1, [2]], "2024-13-45", "\u202e", 1e-320, "1,2,3", "--", "1e999", "0x10", "\u0661",
)  # fmt: skip


def test_whatever_comes_nothing_is_lost_and_nothing_breaks(tmp_path, capsys):
    draw, file = random.Random(0), tmp_path / "feed.jsonl"
    with file.open("w") as out:
        for number in range(1200):
            row = {
                "x": number % 7 + draw.random(), "y": draw.choice("ab"), "txt": f"some words {number}",
                "when": f"2024-01-{1 + number % 28:02}", "kind": "up" if number % 7 > 3 else "down",
            }  # fmt: skip
            if draw.random() < 0.07:
                name = draw.choice(["x", "y", "txt", "when", "kind", "[/b]", "", "late", "\ud800"])
                row[name] = draw.choice(NASTY)
            out.write(json.dumps(row) + "\n")
    state = tmp_path / "state"
    options = ["--target", "kind", "--state", state, "--predictions", tmp_path / "out.jsonl"]
    assert learn(file, *options) == 0
    session = Session(state, reading=True)
    progress = session.progress
    assert progress.rows == 1200
    assert session.metric.count == 1200 - progress.skipped - progress.unlabelled
    assert 0 < progress.skipped < 60
    assert session.metric.windowed > 0.9
    assert len(lines_of(tmp_path / "out.jsonl")) == 1200 - progress.skipped
    for words in (["inspect", state], ["report", state], ["predict", file, "--state", state]):
        assert main(list(map(str, words))) == 0
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["1e6", "-1e200", "9" * 80])
def test_one_wrong_number_does_not_ruin_a_column(tmp_path, wrong):
    file = write(tmp_path / "a.csv", rows=1200)
    lines = file.read_text().splitlines()
    lines[300] = f"{wrong}," + lines[300].partition(",")[2]
    file.write_text("\n".join(lines) + "\n")
    learn(file, "--target", "label", "--state", tmp_path / "state")
    assert Session(tmp_path / "state").metric.windowed > 0.9


def test_predict_weighs_classes_as_learn_does(tmp_path, capsys):
    file = fraud(tmp_path / "a.csv", rows=3000)
    learn(file, "--target", "kind", "--state", tmp_path / "state", "--balance")
    capsys.readouterr()
    assert main(["predict", str(file), "--state", str(tmp_path / "state")]) == 0
    answers = [json.loads(line)["prediction"] for line in capsys.readouterr().out.splitlines()]
    assert 100 < answers.count("fraud") < 1500


def test_a_stray_quote_costs_one_row(tmp_path, capsys):
    file = write(tmp_path / "a.csv", rows=1500)
    lines = file.read_text().splitlines()
    lines[300] = '5.0,"-3in,red,low'
    file.write_text("\n".join(lines) + "\n")
    assert learn(file, "--target", "label", "--state", tmp_path / "state") == 0
    progress = Session(tmp_path / "state").progress
    assert (progress.rows, progress.skipped) == (1500, 1)
    assert "line 301 has a quote that is not closed in 1000 lines" in " ".join(
        capsys.readouterr().err.split()
    )


def test_an_archive_that_is_cut_off_is_learned_as_far_as_it_goes(tmp_path, capsys):
    whole = gzip.compress(write(tmp_path / "a.csv").read_bytes())
    (tmp_path / "b.csv.gz").write_bytes(whole[: len(whole) // 2])
    assert learn(tmp_path / "b.csv.gz", "--target", "label", "--state", tmp_path / "state") == 0
    assert "cannot be read, and nothing behind it" in capsys.readouterr().err
    assert Session(tmp_path / "state").progress.rows > 500


def test_choices_of_the_first_start_cannot_be_changed(tmp_path, capsys):
    file = write(tmp_path / "a.csv")
    options = ["--target", "label", "--state", tmp_path / "state"]
    learn(file, *options, "--rows", 300, "--ignore", "y")
    assert learn(file, *options, "--ignore", "y", "--rows", 400) == 0
    assert learn(file, *options, "--ignore", "x") == 2
    assert "was started without --ignore x" in capsys.readouterr().err
    assert learn(file, *options, "--task", "regression") == 2
    assert "was started without --task regression" in capsys.readouterr().err


def test_killed_before_the_first_save_its_predictions_begin_again(tmp_path):
    file, out = write(tmp_path / "a.csv", rows=300), tmp_path / "out.jsonl"
    command = ["learn", file, "--target", "label", "--batch-size", 16, "--predictions", out]
    _, calls = forked.run(*command[:-1], tmp_path / "other.jsonl", "--state", tmp_path / "whole")
    killed = [*command, "--state", tmp_path / "killed"]
    assert forked.run(*killed, kill_after=4 * calls // 5)[0] == -signal.SIGKILL
    assert out.stat().st_size
    assert forked.run(*killed)[0] == 0
    assert out.read_text() == (tmp_path / "other.jsonl").read_text()


def late_feed(file, bad=False):
    """A feed in which two columns come after 300 rows, and one value cannot be read later."""
    draw = random.Random(5)
    with file.open("w") as out:
        for number in range(700):
            row = {"x": draw.random(), "road": draw.choice(["wet", "dry"])}
            if number > 300:
                row |= {"wind": None if number == 301 else draw.random(), "when": "2024-01-05"}
            if number > 450:
                row |= {"city": draw.choice(["Rome", "Oslo"]), "x": draw.choice(["code", 0.5])}
            if bad and number == 600:
                row["when"] = "soon"
            row["kind"] = "up" if row.get("wind") and row["wind"] > 0.5 else "down"
            out.write(json.dumps(row) + "\n")
    return file


@pytest.mark.parametrize("bad", [False, True])
def test_columns_that_come_late_are_the_same_after_a_restart(tmp_path, bad):
    file = late_feed(tmp_path / "feed.jsonl", bad)
    options = ["--target", "kind", "--batch-size", 16]
    learn(file, *options, "--state", tmp_path / "whole")
    for rows in (320, 480, 700):
        learn(file, *options, "--state", tmp_path / "parts", "--rows", rows)
    assert same(state_of(tmp_path / "parts"), state_of(tmp_path / "whole"))
    session = Session(tmp_path / "parts")
    assert session.progress.skipped == bad
    kinds = {name: session.schema.kinds[name] for name in ("wind", "when", "city")}
    assert kinds == {"wind": "number", "when": "time", "city": "category"}
    table = tmp_path / "table.csv"
    table.write_text("x,road\n0.5,wet\n")
    assert main(["predict", str(table), "--state", str(tmp_path / "parts")]) == 0


def test_the_network_is_written_before_the_state_that_says_it_is_done(tmp_path):
    """Killed in between, the same command would find nothing to do, and leave the old network."""
    state = tmp_path / "state"
    learn(write(tmp_path / "a.csv", rows=200), "--target", "label", "--state", state)
    newest = max(state.glob("0*.safetensors"))
    assert (state / "network.safetensors").stat().st_mtime_ns < newest.stat().st_mtime_ns
