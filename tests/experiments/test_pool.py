"""Many runs on several processes: in order, kept, and gone when the one that began them is."""

import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import tyro

from taskfree.experiments import pool


def double(job):
    return {"double": 2 * job["number"], "process": os.getpid()}


def place(job):
    return pool.place(Path(job["folder"]), f"run, {job['number']}", job)


def test_runs_come_back_in_order_from_several_processes():
    jobs = [{"number": number} for number in range(5)]
    found = pool.run_all(double, jobs, workers=2, describe=lambda job: str(job["number"]))
    assert [one["double"] for one in found] == [0, 2, 4, 6, 8]
    assert os.getpid() not in {one["process"] for one in found}
    assert pool.run_all(double, []) == []


def test_what_is_kept_is_not_repeated(tmp_path):
    jobs = [{"number": number, "folder": str(tmp_path)} for number in range(3)]
    first = pool.run_kept(double, jobs[:2], place, workers=1)
    again = pool.run_kept(double, jobs, place, workers=1)
    assert again[:2] == first
    assert again[2]["double"] == 4
    assert len(list((tmp_path / "runs").iterdir())) == 3
    other = pool.run_kept(double, [jobs[0] | {"setting": 1}], place, workers=1)
    assert len(list((tmp_path / "runs").iterdir())) == 4, "other settings are another run"
    assert other[0]["double"] == 0


def test_a_damaged_result_is_made_again(tmp_path):
    jobs = [{"number": 1, "folder": str(tmp_path)}]
    first = pool.run_kept(double, jobs, place, workers=1)
    place(jobs[0]).write_text('{"double": ')
    assert pool.run_kept(double, jobs, place, workers=1)[0]["double"] == first[0]["double"]


def fail(job):
    raise ValueError(f"job {job} failed")


def test_a_run_that_fails_says_so():
    with pytest.raises(ValueError, match="job 1 failed"):
        pool.run_all(fail, [1], workers=1)


def sleep(file):
    Path(file).write_text(str(os.getpid()))
    time.sleep(600)


def test_workers_do_not_outlive_the_process_that_began_them(tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_pool;"
        f"from taskfree.experiments import pool; pool.run_all(test_pool.sleep, [{str(tmp_path / 'pid')!r}])"
    )
    script = tmp_path / "begin.py"
    script.write_text(f"if __name__ == '__main__':\n    {code}\n")
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < until
        time.sleep(0.1)
    worker = int((tmp_path / "pid").read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    while (
        Path(f"/proc/{worker}").exists()
        and "Z" not in (Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[0])
    ):
        assert time.monotonic() < until, "it works on for nobody"
        time.sleep(0.1)


def test_ctrl_c_ends_the_runs_and_begins_no_others(tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_pool;"
        "from taskfree.experiments import pool; pool.run_all(test_pool.sleep,"
        f" [{str(tmp_path)!r} + f'/{{n}}' for n in range(6)], workers=2)"
    )
    script = tmp_path / "begin.py"
    script.write_text(f"if __name__ == '__main__':\n    {code}\n")
    begun = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    until = time.monotonic() + 60
    while not all((tmp_path / str(n)).exists() for n in range(2)):
        assert time.monotonic() < until
        time.sleep(0.1)
    os.killpg(begun.pid, signal.SIGINT)
    assert b"KeyboardInterrupt" in begun.communicate(timeout=30)[1]
    assert not (tmp_path / "4").exists(), "what had not begun is not begun"


@dataclass(frozen=True)
class Inner:
    out: str = "there"
    seed: int = 0


@dataclass(frozen=True)
class Outer:
    out: str = "here"
    seeds: int = 3
    names: tuple[str, ...] = ("A",)
    flights: Inner = Inner()
    show: bool = False
    crop: bool = True


def test_the_command_says_what_is_not_the_default():
    assert pool.command("x", Outer()) == "taskfree reproduce x"
    config = Outer(out="elsewhere", names=("A", "B"), flights=Inner("nowhere", 1))
    assert pool.command("x", config) == "taskfree reproduce x --names A B --flights.seed 1"
    config = Outer(names=("my faces",), show=True, crop=False)
    assert pool.command("x", config) == "taskfree reproduce x --names 'my faces' --show --no-crop"
    assert tyro.cli(Outer, args=shlex.split(pool.command("x", config))[3:]) == config
