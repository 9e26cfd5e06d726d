"""The live page: a run's files, as the page requests them, and its server."""

from __future__ import annotations

import json
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
from numpy.typing import NDArray

from taskfree._core import validation
from taskfree.observe import server

WIDEST = 4000
"""The most points of a curve that a page may request."""
CHUNK = 1024
"""Losses are summarized in chunks of this many steps: minimum, mean, maximum."""


class LossCurve:
    """The losses of a run, in as few points as a page is wide, however many there are.

    What has been read is summarized in chunks. If the file gets shorter (a resumed run), it is
    read again.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._chunks = np.zeros((3, 0), np.float32)

    def __len__(self) -> int:
        return self.file.stat().st_size // 4 if self.file.exists() else 0

    def curve(self, first: int, last: int, points: int) -> dict[str, Any]:
        """Minimum, mean and maximum over `points` stretches of the steps first + 1 to last."""
        last = min(last, len(self))
        first = max(0, min(first, last))
        if first == last:
            return {"first": first, "last": last, "low": [], "mean": [], "high": []}
        if (last - first) // points >= CHUNK:
            low, mean, high = self._from_chunks(first, last, points)
        else:
            values = np.fromfile(self.file, "<f4", last - first, offset=4 * first)
            cuts = np.linspace(0, len(values), min(points, len(values)) + 1).astype(int)
            low, mean, high = _reduced(np.stack([values] * 3), cuts)
        return {
            "first": first, "last": last,
            "low": _listed(low), "mean": _listed(mean), "high": _listed(high),
        }  # fmt: skip

    def _from_chunks(self, first: int, last: int, points: int) -> NDArray[np.float32]:
        whole = len(self) // CHUNK
        known = self._chunks.shape[1]
        if known > whole:
            self._chunks, known = np.zeros((3, 0), np.float32), 0
        if known < whole:
            new = np.fromfile(self.file, "<f4", (whole - known) * CHUNK, offset=4 * known * CHUNK)
            rows = new.reshape(-1, CHUNK)
            with np.errstate(invalid="ignore"):
                more = np.stack([rows.min(1), rows.mean(1), rows.max(1)])
            self._chunks = np.concatenate([self._chunks, more], axis=1)
        chunks = self._chunks[:, first // CHUNK : max(first // CHUNK + 1, last // CHUNK)]
        cuts = np.linspace(0, chunks.shape[1], min(points, chunks.shape[1]) + 1).astype(int)
        return _reduced(chunks, cuts)


def _reduced(rows: NDArray[np.float32], cuts: NDArray[np.int_]) -> NDArray[np.float32]:
    """Minimum, mean and maximum of each stretch between cuts."""
    starts, sizes = cuts[:-1], np.diff(cuts)
    return np.stack(
        [
            np.minimum.reduceat(rows[0], starts),
            np.add.reduceat(rows[1], starts) / sizes,
            np.maximum.reduceat(rows[2], starts),
        ]
    )


def _listed(values: NDArray[np.float32]) -> list[float | None]:
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values.tolist()]


class JSONTail:
    """The lines of a JSON lines file as objects; only what is new is read."""

    def __init__(self, file: Path) -> None:
        self.file, self._read, self._found = file, 0, list[Any]()

    def all(self) -> list[Any]:
        """All lines so far; an incomplete last line is left for the next call."""
        size = self.file.stat().st_size if self.file.exists() else 0
        if size < self._read:
            self._read, self._found = 0, []
        if size > self._read:
            with self.file.open("rb") as file:
                file.seek(self._read)
                new = file.read(size - self._read)
            new = new[: new.rfind(b"\n") + 1]
            self._read += len(new)
            for line in new.splitlines():
                try:
                    one = json.loads(line, parse_constant=lambda _: None)  # nan and inf are null
                except (ValueError, RecursionError):
                    continue  # not ours
                if isinstance(one, dict):
                    self._found.append(one)
        return self._found


class RunFiles:
    """The files of a run, as the page requests them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.losses = LossCurve(folder / "losses.f32")
        self.events, self.history = (
            JSONTail(folder / "events.jsonl"),
            JSONTail(folder / "history.jsonl"),
        )

    def now(self, first: int, last: int, points: int) -> dict[str, Any]:
        """Everything the page shows of the steps first + 1 to last."""
        history = self.history.all()
        step = max(1, len(history) // points)
        return {
            "name": self.folder.resolve().name,
            "steps": len(self.losses),
            "loss": self.losses.curve(first, last, points),
            "events": [
                {key: one.get(key) for key in ("step", "kind", "text", "consolidated")}
                for one in self.events.all()
                if first < one.get("step", 0) <= last
            ][-WIDEST:],
            "history": [*history[::step], *(history[-1:] if (len(history) - 1) % step else [])],
            "buffer": self._read("buffer.json"),
            "status": self._read("status.json"),
        }

    def _read(self, name: str) -> Any:
        """The object in a file of the run; None if there is none."""
        try:
            found = json.loads((self.folder / name).read_bytes(), parse_constant=lambda _: None)
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


class WatchHandler(server.PageHandler):
    """Serves the page of a run."""

    html = (Path(__file__).parent / "watch.html").read_text(encoding="utf-8")

    def __init__(self, folder: Path, run: RunFiles, *rest: Any) -> None:
        self.run = run
        super().__init__(folder, *rest)

    def data(self, path: str, query: str) -> Any:
        """What the page draws."""
        if path != "/now":
            return None
        asked = {key: values[0] for key, values in parse_qs(query).items()}

        def number(name: str, default: int) -> int:
            return int(asked[name]) if asked.get(name, "").isdecimal() else default

        points = max(1, min(WIDEST, number("points", 800)))
        return self.run.now(number("first", 0), number("last", 2**62), points)


def serve(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server of a run's page."""
    if not any((folder / name).exists() for name in ("losses.f32", "events.jsonl")):
        raise ValueError(
            f"{folder} holds no run; taskfree learn --state {folder} writes one, and so does "
            "taskfree.observe.log.Log"
        )
    port = validation.integer("port", port, least=0)
    return server.serve(WatchHandler, folder, RunFiles(folder), port=port)
