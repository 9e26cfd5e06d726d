"""Small pages for this machine alone, which show a folder's files and run nothing in them."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["Page", "run", "serve"]

POLICY = (
    "default-src 'self'; img-src 'self' data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'"
)


class Page(BaseHTTPRequestHandler):
    """A page, what it asks for, and pictures of a folder.

    Args:
        folder: whose pictures it may show.
        rest: what the server gives to every handler.
    """

    html = ""
    pictures: tuple[str, ...] = (".jpg", ".png")

    def __init__(self, folder: Path, *rest: Any) -> None:
        self.folder = folder.resolve()
        super().__init__(*rest)

    def data(self, path: str, query: str) -> Any:
        """What the page asks for, as JSON; None if there is no such thing."""

    def do_GET(self) -> None:
        """The page, what it asks for, or a picture."""
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        if not self.asked_here():
            self.send_error(HTTPStatus.FORBIDDEN)
        elif path == "/":
            self.answer(self.html.encode(), "text/html; charset=utf-8")
        elif (found := self.data(path, parts.query)) is not None:
            self.answer(json.dumps(found).encode(), "application/json")
        elif (file := self._picture(path)) is not None:
            kind = "image/png" if file.suffix == ".png" else "image/jpeg"
            self.answer(file.read_bytes(), kind)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def asked_here(self) -> bool:
        """Whether the browser thinks that it talks to this machine: no name of another's."""
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        return host in ("127.0.0.1", "localhost")

    def _picture(self, path: str) -> Path | None:
        if "\0" in path:
            return None
        file = (self.folder / path.lstrip("/")).resolve()
        inside = file.is_relative_to(self.folder)
        return file if inside and file.suffix in self.pictures and file.is_file() else None

    def answer(self, content: bytes, kind: str) -> None:
        """Give it to the browser."""
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Security-Policy", POLICY)
        with suppress(ConnectionError):  # whoever asked has left
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Silent."""


def run(server: ThreadingHTTPServer, show: bool) -> None:
    """Say where the page is, open the browser if that is wanted, and serve it until ctrl-C."""
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    print(f"the page is at {address}; ctrl-C ends it", flush=True)  # noqa: T201
    if show:
        webbrowser.open(address)
    server.serve_forever()


def serve(page: Callable[..., Page], *given: Any, port: int = 0) -> ThreadingHTTPServer:
    """A server for this machine alone; port 0 is any that is free."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(page, *given))
