"""Rows per second of `taskfree learn` on one core, against a plain hand-written loop.

The plain loop does as little as an honest one can: it reads the file with pyarrow, takes steps of
the same size of the same network with the same optimizer, and computes the accuracy of the outputs
it trains on. It has no experts, no buffer, no standardization, no state on disk, and it stops at
the first bad row. Both run alternately.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import pyarrow.csv
import torch
from torch import nn

from taskfree.paper import cache, publish
from taskfree.tabular.networks import mlp
from taskfree.tabular.options import Options

COLUMNS = 20


def write(file: Path, rows: int) -> None:
    """Numbers, and a label that depends on other columns in each quarter of the file."""
    draw = random.Random(0)
    with file.open("w") as out:
        out.write(",".join([*(f"c{number}" for number in range(COLUMNS)), "label"]) + "\n")
        for row in range(rows):
            values = [draw.gauss(0, 1) for _ in range(COLUMNS)]
            first = 4 * (4 * row // rows)
            label = "up" if sum(values[first : first + 4]) > 0 else "down"
            out.write(",".join(f"{value:.4f}" for value in values) + f",{label}\n")


def plain(file: Path) -> None:
    """The hand-written loop."""
    torch.manual_seed(0)
    model = mlp(COLUMNS, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=True)
    loss, correct, seen = nn.CrossEntropyLoss(), 0, 0
    table = pyarrow.csv.read_csv(file)
    inputs = torch.from_numpy(table.drop_columns(["label"]).to_pandas().to_numpy("float32"))
    labels = torch.tensor(table["label"].dictionary_encode().combine_chunks().indices.to_numpy())
    sizes = Options()
    while seen < len(inputs):
        end = seen + sizes.rows_per_step(seen)
        x, y = inputs[seen:end], labels[seen:end].long()
        outputs = model(x)
        correct += int((outputs.argmax(1) == y).sum())
        seen += len(y)
        optimizer.zero_grad()
        loss(outputs, y).backward()
        optimizer.step()
    print(f"plain: {correct / seen:.4f}")  # noqa: T201


def timed(command: list[str]) -> tuple[float, list[float]]:
    """The seconds that a process takes on one core, and its memory in MiB, every half second."""
    memory = []
    started = time.perf_counter()
    process = subprocess.Popen(["taskset", "--cpu-list", "0", *command], stderr=subprocess.DEVNULL)
    while process.poll() is None:
        try:
            pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
            memory.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
        except (OSError, IndexError):
            pass
        time.sleep(0.5)
    seconds = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"{command} failed")
    return seconds, memory


def main() -> None:
    """Run both alternately and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/rows.json"))
    parser.add_argument("--plain", type=Path, help="run the plain loop on this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.plain:
        plain(options.plain)
        return
    times: dict[str, list[float]] = {"plain": [], "taskfree learn": []}
    memory: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.csv"
        write(file, options.rows)
        for turn in range(options.repeats):
            by_hand = [sys.executable, __file__, "--plain", str(file)]
            times["plain"].append(timed(by_hand)[0])
            state = Path(folder) / f"state{turn}"
            ours = [sys.executable, "-m", "taskfree", "learn", str(file), "--target", "label"]
            seconds, memory = timed([*ours, "--state", str(state)])
            times["taskfree learn"].append(seconds)
    rates = {name: options.rows / median(values) for name, values in times.items()}
    quarter = len(memory) // 4
    results = {
        "command": f"python benchmarks/rows.py --rows {options.rows} --repeats {options.repeats}",
        "versions": cache.versions(),
        "rows": options.rows, "columns": COLUMNS,
        "seconds": {name: [round(value, 2) for value in values] for name, values in times.items()},
        "rows per second": {name: round(rate) for name, rate in rates.items()},
        "plain is faster by": round(rates["plain"] / rates["taskfree learn"], 3),
        "MiB after a quarter and at the end": [
            round(max(memory[: quarter + 1]), 1), round(memory[-2], 1),
        ],
    }  # fmt: skip
    publish.write_results(options.out, results)
    print(results)  # noqa: T201


if __name__ == "__main__":
    main()
