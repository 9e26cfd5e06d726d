"""Several ranks, each with a shard of every batch, learn as one process with the whole batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import cluster
from taskfree import (
    MAS,
    ClassBalanced,
    DistributedError,
    Every,
    Hardest,
    Learner,
    NotFiniteError,
    Plateau,
    Recent,
    Reservoir,
)
from taskfree._core.distributed import SingleProcess
from taskfree._learner.objective import learned_tensors
from taskfree.how import Teacher
from taskfree.how.importance import estimate

HERE = Path(__file__).parent
STEPS = 300
LOSS = nn.CrossEntropyLoss(reduction="none")


def stream(steps=STEPS, start=0):
    """Batches of 10 or 11 samples; the line between the two labels turns as time passes."""
    generator = torch.Generator().manual_seed(1)
    for step in range(steps):
        x = torch.randn(10 + step % 2, 3, dtype=torch.float64, generator=generator)
        angle = torch.tensor(step // 100 * 2.0)
        y = (x[:, 0] * angle.cos() + x[:, 1] * angle.sin() > 0).long()
        if step >= start:
            yield x, y


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 2)).double()


def make(
    *, repeats=1, optimizer=torch.optim.SGD, lr=0.1, wrap=False, net=network,
    when=lambda: Plateau(window=5, mean=0.9, variance=0.05), which=lambda: Hardest(15),
    how=lambda: MAS(0.5), loss=LOSS, on_bad="raise",
):  # fmt: skip
    model = net()
    if wrap:
        model = DistributedDataParallel(model)
    return Learner(
        model, optimizer(model.parameters(), lr=lr), loss=loss, repeats=repeats,
        when=when(), which=which and which(), how=how and how(), on_bad=on_bad,
    )  # fmt: skip


SETTINGS = {
    "the paper's parts": {},
    "the library's default": {
        "when": lambda: "auto",
        "which": lambda: "auto",
        "how": lambda: "auto",
        "repeats": 2,
    },
    "the library's default, small buffer": {
        "when": lambda: "auto",
        "how": lambda: "auto",
        "which": lambda: Reservoir(20, seed=4, balanced="auto"),
        "repeats": 3,
        "lr": 0.5,
    },
    "no buffer": {"which": None},
    "no importance": {"how": None},
    "balanced": {"which": lambda: Hardest(15, balanced=True), "when": lambda: Every(50)},
    "rescored, repeated": {
        "which": lambda: Hardest(15, rescore=True),
        "repeats": 3,
        "when": lambda: Every(60),
    },
    "recent, Adam": {"which": lambda: Recent(15), "optimizer": torch.optim.Adam, "lr": 0.01},
    "reservoir, the paper's penalty": {
        "which": lambda: Reservoir(15, seed=4),
        "when": lambda: Every(40),
        "how": lambda: MAS(0.5, penalty="gradient", accumulate="decay", output="norm"),
    },
    "drawn anew in every gradient step": {
        "which": lambda: Reservoir(40, replay=7, seed=4),
        "repeats": 3,
        "when": lambda: Every(60),
    },
    "drawn from a class-balanced buffer": {
        "which": lambda: ClassBalanced(40, seed=4),
        "when": lambda: Every(60),
    },
    "outputs are held": {
        "which": lambda: Reservoir(40, replay=9, seed=4),
        "how": lambda: [Teacher(2.0, outputs=0.9, weights=0.9), MAS(0.01, penalty="relative")],
        "repeats": 3,
        "when": lambda: Every(60),
    },
    "line search": {
        "optimizer": lambda p, lr: torch.optim.LBFGS(p, lr, max_iter=3),
        "lr": 0.01,
        "which": lambda: Recent(15),
        "when": lambda: Every(20),
    },
}

# It divides by differences of gradients, which magnifies rounding: sums have another order.
LIMITS = {"line search": (40, 1e-6)}


def own(rank, ranks, x):
    """This rank's shard of a batch; shards may differ in size."""
    return x.tensor_split(ranks)[rank]


def trace(learner, rank=0, ranks=1, batches=None):
    """Learn the stream and return the numbers of all reports."""
    numbers = []
    for x, y in batches or stream():
        report = learner.learn(own(rank, ranks, x), own(rank, ranks, y))
        numbers.append(
            [report.loss, report.buffer_loss, report.window_mean, report.consolidated, report.peak]
        )
    return torch.tensor(numbers, dtype=torch.float64)


def ordered(state):
    """The rows of a buffer in the order of their losses: ranks hold them in another order."""
    order = state.get("which.losses", torch.empty(0)).argsort(stable=True)
    moved = {
        name: value[order]
        for name, value in state.items()
        if name.startswith("which.") and value.shape[:1] == order.shape
    }
    left_out = ("random.", "optimizer.layout", "which.layout")
    return {k: v for k, v in (state | moved).items() if not k.startswith(left_out)}


def assert_close(state, expected, tolerance=1e-12):
    state, expected = ordered(state), ordered(expected)
    assert state.keys() == expected.keys()
    for name, value in expected.items():
        found = state[name]
        close = {"rtol": tolerance, "atol": tolerance, "equal_nan": True}
        assert torch.allclose(found, value, **close), (name, found, value)


def learn_all(rank, folder, ranks, names):
    for name in names:
        setting = SETTINGS[name]
        learner = make(**setting, wrap=name == "the paper's parts")
        numbers = trace(learner, rank, ranks, stream(LIMITS.get(name, (STEPS, 0))[0]))
        state = learner.state_dict() | {"reports": numbers}
        if rank == ranks - 1:
            save_file({key: value.clone() for key, value in state.items()}, folder / name)


@pytest.mark.parametrize(("ranks", "names"), [(2, list(SETTINGS)), (3, ["the library's default"])])
def test_ranks_equal_one_process(tmp_path, ranks, names):
    cluster.run(learn_all, ranks, tmp_path, tmp_path, ranks, names)
    for name in names:
        setting = SETTINGS[name]
        learner = make(**setting)
        steps, tolerance = LIMITS.get(name, (STEPS, 1e-12))
        numbers = trace(learner, batches=stream(steps))
        if setting.get("how", True):
            assert numbers[:, 3].sum() >= 2, name
        expected = learner.state_dict() | {"reports": numbers}
        assert_close(load_file(tmp_path / name), expected, tolerance)


def resume(rank, folder, ranks, half):
    learner = make()
    learner.load_state_dict(load_file(folder / "half"))
    numbers = trace(learner, rank, ranks, stream(start=half))
    state = learner.state_dict() | {"reports": numbers}
    if rank == 0:
        save_file({key: value.clone() for key, value in state.items()}, folder / f"resumed-{ranks}")


def save_half(rank, folder, ranks, half):
    learner = make()
    trace(learner, rank, ranks, stream(half))
    state = {key: value.clone() for key, value in learner.state_dict().items()}
    if rank == 0:
        save_file(state, folder / "half")


def test_a_job_resumes_with_another_number_of_ranks(tmp_path):
    half = 120
    cluster.run(save_half, 2, tmp_path, tmp_path, 2, half)
    cluster.run(resume, 3, tmp_path, tmp_path, 3, half)
    alone = make()
    alone.load_state_dict(load_file(tmp_path / "half"))
    numbers = trace(alone, batches=stream(start=half))
    assert_close(load_file(tmp_path / "resumed-3"), alone.state_dict() | {"reports": numbers})
    whole = make()
    trace(whole)
    assert_close(alone.state_dict(), whole.state_dict())


def skip(rank, ranks):
    def loss(outputs, y):
        return LOSS(outputs, y.clamp(max=1)) * torch.where(y == 7, torch.nan, 1.0)

    clean, guarded = make(loss=loss), make(loss=loss, on_bad="skip")
    for step, (x, y) in enumerate(stream(40)):
        x, y = own(rank, ranks, x), own(rank, ranks, y)
        clean.learn(x, y)
        bad, label = x[:1].clone(), y[:1].clone()
        if step % 4 == rank:  # found by its input, only on one rank
            bad[0, 0] = torch.nan
        elif step % 4 == 2 + rank:  # found by its loss
            label[0] = 7
        else:
            bad, label = x[:0], y[:0]
        report = guarded.learn(torch.cat([bad, x]), torch.cat([label, y]))
        assert report.skipped == len(bad)
    assert_close(guarded.state_dict(), clean.state_dict(), 0)
    before = {name: value.clone() for name, value in guarded.state_dict().items()}
    x, y = (own(rank, ranks, part) for part in next(stream()))
    report = guarded.learn(x * torch.nan if rank == 1 else x, y)  # a rank with nothing left
    assert report.step == guarded.step == 40
    assert_close(guarded.state_dict(), before, 0)


def test_bad_samples_of_one_rank_are_skipped_on_it(tmp_path):
    cluster.run(skip, 2, tmp_path, 2)


def assert_same_on_all_ranks(learner):
    """The parameters and buffers equal those of rank 0, bit for bit."""
    for value in learned_tensors(learner.model, learner.optimizer, learner.loss).values():
        first = value.clone()
        dist.broadcast(first, 0)
        assert torch.equal(first, value)


class Fussy(nn.Module):
    """Refuses a batch that has a marked sample, after it has used the random generator."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2).double()

    def forward(self, x):
        torch.rand(1)
        if (x == 77).any():
            raise RuntimeError("a marked sample")
        return self.layer(x)


def fail_on_one_rank(rank, ranks):
    learner = make(net=Fussy, when=lambda: Every(3))
    batches = [(own(rank, ranks, x), own(rank, ranks, y)) for x, y in stream(12)]
    for x, y in batches[:6]:
        learner.learn(x, y)
    before = {name: value.clone() for name, value in learner.state_dict().items()}

    bad = batches[6][0].clone()
    if rank == 1:
        bad[0] = 77
    message = "rank 1 failed: RuntimeError: a marked sample" if rank == 0 else "^a marked sample"
    with pytest.raises(DistributedError if rank == 0 else RuntimeError, match=message):
        learner.learn(bad, batches[6][1])

    targets = batches[6][1].float() if rank == 1 else batches[6][1]  # found before the forward pass
    with pytest.raises(
        ValueError if rank == 1 else DistributedError, match="do not fit the buffer"
    ):
        learner.learn(batches[6][0], targets)

    if rank == 1:
        bad[0] = torch.nan
    with pytest.raises(
        DistributedError if rank == 0 else NotFiniteError, match="1 of 5 new samples"
    ):
        learner.learn(bad, batches[6][1])

    learner.loss = lambda out, y: LOSS(out, y) * (torch.nan if rank == 1 else 1.0)
    with pytest.raises(NotFiniteError, match="5 of 10 new samples"):  # all ranks see all losses
        learner.learn(*batches[6])
    learner.loss = LOSS

    broken = {**before}
    if rank == 1:
        del broken["step"]
    with pytest.raises(ValueError if rank == 1 else DistributedError, match="lacks 'step'"):
        learner.load_state_dict(broken)

    after = learner.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    for x, y in batches[6:]:  # and all continue together
        learner.learn(x, y)
    assert_same_on_all_ranks(learner)


def test_what_fails_on_one_rank_raises_on_all_and_changes_none(tmp_path):
    cluster.run(fail_on_one_rank, 2, tmp_path, 2)


def normed():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2)).double()


class Either(nn.Module):
    """Uses one of two layers, by the sign of the first input. A third layer is never used."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.ModuleList(nn.Linear(3, 2) for _ in range(3)).double()

    def forward(self, x):
        return self.layers[0](x) if x[0, 0] > 0 else self.layers[1](x)


def stay_alike(rank, ranks):
    torch.manual_seed(rank)  # the models start with different parameters
    different = nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 2)).double()
    for net in (lambda: different, normed, Either):
        learner = make(net=net)
        assert_same_on_all_ranks(learner)
        trace(learner, rank, ranks, stream(30))
        assert_same_on_all_ranks(learner)
    assert learner.model.layers[2].weight.grad is None  # used nowhere
    learner = make(net=normed)
    start = learner.model[1].running_mean.clone()
    x, y = next(stream())
    learner.learn(own(rank, ranks, x), own(rank, ranks, y))
    with torch.no_grad():
        means = [normed()[0](shard).mean(0) for shard in x.tensor_split(ranks)]
    torch.testing.assert_close(
        learner.model[1].running_mean, start * 0.9 + 0.1 * torch.stack(means).mean(0)
    )


def test_models_with_batch_norm_dropout_and_branches_stay_alike(tmp_path):
    cluster.run(stay_alike, 2, tmp_path, 2)


def refuse(rank):
    with pytest.raises(ValueError, match=r"ranks \[1\] have another model than rank 0"):
        make(net=lambda: nn.Linear(3 + rank, 2).double())
    sparse = make(
        net=lambda: nn.EmbeddingBag(5, 2, sparse=True, mode="sum").double(), which=None, how=None
    )
    with pytest.raises(ValueError, match="sparse gradients cannot be exchanged"):
        sparse.learn(torch.ones(4, 3, dtype=torch.long), torch.ones(4, dtype=torch.long))
    pairs = make(which=lambda: Hardest(5, balanced=True))
    with pytest.raises(ValueError, match="one label per sample"):
        pairs.learn(torch.ones(4, 3).double(), torch.ones(4, 2))
    rows = torch.arange(3.0 + rank)[:, None].double()  # 3 rows on one rank, 4 on the other
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.ones_(model.weight)
    mean = sum(2 * v * v for n in (3, 4) for v in range(n)) / 7
    assert estimate(model, rows)["weight"].item() == pytest.approx(mean)


def test_what_ranks_cannot_share_is_refused_and_importance_is_over_all_rows(tmp_path):
    cluster.run(refuse, 2, tmp_path)


def test_a_process_group_that_is_made_after_the_learner_is_refused(tmp_path):
    cluster.run(late, 2, tmp_path)


def late(_):
    learner = make()
    learner._processes = SingleProcess()  # as if it had been made before
    learner.which = Hardest(3)
    with pytest.raises(RuntimeError, match="call init_process_group first"):
        learner.learn(*next(stream()))


# With torchrun, as a user would start it


def torchrun(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"}, **options,
    )  # fmt: skip


EXAMPLE = HERE.parents[1] / "examples" / "ranks.py"


def test_the_example_runs_and_resumes(tmp_path):
    for expected in ("from the start", "from step 100"):
        job = torchrun(EXAMPLE, "--steps", 100, "--state", tmp_path / "state")
        printed, _ = job.communicate(timeout=600)
        assert job.returncode == 0, printed
        assert expected in printed
        assert "rank 0 of 2" in printed


@pytest.mark.parametrize("end", ["raise", "kill"])
def test_a_rank_that_ends_stops_the_job(tmp_path, end):
    script = tmp_path / "job.py"
    script.write_text(
        f"""
import os, signal, sys, torch, torch.distributed as dist
sys.path[:0] = {[str(HERE), str(HERE.parent)]!r}
import test_distributed as t
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends the others: first hear what they say
dist.init_process_group("gloo")
rank = dist.get_rank()
learner = t.make()
for step in range(10**9):
    for x, y in t.stream():
        if rank == 1 and learner.step == 20:
            if {end == "raise"}:
                raise ValueError("the camera is gone")
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            learner.learn(x, y)
        except t.DistributedError as error:
            print(f"step {{learner.step}}: {{error}}", flush=True)
            raise
"""
    )
    job = torchrun(script)
    printed, _ = job.communicate(timeout=600)
    assert job.returncode == 1
    assert ("the camera is gone" if end == "raise" else "SIGKILL") in printed
    assert "step 20: rank 0 of 2 lost contact with the others" in printed
