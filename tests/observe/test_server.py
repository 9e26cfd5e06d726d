"""The web server answers only this machine, and only with the images of its folder."""

import json

import pytest

from taskfree.observe import server
from web import request, serving


class Handler(server.PageHandler):
    html = "<title>page</title>"

    def data(self, path, query):
        return {"query": query} if path == "/data" else None


@pytest.fixture
def port(tmp_path):
    """The port of a server whose folder lies beside a secret."""
    folder = tmp_path / "run"
    (folder / "buffer").mkdir(parents=True)
    (folder / "buffer" / "0.png").write_bytes(b"png")
    (folder / "face.jpg").write_bytes(b"jpeg")
    (folder / "losses.f32").write_bytes(b"\0\0\0\0")
    (tmp_path / "secret.png").write_text("secret")
    (folder / "buffer" / "link.png").symlink_to(tmp_path / "secret.png")
    with serving(server.serve(Handler, folder)) as found:
        yield found


@pytest.mark.parametrize(
    ("path", "kind", "content"),
    [
        ("/", "text/html; charset=utf-8", b"<title>page</title>"),
        ("/data?first=3", "application/json", json.dumps({"query": "first=3"}).encode()),
        ("/buffer/0.png", "image/png", b"png"),
        ("/buffer/%30.png?new", "image/png", b"png"),
        ("/face.jpg", "image/jpeg", b"jpeg"),
    ],
)
def test_the_page_its_data_and_its_images_are_served(port, path, kind, content):
    status, headers, body = request(port, path)
    assert (status, headers["Content-Type"], body) == (200, kind, content)
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert "default-src 'self'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    ["/../secret.png", "/%2e%2e/secret.png", "/buffer/../../secret.png", "//secret.png",
     "/buffer/..%2f..%2fsecret.png", "/losses.f32", "/buffer/link.png", "/buffer", "/none.png",
     "/data2", "/a%00b.png"],
)  # fmt: skip
def test_nothing_else_is_served(port, path):
    assert request(port, path)[0] == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:{}", 200),
        ("127.0.0.1:{}", 200),
        ("evil.example:{}", 403),
        ("evil.example", 403),
        ("127.0.0.1.evil.example:{}", 403),
        ("", 403),
    ],
)
def test_only_a_host_header_of_this_machine_is_answered(port, host, status):
    for path in ("/", "/data", "/buffer/0.png"):
        assert request(port, path, host.format(port))[0] == status


def test_the_server_listens_only_on_this_machine(tmp_path):
    with server.serve(Handler, tmp_path) as listening:
        assert listening.server_address[0] == "127.0.0.1"
