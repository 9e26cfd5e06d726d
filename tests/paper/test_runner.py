"""Many runs in several processes: in order, stored, and stopped with their parent."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import jobs
import pytest
import torch

from taskfree.paper import runner
from taskfree.paper.arena import experiment as arena
from taskfree.paper.corridors import experiment as corridors
from taskfree.paper.corridors import recording
from taskfree.paper.synthetic import experiment as synthetic
from taskfree.paper.triggers import experiment as triggers
from taskfree.paper.tv import experiment as tv

LIMIT = 600
"""Seconds to wait for other processes."""


def wait_until(condition):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "the condition never became true"
        time.sleep(0.05)


def test_results_are_in_order_and_come_from_other_processes_with_one_thread_each():
    numbers = [{"number": number} for number in range(5)]
    found = runner.run_all(jobs.double, numbers, workers=2, describe=lambda job: f"{job['number']}")
    assert [one["double"] for one in found] == [0, 2, 4, 6, 8]
    assert os.getpid() not in {one["process"] for one in found}
    assert {one["threads"] for one in found} == {1}


def test_one_worker_is_this_process_with_one_thread():
    torch.set_num_threads(2)
    found = runner.run_all(jobs.double, [{"number": 1}, {"number": 2}], workers=1)
    assert [one["double"] for one in found] == [2, 4]
    assert {one["process"] for one in found} == {os.getpid()}
    assert {one["threads"] for one in found} == {1}
    assert torch.get_num_threads() == 2


def test_no_jobs_have_no_results():
    assert runner.run_all(jobs.double, []) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failing_run_raises_its_error(workers):
    with pytest.raises(ValueError, match="job 1 failed"):
        runner.run_all(jobs.fail_on_odd, [2, 1], workers=workers)


def test_stored_results_are_not_run_again(tmp_path):
    numbers = [{"number": number, "folder": str(tmp_path)} for number in range(3)]
    first = runner.run_cached(jobs.double, numbers[:2], jobs.file, workers=1)
    written = {file: file.stat().st_mtime_ns for file in (tmp_path / "runs").iterdir()}
    again = runner.run_cached(jobs.double, numbers, jobs.file, workers=1)
    assert again[:2] == first
    assert again[2]["double"] == 4
    assert {file: file.stat().st_mtime_ns for file in written} == written
    assert len(list((tmp_path / "runs").iterdir())) == 3
    other = runner.run_cached(jobs.double, [numbers[0] | {"setting": 1}], jobs.file, workers=1)
    assert len(list((tmp_path / "runs").iterdir())) == 4, "other settings are another run"
    assert other[0]["double"] == 0


def test_a_worker_stores_its_result(tmp_path):
    numbers = [{"number": number, "folder": str(tmp_path)} for number in range(2)]
    found = runner.run_cached(jobs.double, numbers, jobs.file, workers=2)
    assert [one["double"] for one in found] == [0, 2]
    assert os.getpid() not in {one["process"] for one in found}


def test_a_damaged_result_is_run_again(tmp_path):
    numbers = [{"number": 1, "folder": str(tmp_path)}]
    first = runner.run_cached(jobs.double, numbers, jobs.file, workers=1)
    jobs.file(numbers[0]).write_text('{"double": ')
    assert runner.run_cached(jobs.double, numbers, jobs.file, workers=1) == first


@pytest.mark.parametrize(
    ("function", "file", "job"),
    [
        (synthetic.run_one, None, synthetic.SyntheticJob(synthetic.SyntheticConfig(), synthetic.MAIN[0], 0)),
        (triggers.run_one, None, triggers.TriggerJob("waves", "default", 0)),
        (corridors.run_one, corridors._file, corridors.CorridorJob(corridors.CorridorsConfig(), corridors.SETTINGS[0], 0)),
        (recording._record_one, None, ("A", recording.Recording())),
        (arena.pretrain, None, arena.ArenaJob(arena.ArenaConfig(), None, 0)),
        (arena.run_one, arena._file, arena.ArenaJob(arena.ArenaConfig(), arena.SETTINGS[0], 0)),
        (tv.run_one, tv._file, tv.TVJob(tv.TVConfig(), tv.SETTINGS[0], 0)),
    ],
    ids=["synthetic", "triggers", "corridors", "recording", "pretraining", "arena", "tv"],
)  # fmt: skip
def test_the_jobs_of_every_experiment_can_be_sent_to_another_process(function, file, job):
    work = function if file is None else partial(runner._run_and_save, function, file)
    sent, received = ForkingPickler.loads(ForkingPickler.dumps((work, job)))
    assert received == job
    assert getattr(sent, "args", sent) == getattr(work, "args", work)


def start(tmp_path, call):
    """Run code with `jobs` and `runner` in a new process group."""
    script = tmp_path / "script.py"
    script.write_text(
        "if __name__ == '__main__':\n"
        f"    import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"    import jobs; from taskfree.paper import runner; {call}\n"
    )
    return subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def is_running(process):
    """Whether a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_workers_stop_when_their_parent_is_killed(tmp_path):
    files = [str(tmp_path / "0"), str(tmp_path / "1")]
    parent = start(tmp_path, f"runner.run_all(jobs.sleep, {files})")
    wait_until(lambda: (tmp_path / "0").exists())
    worker = int((tmp_path / "0").read_text())
    assert is_running(worker)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stderr.close()
    wait_until(lambda: not is_running(worker))


def test_ctrl_c_stops_the_runs_and_starts_no_others(tmp_path):
    files = [str(tmp_path / str(number)) for number in range(6)]
    parent = start(tmp_path, f"runner.run_all(jobs.sleep, {files}, workers=2)")
    wait_until(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists())
    workers = [int((tmp_path / name).read_text()) for name in ("0", "1")]
    os.killpg(parent.pid, signal.SIGINT)
    assert b"KeyboardInterrupt" in parent.communicate(timeout=LIMIT)[1]
    wait_until(lambda: not any(map(is_running, workers)))
    assert {file.name for file in tmp_path.iterdir()} == {"0", "1", "script.py"}
