"""`taskfree learn` and what comes after it, as a user runs them: real files, real processes."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from taskfree import checkpoint
from taskfree.cli import main
from taskfree.feed import models
from taskfree.feed.stream import Stream


def write(file, rows=1500, seed=0, labels=("low", "high"), bad=()):
    """Points whose label says on which side of a line they are; the line turns half way."""
    chance = random.Random(seed)
    with open(file, "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["x", "y", "colour", "label"])
        for row in range(rows):
            x, y = chance.gauss(5, 2), chance.gauss(-3, 1)
            high = (x - 5) / 2 + (y + 3 if row < rows // 2 else 0) > 0
            label = labels[int(high) % len(labels)]
            colour = chance.choice(["red", "green"])
            writer.writerow(["bad" if row in bad else f"{x:.5f}", f"{y:.5f}", colour, label])
    return file


def learn(*options):
    try:
        return main(["learn", *map(str, options)])
    except SystemExit as left:  # of the options' parser
        return left.code


def test_from_a_csv_in_one_command(tmp_path, capsys):
    state = tmp_path / "state"
    assert learn(write(tmp_path / "a.csv"), "--target", "label", "--state", state) == 0
    stream = Stream(state)
    assert stream.read.rows == 1500
    assert stream.metric.count == 1500
    assert stream.setup.kinds == {"x": "number", "y": "number", "colour": "category", "label": ""}
    assert stream.metric.mean > 0.75
    assert "the same command goes on from here" in capsys.readouterr().err
    weights = load_file(state / "network.safetensors")
    model = models.mlp(2 + 64, 2)
    model.load_state_dict(weights)
    history = [json.loads(line) for line in (state / "history.jsonl").read_text().splitlines()]
    assert history[-1]["count"] == 1500


def test_the_first_predictions_are_made_before_anything_is_known(tmp_path):
    file = write(tmp_path / "a.csv", rows=64)
    learn(file, "--target", "label", "--state", tmp_path / "state")
    assert Stream(tmp_path / "state").metric.mean == 0, "no class was known when it was asked"


def state_of(folder):
    found = checkpoint.peek(folder, "learner", "metric", "inputs", "targets", "read")
    files = (folder / name for name in ("events.jsonl", "losses.f32"))
    return found | {file.name: file.read_bytes() if file.exists() else b"" for file in files}


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one.nan_to_num(7.0), other.nan_to_num(7.0))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)  # nan too


def test_it_goes_on_where_it_stopped_as_if_it_had_not(tmp_path):
    file = write(tmp_path / "a.csv")
    options = ["--target", "label", "--batch", 16]
    learn(file, *options, "--state", tmp_path / "whole")
    for rows in (320, 960, 1500):
        learn(file, *options, "--state", tmp_path / "parts", "--rows", rows)
    assert same(state_of(tmp_path / "parts"), state_of(tmp_path / "whole"))
    assert learn(file, "--state", tmp_path / "parts") == 0, "there is nothing more to learn"
    assert same(state_of(tmp_path / "parts"), state_of(tmp_path / "whole"))


def test_what_a_run_left_that_was_killed_before_it_kept_anything_is_cut_off(tmp_path):
    file = write(tmp_path / "a.csv")
    options = ["--target", "label", "--batch", 16]
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
    file = write(tmp_path / "a.csv", rows=4000)
    command = [
        sys.executable, "-m", "taskfree", "learn", str(file), "--target", "label", "--batch", "16",
        "--save-rows", "160", "--evaluate-rows", "400",
    ]  # fmt: skip
    subprocess.run([*command, "--state", tmp_path / "whole"], check=True, capture_output=True)
    chance = random.Random(0)
    kills = 0
    while True:
        process = subprocess.Popen(
            [*command, "--state", tmp_path / "killed"], stderr=subprocess.DEVNULL
        )
        try:
            # most of the time is start-up: kill after the first state is there, at random
            process.wait(timeout=2.5 + chance.uniform(0, 1.0) if kills < 4 else 60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
        else:
            assert process.returncode == 0
            break
    assert same(state_of(tmp_path / "killed"), state_of(tmp_path / "whole"))
    assert (tmp_path / "killed/history.jsonl").read_bytes() == (
        tmp_path / "whole/history.jsonl"
    ).read_bytes()


def test_rows_that_cannot_be_read_leave_no_trace(tmp_path, capsys):
    bad = (3, 40, 700, 1499)
    dirty = write(tmp_path / "dirty.csv", bad=bad)
    clean = tmp_path / "clean.csv"
    lines = dirty.read_text().splitlines(keepends=True)
    clean.write_text("".join(line for line in lines if not line.startswith("bad")))
    # one row a step, so that the good rows make the same steps
    for name in ("dirty", "clean"):
        learn(tmp_path / f"{name}.csv", "--target", "label", "--state", tmp_path / name,
              "--batch", 1, "--rows", 300)  # fmt: skip
    told = capsys.readouterr().err
    assert "dirty.csv, line 5: x must be a number, is 'bad'" in told
    dirty_stream, clean_stream = Stream(tmp_path / "dirty"), Stream(tmp_path / "clean")
    assert dirty_stream.read.skipped == 2
    assert clean_stream.read.skipped == 0
    learn(tmp_path / "dirty.csv", "--state", tmp_path / "dirty", "--rows", 302)
    dirty_stream = Stream(tmp_path / "dirty")
    assert dirty_stream.metric.count == clean_stream.metric.count == 300
    for part in ("learner", "metric", "inputs", "targets"):
        states = [
            {k: v for k, v in getattr(s, part).state_dict().items() if "random" not in k}
            for s in (dirty_stream, clean_stream)
        ]
        assert same(*states), part


def test_strict_stops_at_the_first_and_keeps_what_was_learned(tmp_path, capsys):
    file = write(tmp_path / "a.csv", bad=(500,))
    options = ("--target", "label", "--state", tmp_path / "state", "--save-rows", 64)
    assert learn(file, *options, "--strict") == 2
    assert "line 502: x must be a number, is 'bad'; with --strict" in capsys.readouterr().err
    assert Stream(tmp_path / "state").read.rows == 500 // 64 * 64


def test_new_classes_may_come_at_any_time(tmp_path):
    file = tmp_path / "a.csv"
    chance = random.Random(0)
    with open(file, "w") as out:
        out.write("x,y,label\n")
        for row in range(2400):
            kind = row // 800  # a new class every 800 rows, none goes
            label = chance.randrange(kind + 1)
            x, y = chance.gauss(3 * label, 0.5), chance.gauss(-2 * label, 0.5)
            out.write(f"{x:.4f},{y:.4f},class {label}\n")
    learn(file, "--target", "label", "--state", tmp_path / "state", "--batch", 16)
    stream = Stream(tmp_path / "state")
    assert stream.targets.names == ["class 0", "class 1", "class 2"]
    assert stream.learner.model[-1].out_features == 3
    assert stream.metric.running > 0.8
    assert set(stream.metric.by_class) == {0, 1, 2}


def test_numbers_are_predicted_in_their_own_units(tmp_path, capsys):
    chance = random.Random(0)
    file = tmp_path / "a.jsonl"
    with open(file, "w") as out:
        for _ in range(3000):
            x = chance.uniform(0, 10)
            out.write(json.dumps({"x": x, "on": x > 5, "price": 1000 + 50 * x}) + "\n")
    learn(file, "--target", "price", "--state", tmp_path / "state")
    stream = Stream(tmp_path / "state")
    assert stream.setup.task == "numbers"
    assert stream.metric.running < 20, "of a deviation of 144"
    capsys.readouterr()
    (tmp_path / "b.jsonl").write_text('{"x": 4.0, "on": false}\n{"x": "?", "on": true}\n')
    main(["predict", str(tmp_path / "b.jsonl"), "--state", str(tmp_path / "state")])
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["prediction"] == pytest.approx(1200, abs=60)
    assert isinstance(second["prediction"], float), "a missing value is no bad row"


def test_predictions_and_what_cannot_be_predicted(tmp_path, capsys):
    learn(write(tmp_path / "a.csv"), "--target", "label", "--state", tmp_path / "state")
    before = state_of(tmp_path / "state")
    capsys.readouterr()
    (tmp_path / "b.csv").write_text("colour,y,x\nred,-3,9.5\nred,-3,1\nred,-3\nblue,?,many\n")
    main(["predict", str(tmp_path / "b.csv"), "--state", str(tmp_path / "state")])
    answers = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert [answer["prediction"] for answer in answers] == ["high", "low", None, None]
    assert answers[0]["probability"] > 0.6
    assert answers[2] == {
        "line": 4, "prediction": None, "problem": "has 2 values and there are 3 columns",
    }  # fmt: skip
    assert answers[3]["problem"] == "x must be a number, is 'many'"
    assert same(state_of(tmp_path / "state"), before), "nothing was learned"
    out = tmp_path / "answers.csv"
    main(
        ["predict", str(tmp_path / "b.csv"), "--state", str(tmp_path / "state"), "--out", str(out)]
    )
    with out.open() as told:
        assert [row["prediction"] for row in csv.DictReader(told)] == ["high", "low", "", ""]


def test_pictures_in_folders(tmp_path):
    chance = random.Random(0)
    for number in range(400):
        label = chance.choice(["bright", "dark"])
        picture = Image.effect_noise((12, 12), 30).convert("RGB")
        half = Image.new("RGB", (12, 6), (255, 255, 255) if label == "bright" else (0, 0, 0))
        picture.paste(half, (0, 0))
        (tmp_path / "pictures" / label).mkdir(parents=True, exist_ok=True)
        picture.save(tmp_path / "pictures" / label / f"{number:05d}.png")
    (tmp_path / "pictures/dark/00100x.png").write_bytes(b"no picture")
    learn(tmp_path / "pictures", "--state", tmp_path / "state", "--size", 16, "--batch", 8)
    stream = Stream(tmp_path / "state")
    assert stream.read.skipped == 1
    assert stream.metric.running > 0.8


def test_a_list_of_pictures(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("a", "b"):
        Image.effect_noise((9, 9), 30).save(tmp_path / "deep" / f"{name}.png")
    manifest = tmp_path / "list.csv"
    manifest.write_text("file,what\ndeep/a.png,one\ndeep/b.png,two\nx.png,two\n")
    learn(manifest, "--state", tmp_path / "state", "--image", "file", "--target", "what")
    stream = Stream(tmp_path / "state")
    assert stream.targets.names == ["one", "two"]
    assert stream.read.skipped == 1


def test_held_out_rows_tell_what_is_forgotten(tmp_path):
    held = write(tmp_path / "held.csv", rows=200, seed=5)
    file = write(tmp_path / "a.csv")
    learn(file, "--target", "label", "--state", tmp_path / "state", "--held-out", held,
          "--evaluate-rows", 500)  # fmt: skip
    history = [
        json.loads(one) for one in (tmp_path / "state/history.jsonl").read_text().splitlines()
    ]
    assert len(history) == 3
    assert all(str(held) in point["held out"] for point in history)
    assert history[-1]["held out"][str(held)] > 0.7
    assert Stream(tmp_path / "state").metric.count == 1500, "held-out rows are not learned"


def test_environments(tmp_path, capsys):
    file = write(tmp_path / "a.csv")
    learn(file, "--target", "label", "--state", tmp_path / "state", "--environment", "colour")
    stream = Stream(tmp_path / "state")
    assert set(stream.metric.by_environment) == {"red", "green"}
    assert stream.inputs.width == 2, "an environment is not looked at"
    assert "in red" in capsys.readouterr().err


def test_a_model_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n"
        "def net(inputs, outputs):\n"
        "    return nn.Sequential(nn.Linear(inputs, 7), nn.Tanh(), nn.Linear(7, outputs))\n"
        "def wrong(inputs):\n    return None\n"
    )
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "a.csv", rows=200)
    assert learn(file, "--target", "label", "--state", "state", "--model", "mine:net") == 0
    assert Stream(tmp_path / "state").learner.model[0].out_features == 7
    assert learn(file, "--target", "label", "--state", "other", "--model", "mine:wrong") == 2
    assert learn(file, "--target", "label", "--state", "other", "--model", "mine:none") == 2


def test_standard_input_is_learned_as_it_comes_and_a_stop_loses_nothing(tmp_path):
    command = [
        sys.executable, "-m", "taskfree", "learn", "-", "--target", "label", "--state",
        str(tmp_path / "state"), "--patience", "0.2", "--save-seconds", "0.1",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    for number in range(100):
        row = {"x": number % 7, "label": "odd" if number % 2 else "even"}
        process.stdin.write(json.dumps(row).encode() + b"\n")
    process.stdin.flush()
    until = time.monotonic() + 60  # nothing more comes, and the last 36 rows do not fill a step
    while not list((tmp_path / "state").glob("0*.safetensors")):
        assert time.monotonic() < until
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=30)[1].decode()
    assert process.returncode == 130, told
    assert Stream(tmp_path / "state").read.rows == 100
    assert "interrupted" in told
    assert "Traceback" not in told


def test_the_live_line_and_inspect_and_report(tmp_path, capsys):
    learn(write(tmp_path / "a.csv", rows=4000), "--target", "label", "--state", tmp_path / "state")
    assert "balanced" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "state")]) == 0
    told = capsys.readouterr().out
    for word in (
        "rows",
        "colour",
        "category",
        "high",
        "The buffer's hardest rows",
        "consolidations",
    ):
        assert word in told
    assert main(["report", str(tmp_path / "state")]) == 0
    page = (tmp_path / "state/report.html").read_text()
    assert "history.png" in page
    assert "Learning label" in page


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--target must name the column to predict; there is x, y, colour, label"),
        (["--target", "price"], "has no column 'price'; it has 'x', 'y', 'colour', 'label'"),
        (["--target", "label", "--ignore", "z"], "has no column 'z'"),
        (["--target", "label", "--batch", "0"], "batch must be a whole number of at least 1, got 0"),
        (["--target", "label", "--model", "nothing"], "model must be module:function, got 'nothing'"),
        (["--target", "label", "--held-out", "nowhere.csv"], "there is no nowhere.csv"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_said_and_nothing_is_kept(tmp_path, capsys, options, message):
    file = write(tmp_path / "a.csv", rows=100)
    assert learn(file, "--state", tmp_path / "state", *options) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("state/*.safetensors"))


def test_a_stream_keeps_its_choices(tmp_path, capsys):
    file = write(tmp_path / "a.csv", rows=100)
    learn(file, "--target", "label", "--state", tmp_path / "state", "--lr", 0.02)
    assert learn(file, "--state", tmp_path / "state", "--lr", 0.5) == 2
    assert "was begun with lr 0.02, and 0.5 was given" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "nothing")]) == 2
    assert "holds nothing that was learned" in capsys.readouterr().err


def test_a_file_that_was_replaced_is_not_taken_for_the_old_one(tmp_path, capsys):
    file = write(tmp_path / "a.csv", rows=100)
    learn(file, "--target", "label", "--state", tmp_path / "state")
    write(file, rows=200, seed=3)
    assert learn(file, "--state", tmp_path / "state") == 2
    assert "is not what it was when it was last read" in capsys.readouterr().err
    other = write(tmp_path / "b.csv", rows=100, seed=4)
    assert learn(other, "--state", tmp_path / "state") == 0
    assert Stream(tmp_path / "state").read.rows == 200


def test_a_file_that_grows_is_learned_on(tmp_path):
    file = write(tmp_path / "a.csv", rows=100)
    learn(file, "--target", "label", "--state", tmp_path / "state")
    with open(file, "a") as out:
        out.write("5.0,-3.0,red,high\n" * 20)
    learn(file, "--state", tmp_path / "state")
    assert Stream(tmp_path / "state").read.rows == 120


def test_memory_and_open_files_do_not_grow(tmp_path):
    file = write(tmp_path / "a.csv", rows=3000)
    files = len(os.listdir("/proc/self/fd"))
    learn(file, "--target", "label", "--state", tmp_path / "state", "--save-rows", 300)
    assert len(os.listdir("/proc/self/fd")) <= files + 1
    assert len(list((tmp_path / "state").glob("0*.safetensors"))) == 3
