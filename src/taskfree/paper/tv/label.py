"""`taskfree label`: a local web page for naming tracks."""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

import tyro

from taskfree._core.files import atomic_write
from taskfree.observe import server
from taskfree.paper.tv import tables

LARGEST = 4096
"""The maximum size of a request, in bytes."""
IMAGES = 6
"""Images shown per track, at most."""


@dataclass(frozen=True)
class LabelTracks:
    """Name the tracks of a folder in your browser. Names are saved while you type."""

    folder: Annotated[Path, tyro.conf.Positional]
    """the output of taskfree tracks"""
    port: int = 0
    """port of the page, on this machine only; 0 picks a free one"""
    show: bool = True
    """open the browser"""

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise ValueError(f"port must be an integer from 0 to 65535, got {self.port}")


class Labels:
    """The names of the tracks in `labels.csv`, which is read and rewritten at every change.

    Edits that others make to the file are preserved.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "labels.csv"
        self._lock = threading.Lock()
        self.names = tables.read_labels(folder)

    def set(self, track: str, name: str) -> None:
        """Name a track; an empty name removes it."""
        self.update({track: name})

    def update(self, changes: Mapping[str, str]) -> None:
        """Name several tracks: either all names are saved, or none."""
        with self._lock:
            names = {**tables.read_labels(self.folder), **changes}
            names = {track: name for track, name in names.items() if name}
            with (
                atomic_write(self.file) as unfinished,
                unfinished.open("w", newline="", encoding="utf-8") as out,
            ):
                writer = csv.writer(out)
                writer.writerow(["track", "name"])
                writer.writerows(sorted(names.items()))
            self.names = names


def run(command: LabelTracks) -> None:
    """Serve the page until Ctrl-C."""
    server.run(serve(command.folder, command.port), command.show)


def serve(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server on the loopback address that serves only the images of this folder."""
    return server.serve(LabelHandler, folder, tables.read(folder), Labels(folder), port=port)


class LabelHandler(server.PageHandler):
    """Serves the page and saves the names."""

    images = (".jpg",)

    def __init__(
        self, folder: Path, tracks: list[tables.Track], labels: Labels, *rest: Any
    ) -> None:
        self.html, self.tracks, self.labels = PAGE, tracks, labels
        super().__init__(folder, *rest)

    def data(self, path: str, _: str) -> Any:
        """The tracks, with a few images of each."""
        if path != "/tracks":
            return None
        return [
            {
                "name": track.name, "seconds": track.seconds, "faces": track.faces,
                "label": self.labels.names.get(track.name, ""),
                "images": [
                    f"/{file.relative_to(self.folder)}"
                    for file in tables.spread(tables.crops(self.folder, track), IMAGES)
                ],
            }
            for track in self.tracks
        ]  # fmt: skip

    def do_POST(self) -> None:  # noqa: N802 - as http.server names it
        """Save the name of a track."""
        length = self.headers.get("Content-Length") or ""
        # A page of another site cannot send this header without a preflight, which is not answered.
        is_ours = self.is_local() and self.headers.get("X-Taskfree") == "label"
        if self.path != "/label" or not is_ours or not length.isdecimal() or int(length) > LARGEST:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        try:
            request = json.loads(self.rfile.read(int(length)))
            track, name = str(request["track"]), str(request["name"]).strip()
        except (ValueError, KeyError, TypeError):
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        known = {track.name for track in self.tracks}
        if track not in known:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.labels.set(track, name)
        named = sum(bool(name) for track, name in self.labels.names.items() if track in known)
        self.answer(json.dumps({"named": named}).encode(), "application/json")


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Name the tracks · taskfree</title><link rel="icon" href="data:,">
<style>
:root { color-scheme: light dark; --line: #8884; }
body { font: 16px/1.4 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem; }
header { position: sticky; top: 0; background: Canvas; padding: .5rem 0; z-index: 1; }
.track { display: flex; gap: .8rem; align-items: center; flex-wrap: wrap;
         border-bottom: 1px solid var(--line); padding: .6rem 0; }
.faces { display: flex; gap: 3px; } img { width: 64px; height: 64px; border-radius: 6px; }
input { font: inherit; padding: .3rem .5rem; width: 12rem; }
.details { opacity: .7; font-size: .85rem; min-width: 9rem; }
.saved { outline: 2px solid #009e73; } .unsaved { outline: 3px dashed #d55e00; }
</style></head><body>
<header><h1>Name the tracks</h1><p id="count" role="status"></p></header>
<datalist id="known"></datalist><main id="tracks"></main>
<script>
const known = new Set(), main = document.querySelector("#tracks");
function remember(name) {
  if (!name || known.has(name)) return;
  known.add(name);
  const option = document.createElement("option");
  option.value = name;
  document.querySelector("#known").append(option);
}
function count(named, all) {
  document.querySelector("#count").textContent = `${named} of ${all} tracks have a name`;
}
async function save(input, track, all) {
  const name = input.value;
  try {
    const answer = await fetch("/label", {
      method: "POST", headers: {"Content-Type": "application/json", "X-Taskfree": "label"},
      body: JSON.stringify({track, name}),
    });
    if (!answer.ok) throw new Error(answer.status);
    count((await answer.json()).named, all);
    input.classList.toggle("saved", name === input.value);
    input.classList.remove("unsaved");
  } catch {
    input.classList.add("unsaved");
    document.querySelector("#count").textContent =
      "Not saved: taskfree label does not answer. Restart it; your input stays on this page.";
  }
}
fetch("/tracks").then(answer => answer.json()).then(tracks => {
  count(tracks.filter(track => track.label).length, tracks.length);
  for (const track of tracks) {
    const line = document.createElement("section"), faces = document.createElement("div");
    const details = document.createElement("span"), input = document.createElement("input");
    line.className = "track"; faces.className = "faces"; details.className = "details";
    for (const path of track.images) {
      const image = document.createElement("img");
      image.loading = "lazy"; image.alt = "";
      image.src = path.split("/").map(encodeURIComponent).join("/");
      faces.append(image);
    }
    details.textContent = `${track.name}, ${track.faces} faces, ${track.seconds.toFixed(1)} s`;
    input.value = track.label; input.setAttribute("list", "known");
    input.setAttribute("aria-label", `name of ${track.name}`); input.placeholder = "name";
    let waiting;
    input.addEventListener("input", () => {
      input.classList.remove("saved");
      clearTimeout(waiting);
      waiting = setTimeout(() => save(input, track.name, tracks.length), 300);
    });
    input.addEventListener("change", () => {
      clearTimeout(waiting);
      remember(input.value.trim());
      save(input, track.name, tracks.length);
    });
    remember(track.label);
    line.append(faces, input, details);
    main.append(line);
  }
});
</script></body></html>
"""
