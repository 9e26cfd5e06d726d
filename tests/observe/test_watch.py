"""The live page in a real browser, for a real learner that runs, is killed and resumes."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from browser import page, until
from points import learn, write
from taskfree.cli import main
from taskfree.observe.watch import CHUNK, JSONTail, LossCurve, serve
from web import request, serving

LEARN = """
import sys, time, torch
from torch import nn
from taskfree import checkpoint
from taskfree.learner import Learner
from taskfree.observe.log import Log

folder, count, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 30), nn.ReLU(), nn.Linear(30, 2))
learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1),
                  loss=nn.CrossEntropyLoss(reduction="none"))
log = Log(folder, learner, every=20, name=lambda label: f"<b>label {label}</b>")
checkpoint.resume(folder + "/state", learner=learner, log=log)
while learner.step < count:
    x = torch.randn(8, 1, 8, 8, generator=torch.Generator().manual_seed(learner.step))
    sign = 1 if learner.step % 400 < 200 else -1
    report = learner.learn(x, (sign * x.mean((1, 2, 3)) > 0).long())
    right = 1 - min(1.0, report.loss)
    log(report, accuracy=right, **{"by class": {"<i>cat</i>": right, "dog": right / 2}})
    if learner.step % 50 == 0:
        checkpoint.save(folder + "/state", learner=learner, log=log)
    time.sleep(pause)
"""


@pytest.fixture
def start():
    """Starts a learner in its own process, which ends with the test in any case."""
    started = []

    def run(folder, count, pause):
        code = [sys.executable, "-W", "ignore", "-c", LEARN, str(folder), str(count), str(pause)]
        started.append(subprocess.Popen(code, env={**os.environ, "OMP_NUM_THREADS": "1"}))
        return started[-1]

    yield run
    for learner in started:
        learner.kill()
        learner.wait()


def shown_events(opened):
    return opened.evaluate(
        "[...document.querySelectorAll('#events li[data-step]')]"
        ".map(li => [Number(li.dataset.step), li.dataset.kind]).reverse()"
    )


def logged_events(folder):
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [[one["step"], one["kind"]] for one in map(json.loads, lines)]


def wait_for(file, seconds=600):
    end = time.monotonic() + seconds
    while not (file.exists() and file.stat().st_size):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_page_follows_a_learner_that_runs_is_killed_and_resumes(tmp_path, start):
    learner = start(tmp_path, 100_000, 0.002)
    losses = tmp_path / "losses.f32"
    wait_for(losses)
    with serving(serve(tmp_path)) as port, page() as opened:
        opened.goto(f"http://127.0.0.1:{port}/")
        until(opened, "/step [1-9]/.test(document.querySelector('#state').textContent)")
        opened.evaluate("window.untouched = true")
        first = opened.evaluate("latest.steps")
        until(opened, f"latest.steps > {first + 100}")
        learner.send_signal(signal.SIGKILL)
        learner.wait()
        last = losses.stat().st_size // 4 + 400
        assert start(tmp_path, last, 0.0).wait(600) == 0
        until(opened, f"latest.steps == {last}")
        until(opened, f"document.querySelector('#state').textContent.includes('{last:,}')")
        assert opened.evaluate("window.untouched"), "the page was not loaded again"
        expected = logged_events(tmp_path)
        assert expected, "the run must have events"
        assert shown_events(opened) == expected[-200:]
        assert opened.locator("figure img").count() > 0
        until(opened, "[...document.images].every(i => i.complete && i.naturalWidth)")
        assert "<b>label" in opened.locator("figcaption").first.text_content()
        assert not opened.locator("figcaption b, .legend i i").count(), "names are shown as text"
        assert "<i>cat</i>" in opened.locator("#partnames").text_content()


def test_the_page_reconnects_when_its_server_is_back(tmp_path, start):
    assert start(tmp_path, 30, 0.0).wait(600) == 0
    shows_30 = "document.querySelector('#state').textContent.includes('step 30')"
    with page(allow=r"ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|Failed to load") as opened:
        with serving(serve(tmp_path)) as port:
            opened.goto(f"http://127.0.0.1:{port}/")
            until(opened, shows_30)
        until(opened, "document.querySelector('#state').className == 'lost'")
        with serving(serve(tmp_path, port)):
            until(opened, shows_30)


@pytest.fixture
def million(tmp_path):
    """The files of a run of a million steps."""
    generator = np.random.default_rng(0)
    (generator.random(1_000_000) + 0.5).astype("<f4").tofile(tmp_path / "losses.f32")
    events = [
        json.dumps({"step": at, "kind": "plateau" if at % 2000 else "peak", "text": "why"})
        for at in range(1000, 1_000_001, 1000)
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(events) + "\n")
    history = [json.dumps({"step": at, "accuracy": 0.5}) for at in range(100, 1_000_001, 100)]
    (tmp_path / "history.jsonl").write_text("\n".join(history) + "\n")
    return tmp_path


def test_a_browser_shows_a_million_steps(million):
    with serving(serve(million)) as port, page() as opened:
        opened.goto(f"http://127.0.0.1:{port}/")
        until(opened, "document.querySelector('#state').textContent.includes('1,000,000')")
        until(opened, "document.querySelectorAll('#events li').length == 200")


def test_a_million_steps_are_sent_in_few_points_and_read_once(million, monkeypatch):
    """What makes the page fast, without a clock."""
    read, fromfile = [], np.fromfile

    def counted(file, dtype, count, **options):
        read.append(count)
        return fromfile(file, dtype, count, **options)

    monkeypatch.setattr(np, "fromfile", counted)
    with serving(serve(million)) as port:
        for _ in range(3):
            body = request(port, "/now?points=800")[2]
            found = json.loads(body)
            assert found["steps"] == 1_000_000
            assert {len(found["loss"][name]) for name in ("low", "mean", "high")} == {800}
            assert len(found["events"]) == 1000
            assert 800 <= len(found["history"]) <= 2 * 800
            assert len(body) < 2**18
    assert sum(read) <= 1_000_000, "later requests read only what is new"


def test_a_curve_is_the_minimum_mean_and_maximum_of_each_stretch(tmp_path):
    values = np.random.default_rng(0).random(10 * CHUNK + 7).astype("<f4")
    values.tofile(tmp_path / "losses.f32")
    losses = LossCurve(tmp_path / "losses.f32")
    few = losses.curve(0, 2**62, 5)
    whole = values[: 10 * CHUNK].reshape(5, -1)
    assert np.allclose(few["low"], whole.min(1), rtol=1e-4)
    assert np.allclose(few["mean"], whole.mean(1), rtol=1e-4)
    assert np.allclose(few["high"], whole.max(1), rtol=1e-4)
    some = losses.curve(100, 110, 50)
    assert np.allclose(some["mean"], values[100:110], rtol=1e-4)
    values = 1 + values[: 3 * CHUNK]
    values.tofile(tmp_path / "losses.f32")  # a resumed run is shorter
    assert losses.curve(0, 2**62, 1)["last"] == 3 * CHUNK
    assert np.isclose(losses.curve(0, 2**62, 1)["high"][0], values.max(), rtol=1e-4)
    assert LossCurve(tmp_path / "none").curve(0, 10, 5)["mean"] == []


@pytest.mark.parametrize("path", ["/losses.f32", "/events.jsonl", "/now2"])
def test_the_files_of_a_run_are_not_served(tmp_path, path):
    for name in ("losses.f32", "events.jsonl"):
        (tmp_path / name).write_bytes(b"\0\0\0\0")
    with serving(serve(tmp_path)) as port:
        assert request(port, path)[0] == 404
        assert request(port, "/now")[0] == 200


def test_truncated_and_damaged_files_do_not_stop_the_page(tmp_path):
    (tmp_path / "losses.f32").write_bytes(np.array([1, np.nan, 3], "<f4").tobytes() + b"\0\0")
    (tmp_path / "events.jsonl").write_text('{"step": 1, "kind": "peak", "text": "up"}\nno\n{"st')
    (tmp_path / "buffer.json").write_text('{"samples": [')
    with serving(serve(tmp_path)) as port:
        found = json.loads(request(port, "/now?points=9&first=x&last=-3")[2])
    assert found["steps"] == 3
    assert found["loss"]["mean"] == [1.0, None, 3.0]
    assert [one["step"] for one in found["events"]] == [1]
    assert found["buffer"] is None


def test_a_folder_without_a_run_is_refused(tmp_path, capsys):
    assert main(["watch", str(tmp_path), "--no-show"]) == 2
    assert "holds no run" in capsys.readouterr().err


def test_a_tail_reads_whole_lines_and_starts_over_if_the_file_is_shorter(tmp_path):
    file = tmp_path / "events.jsonl"
    tail = JSONTail(file)
    assert tail.all() == []
    file.write_text('{"step": 1}\n{"st')
    assert tail.all() == [{"step": 1}]
    file.write_text('{"step": 1}\n{"step": 2}\n')
    assert tail.all() == [{"step": 1}, {"step": 2}]
    file.write_text('{"step": 7}\n')  # a resumed run
    assert tail.all() == [{"step": 7}]


def test_a_browser_shows_whom_to_trust(tmp_path):
    file = write(tmp_path / "a.csv", labels=("<b>low</b>", "high"))
    assert learn(file, "--target", "label", "--state", tmp_path / "state") == 0
    with serving(serve(tmp_path / "state")) as port, page() as opened:
        opened.goto(f"http://127.0.0.1:{port}/")
        until(opened, "!document.querySelector('#status').hidden")
        cards = opened.locator("#cards").text_content()
        shares = opened.locator("#trust span").all_text_contents()
        assert not opened.locator("#cards b b").count(), "classes are shown as text"
    assert "1,500rows" in cards
    assert "same as the last row" in cards
    assert "the last row; predicted:" in cards
    assert sum(int(share.split()[-2]) for share in shares) == pytest.approx(100, abs=3)


def test_what_is_no_number_in_the_files_is_shown_as_nothing(tmp_path):
    (tmp_path / "events.jsonl").write_text("[1]\n3\n")
    (tmp_path / "history.jsonl").write_text(
        '{"step": 1, "mean": NaN}\n{"step": 2, "mean": Infinity}\n'
    )
    (tmp_path / "status.json").write_text('{"rows": 3, "recent": NaN}')
    with serving(serve(tmp_path)) as port:
        answer = request(port, "/now")[2]
    found = json.loads(answer, parse_constant=pytest.fail)
    assert found["history"] == [{"step": 1, "mean": None}, {"step": 2, "mean": None}]
    assert found["status"] == {"rows": 3, "recent": None}
    assert found["events"] == []
