"""The page for naming tracks, in a real browser."""

import csv
import http.client
import json
from pathlib import Path

import pytest
from footage import folder_of_tracks

from browser import page, until
from taskfree.cli import main
from taskfree.paper.tv.label import Labels, serve
from web import serving


@pytest.fixture(scope="module")
def readable(tmp_path_factory):
    """The port of a server for tests that only read."""
    folder = folder_of_tracks(tmp_path_factory.mktemp("label") / "series", tracks=2)
    (folder.parent / "secret.jpg").write_text("secret")
    (folder / "01-first" / "crops" / "link.jpg").symlink_to(folder.parent / "secret.jpg")
    with serving(serve(folder)) as port:
        yield port


@pytest.fixture
def served(tmp_path):
    folder = folder_of_tracks(tmp_path / "series", tracks=6)
    (folder / "labels.csv").unlink()
    with serving(serve(folder)) as port:
        yield folder, port


def labels_of(folder):
    with open(folder / "labels.csv", newline="") as rows:
        return {row["track"]: row["name"] for row in csv.DictReader(rows)}


def test_names_are_saved_and_shown_again(served):
    folder, port = served
    with page() as opened:
        opened.goto(f"http://127.0.0.1:{port}/")
        opened.wait_for_selector(".track >> nth=5")
        assert opened.locator(".track img").count() == 6 * 3
        until(opened, "[...document.images].every(i => i.complete && i.naturalWidth)")
        box = opened.get_by_label("name of 01-first/00001")
        box.fill("<b>leo</b>")
        box.press("Tab")
        opened.wait_for_selector("input.saved")
        assert labels_of(folder) == {"01-first/00001": "<b>leo</b>"}
        assert opened.locator("#count").text_content() == "1 of 6 tracks have a name"
        opened.reload()
        opened.wait_for_selector(".track >> nth=5")
        assert opened.get_by_label("name of 01-first/00001").input_value() == "<b>leo</b>"
        assert not opened.locator("main b").count(), "a name is text, not HTML"
        box = opened.get_by_label("name of 01-first/00001")
        box.fill("")
        box.press("Tab")
        until(opened, "document.querySelector('#count').textContent.startsWith('0')")
    assert labels_of(folder) == {}


def test_names_are_saved_while_typing_and_a_failure_is_shown(tmp_path):
    folder = folder_of_tracks(tmp_path / "series", tracks=4)
    (folder / "01-first").rename(folder / "ep #1?")
    text = (folder / "tracks.csv").read_text()
    (folder / "tracks.csv").write_text(text.replace("01-first", "ep #1?"))
    (folder / "labels.csv").write_text("track,name\nnot on the page,amy\n")
    with page(allow="ERR_CONNECTION_REFUSED") as opened:
        with serving(serve(folder)) as port:
            opened.goto(f"http://127.0.0.1:{port}/")
            opened.wait_for_selector(".track >> nth=3")
            until(opened, "[...document.images].every(i => i.complete && i.naturalWidth)")
            box = opened.get_by_label("name of ep #1?/00001")
            box.press_sequentially("leo")  # the focus stays in the box
            opened.wait_for_selector("input.saved")
            until(opened, "document.querySelector('#count').textContent.startsWith('1 of 4')")
            assert labels_of(folder) == {"ep #1?/00001": "leo", "not on the page": "amy"}
        box.press_sequentially("nard")
        opened.wait_for_selector("input.unsaved")
        assert opened.locator("#count").text_content().startswith("Not saved")
        assert not opened.locator("input.saved").count()


def request(port, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


@pytest.mark.parametrize(
    "path",
    ["/../secret.jpg", "/01-first/crops/../../../secret.jpg", "/%2e%2e/secret.jpg",
     "/01-first/crops/..%2f..%2f..%2fsecret.jpg", "/labels.csv", "/tracks.csv", "//secret.jpg",
     "/01-first/crops/00000", "/01-first/crops/link.jpg", "/01-first/crops/a%00b.jpg"],
)  # fmt: skip
def test_only_the_crops_of_the_folder_are_served(readable, path):
    assert request(readable, "GET", path) == 404


def test_crops_are_served(readable):
    assert request(readable, "GET", "/01-first/crops/00000/000000.jpg") == 200


def test_only_the_page_can_name_tracks(served):
    folder, port = served
    body, own = json.dumps({"track": "01-first/00001", "name": "leo"}), {"X-Taskfree": "label"}
    assert request(port, "POST", "/label", body) == 400, "another site cannot send the header"
    assert request(port, "POST", "/label", "{", own) == 400
    assert request(port, "POST", "/label", "[]", own) == 400
    assert request(port, "POST", "/label", json.dumps({"track": "no", "name": "x"}), own) == 404
    assert request(port, "POST", "/label", "x" * 5000, own) == 400
    assert request(port, "POST", "/label", body, own | {"Host": "evil.example"}) == 400
    for length in ("-1", "abc", "1e3", ""):
        assert request(port, "POST", "/label", body, own | {"Content-Length": length}) == 400
    assert not (folder / "labels.csv").exists()
    assert request(port, "POST", "/label", body, own) == 200
    assert labels_of(folder) == {"01-first/00001": "leo"}


def test_the_page_is_only_on_this_machine(readable):
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    addresses = {
        socket.split(":")[0] for socket in listening if socket.endswith(f":{readable:04X}")
    }
    assert "0100007F" in addresses
    assert "00000000" not in addresses


def test_an_invalid_port_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["label", str(tmp_path), "--port", "99999"])
    assert "port must be an integer from 0 to 65535, got 99999" in capsys.readouterr().err


def test_any_name_can_be_read_again(tmp_path):
    Labels(tmp_path).set("a/1", 'one, "two"\nthree')
    assert Labels(tmp_path).names == {"a/1": 'one, "two"\nthree'}


def test_edits_of_the_file_by_others_are_preserved(tmp_path):
    labels = Labels(tmp_path)
    labels.set("a", "Zoë")
    with open(labels.file, "a", encoding="utf-8") as out:
        out.write("b,leo\n")
    labels.set("c", "raj")
    labels.set("a", "")
    assert labels_of(tmp_path) == {"b": "leo", "c": "raj"} == labels.names
    labels.update({"b": "amy", "d": "Zoë"})
    assert labels_of(tmp_path) == {"b": "amy", "c": "raj", "d": "Zoë"}
