"""A small web server for this machine only, which shows a page and images of one folder."""

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

__all__ = ["PageHandler", "run", "serve"]

POLICY = (
    "default-src 'self'; img-src 'self' data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'"
)


class PageHandler(BaseHTTPRequestHandler):
    """Serves a page, the data it requests, and the images of a folder.

    Args:
        folder: whose images it may show.
        rest: what the server passes to every handler.
    """

    html = ""
    images: tuple[str, ...] = (".jpg", ".png")

    def __init__(self, folder: Path, *rest: Any) -> None:
        self.folder = folder.resolve()
        super().__init__(*rest)

    def data(self, path: str, query: str) -> Any:
        """What the page requests, as JSON; None if there is no such thing."""

    def do_GET(self) -> None:
        """The page, its data, or an image."""
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        if not self.is_local():
            self.send_error(HTTPStatus.FORBIDDEN)
        elif path == "/":
            self.answer(self.html.encode(), "text/html; charset=utf-8")
        elif (found := self.data(path, parts.query)) is not None:
            self.answer(json.dumps(found).encode(), "application/json")
        elif (file := self._image(path)) is not None:
            kind = "image/png" if file.suffix == ".png" else "image/jpeg"
            self.answer(file.read_bytes(), kind)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def is_local(self) -> bool:
        """Whether the Host header names this machine, which stops DNS rebinding."""
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        return host in ("127.0.0.1", "localhost")

    def _image(self, path: str) -> Path | None:
        if "\0" in path:
            return None
        file = (self.folder / path.lstrip("/")).resolve()
        inside = file.is_relative_to(self.folder)
        return file if inside and file.suffix in self.images and file.is_file() else None

    def answer(self, content: bytes, kind: str) -> None:
        """Send it to the browser."""
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Security-Policy", POLICY)
        with suppress(ConnectionError):  # the browser has left
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def run(server: ThreadingHTTPServer, show: bool) -> None:
    """Print the address, open the browser if `show`, and serve until Ctrl-C."""
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    print(f"the page is at {address} (Ctrl-C to stop)", flush=True)  # noqa: T201 - the answer
    if show:
        webbrowser.open(address)
    server.serve_forever()


def serve(handler: Callable[..., PageHandler], *given: Any, port: int = 0) -> ThreadingHTTPServer:
    """A server on the loopback address; port 0 picks a free one."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(handler, *given))
