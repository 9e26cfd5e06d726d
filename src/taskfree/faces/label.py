"""`taskfree label`: a small page on this machine to say who is seen in which track."""

from __future__ import annotations

import csv
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

import tyro

from taskfree import pages
from taskfree.faces import tracks

LONGEST = 4096
"""Bytes of what the page may say at once."""


@dataclass(frozen=True)
class Config:
    """Name the tracks of a folder on a page in your browser. Names are kept as they are typed."""

    folder: Annotated[Path, tyro.conf.Positional]
    """what taskfree tracks made"""
    port: int = 0
    """of the page, on this machine only; 0: any that is free"""
    show: bool = True
    """open the browser"""

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise ValueError(f"port must be a whole number from 0 to 65535, got {self.port}")


class Labels:
    """Who is seen in which track: `labels.csv`, read and written anew, whole, at every change.

    So whoever corrects the file meanwhile loses nothing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "labels.csv"
        self._lock = threading.Lock()
        self.names = tracks.read_labels(folder)

    def set(self, track: str, name: str) -> None:
        """Say who it is; an empty name takes it back."""
        self.update({track: name})

    def update(self, said: Mapping[str, str]) -> None:
        """Say who several are: all of it is kept, or nothing."""
        with self._lock:
            names = {**tracks.read_labels(self.folder), **said}
            names = {track: name for track, name in names.items() if name}
            unfinished = self.file.with_suffix(".writing")
            with open(unfinished, "w", newline="", encoding="utf-8") as out:
                writer = csv.writer(out)
                writer.writerow(["track", "name"])
                writer.writerows(sorted(names.items()))
                out.flush()
                os.fsync(out.fileno())
            unfinished.replace(self.file)
            self.names = names


def run(config: Config) -> None:
    """Serve the page until ctrl-C."""
    pages.run(serve(config.folder, config.port), config.show)


def serve(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server for this machine alone, which shows this folder's pictures and nothing else."""
    return pages.serve(_Page, folder, tracks.read(folder), Labels(folder), port=port)


class _Page(pages.Page):
    """The page, its pictures and what is typed into it."""

    pictures = (".jpg",)

    def __init__(self, folder: Path, found: list[tracks.Track], labels: Labels, *rest: Any) -> None:
        self.html, self.found, self.labels = PAGE, found, labels
        super().__init__(folder, *rest)

    def data(self, path: str, _: str) -> Any:
        """The tracks, with a few pictures of each."""
        if path != "/tracks":
            return None
        return [
            {
                "name": track.name, "seconds": track.seconds, "faces": track.faces,
                "label": self.labels.names.get(track.name, ""),
                "pictures": [
                    f"/{file.relative_to(self.folder)}"
                    for file in _chosen(tracks.crops(self.folder, track))
                ],
            }
            for track in self.found
        ]  # fmt: skip

    def do_POST(self) -> None:  # noqa: N802
        """A name for a track."""
        length = self.headers.get("Content-Length") or ""
        # Another site's page cannot send this header without being asked, and it is not answered.
        ours = self.asked_here() and self.headers.get("X-Taskfree") == "label"
        if self.path != "/label" or not ours or not length.isdecimal() or int(length) > LONGEST:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        try:
            said = json.loads(self.rfile.read(int(length)))
            track, name = str(said["track"]), str(said["name"]).strip()
        except (ValueError, KeyError, TypeError):
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        here = {one.name for one in self.found}
        if track not in here:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.labels.set(track, name)
        named = sum(bool(own) for one, own in self.labels.names.items() if one in here)
        self.answer(json.dumps({"named": named}).encode(), "application/json")


def _chosen(files: list[Path], most: int = 6) -> list[Path]:
    return files[:: max(1, len(files) // most)][:most]


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Who is it? · taskfree</title><link rel="icon" href="data:,">
<style>
:root { color-scheme: light dark; --line: #8884; }
body { font: 16px/1.4 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem; }
header { position: sticky; top: 0; background: Canvas; padding: .5rem 0; z-index: 1; }
.track { display: flex; gap: .8rem; align-items: center; flex-wrap: wrap;
         border-bottom: 1px solid var(--line); padding: .6rem 0; }
.faces { display: flex; gap: 3px; } img { width: 64px; height: 64px; border-radius: 6px; }
input { font: inherit; padding: .3rem .5rem; width: 12rem; }
.about { opacity: .7; font-size: .85rem; min-width: 9rem; }
.kept { outline: 2px solid #009e73; } .lost { outline: 3px dashed #d55e00; }
</style></head><body>
<header><h1>Who is it?</h1><p id="count" role="status"></p></header>
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
async function keep(input, track, all) {
  const said = input.value;
  try {
    const answer = await fetch("/label", {
      method: "POST", headers: {"Content-Type": "application/json", "X-Taskfree": "label"},
      body: JSON.stringify({track, name: said}),
    });
    if (!answer.ok) throw new Error(answer.status);
    count((await answer.json()).named, all);
    input.classList.toggle("kept", said === input.value);
    input.classList.remove("lost");
  } catch {
    input.classList.add("lost");
    document.querySelector("#count").textContent =
      "Not kept: taskfree label does not answer. Start it again; what is typed here stays.";
  }
}
fetch("/tracks").then(answer => answer.json()).then(tracks => {
  count(tracks.filter(track => track.label).length, tracks.length);
  for (const track of tracks) {
    const line = document.createElement("section"), faces = document.createElement("div");
    const about = document.createElement("span"), input = document.createElement("input");
    line.className = "track"; faces.className = "faces"; about.className = "about";
    for (const picture of track.pictures) {
      const image = document.createElement("img");
      image.loading = "lazy"; image.alt = "";
      image.src = picture.split("/").map(encodeURIComponent).join("/");
      faces.append(image);
    }
    about.textContent = `${track.name}, ${track.faces} faces, ${track.seconds.toFixed(1)} s`;
    input.value = track.label; input.setAttribute("list", "known");
    input.setAttribute("aria-label", `name of ${track.name}`); input.placeholder = "name";
    let waiting;
    input.addEventListener("input", () => {
      input.classList.remove("kept");
      clearTimeout(waiting);
      waiting = setTimeout(() => keep(input, track.name, tracks.length), 300);
    });
    input.addEventListener("change", () => {
      clearTimeout(waiting);
      remember(input.value.trim());
      keep(input, track.name, tracks.length);
    });
    remember(track.label);
    line.append(faces, input, about);
    main.append(line);
  }
});
</script></body></html>
"""
