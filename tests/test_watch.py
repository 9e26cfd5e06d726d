"""The live page, in a real browser, of a real learner that runs, is killed and resumed."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from browser import page, until
from taskfree.cli import main
from taskfree.watch import CHUNK, Losses, serve

LEARN = """
import sys, time, torch
from torch import nn
from taskfree import checkpoint
from taskfree.learner import Learner
from taskfree.log import Log

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
    """Begins a learner in a process of its own, which ends with the test, however that ends."""
    begun = []

    def begin(folder, count, pause):
        code = [sys.executable, "-W", "ignore", "-c", LEARN, str(folder), str(count), str(pause)]
        begun.append(subprocess.Popen(code, env={**os.environ, "OMP_NUM_THREADS": "1"}))
        return begun[-1]

    yield begin
    for learner in begun:
        learner.kill()
        learner.wait()


@pytest.fixture
def served():
    servers = []

    def make(folder):
        server = serve(folder)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server.server_address[1]

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


def step(opened):
    said = opened.locator("#state").text_content()
    found = re.search(r"step ([\d,]+)", said)
    return int(found[1].replace(",", "")) if found else -1


def shown_events(opened):
    return opened.evaluate(
        "[...document.querySelectorAll('#events li[data-step]')]"
        ".map(li => [Number(li.dataset.step), li.dataset.kind]).reverse()"
    )


def kept_events(folder):
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [[one["step"], one["kind"]] for one in map(json.loads, lines)]


def wait_for(file, seconds=60):
    end = time.monotonic() + seconds
    while not (file.exists() and file.stat().st_size):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_it_follows_a_learner_that_runs_is_killed_and_resumed(tmp_path, served, start):
    learner = start(tmp_path, 100_000, 0.002)
    wait_for(tmp_path / "losses.f32")
    port = served(tmp_path)
    with page() as opened:
        opened.goto(f"http://127.0.0.1:{port}/")
        until(opened, "/step [1-9]/.test(document.querySelector('#state').textContent)", 30)
        opened.evaluate("window.untouched = true")
        first = step(opened)
        until(opened, f"latest.steps > {first + 100}", 60)
        learner.send_signal(signal.SIGKILL)
        learner.wait()
        time.sleep(1.5)
        stopped = step(opened)
        learner = start(tmp_path, stopped + 400, 0.0)
        assert learner.wait(120) == 0
        until(opened, f"latest.steps == {stopped + 400}", 30)
        until(opened, f"document.querySelector('#state').textContent.includes('{stopped + 400:,}')")
        assert opened.evaluate("window.untouched"), "it was never loaded again"
        expected = kept_events(tmp_path)
        assert expected, "something must have happened"
        assert shown_events(opened) == expected[-200:]
        assert opened.locator("figure img").count() > 0
        until(opened, "[...document.images].every(i => i.complete && i.naturalWidth)")
        assert "<b>label" in opened.locator("figcaption").first.text_content()
        assert not opened.locator("figcaption b, .legend i i").count(), "what it shows is text"
        assert "<i>cat</i>" in opened.locator("#partnames").text_content()


def test_it_reconnects_when_its_server_comes_back(tmp_path, start):
    start(tmp_path, 30, 0.0).wait()
    server = serve(tmp_path)
    port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with page(allow=r"ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|Failed to load") as opened:
        opened.goto(f"http://127.0.0.1:{port}/")
        until(opened, "document.querySelector('#state').textContent.includes('step 30')")
        server.shutdown()
        server.server_close()
        until(opened, "document.querySelector('#state').className == 'lost'")
        server = serve(tmp_path, port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        until(opened, "document.querySelector('#state').textContent.includes('step 30')")
        server.shutdown()
        server.server_close()


def test_a_million_steps_open_in_under_two_seconds(tmp_path, served):
    chance = np.random.default_rng(0)
    (chance.random(1_000_000) + 0.5).astype("<f4").tofile(tmp_path / "losses.f32")
    lines = [
        json.dumps({"step": at, "kind": "plateau" if at % 2000 else "peak", "text": "why"})
        for at in range(1000, 1_000_001, 1000)
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(lines) + "\n")
    told = [json.dumps({"step": at, "accuracy": 0.5}) for at in range(100, 1_000_001, 100)]
    (tmp_path / "history.jsonl").write_text("\n".join(told) + "\n")
    port = served(tmp_path)
    with page() as opened:
        opened.goto("about:blank")
        began = time.monotonic()
        opened.goto(f"http://127.0.0.1:{port}/")
        until(opened, "document.querySelector('#state').textContent.includes('1,000,000')")
        until(opened, "document.querySelectorAll('#events li').length == 200")
        took = time.monotonic() - began
    assert took < 2, f"it took {took:.1f} s"


def test_curves_are_the_least_mean_and_largest_of_each_stretch(tmp_path):
    chance = np.random.default_rng(0)
    values = chance.random(10 * CHUNK + 7).astype("<f4")
    values.tofile(tmp_path / "losses.f32")
    losses = Losses(tmp_path / "losses.f32")
    few = losses.curve(0, 2**62, 5)
    whole = values[: 10 * CHUNK].reshape(5, -1)
    assert np.allclose(few["low"], whole.min(1), rtol=1e-4)
    assert np.allclose(few["mean"], whole.mean(1), rtol=1e-4)
    assert np.allclose(few["high"], whole.max(1), rtol=1e-4)
    some = losses.curve(100, 110, 50)
    assert np.allclose(some["mean"], values[100:110], rtol=1e-4)
    values[: 3 * CHUNK].tofile(tmp_path / "losses.f32")  # a resumed run is shorter
    assert losses.curve(0, 2**62, 1)["last"] == 3 * CHUNK
    assert np.isclose(losses.curve(0, 2**62, 1)["high"][0], values[: 3 * CHUNK].max(), rtol=1e-4)
    assert Losses(tmp_path / "none").curve(0, 10, 5)["mean"] == []


def ask(port, path, host=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest("GET", path, skip_host=host is not None)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


@pytest.mark.parametrize(
    "path",
    ["/../secret.png", "/%2e%2e/secret.png", "/buffer/../../secret.png", "//secret.png",
     "/buffer/..%2f..%2fsecret.png", "/losses.f32", "/events.jsonl", "/buffer/link.png", "/now2"],
)  # fmt: skip
def test_nothing_outside_of_the_folder_is_given_out(tmp_path, served, path):
    run = tmp_path / "run"
    (run / "buffer").mkdir(parents=True)
    (run / "losses.f32").write_bytes(b"\0\0\0\0")
    (tmp_path / "secret.png").write_text("secret")
    (run / "buffer" / "link.png").symlink_to(tmp_path / "secret.png")
    assert ask(served(run), path)[0] == 404


def test_another_name_for_this_machine_is_not_answered(tmp_path, served):
    (tmp_path / "losses.f32").write_bytes(b"\0\0\0\0")
    port = served(tmp_path)
    assert ask(port, "/now", f"evil.example:{port}")[0] == 403
    assert ask(port, "/now", f"localhost:{port}")[0] == 200


def test_files_that_are_cut_or_broken_do_not_stop_the_page(tmp_path, served):
    (tmp_path / "losses.f32").write_bytes(np.array([1, np.nan, 3], "<f4").tobytes() + b"\0\0")
    (tmp_path / "events.jsonl").write_text('{"step": 1, "kind": "peak", "text": "up"}\nno\n{"st')
    (tmp_path / "buffer.json").write_text('{"samples": [')
    told = json.loads(ask(served(tmp_path), "/now?points=9&first=x&last=-3")[1])
    assert told["steps"] == 3
    assert told["loss"]["mean"] == [1.0, None, 3.0]
    assert [one["step"] for one in told["events"]] == [1]
    assert told["buffer"] is None


def test_a_folder_without_a_run_says_what_makes_one(tmp_path, capsys):
    assert main(["watch", str(tmp_path), "--no-show"]) == 2
    assert "holds no run" in capsys.readouterr().err
