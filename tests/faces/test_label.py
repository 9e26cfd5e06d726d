"""The page that names tracks, in a real browser."""

import csv
import http.client
import json
import threading
from pathlib import Path

import pytest

from browser import page, until
from faces.test_series import folder_of_tracks
from taskfree.cli import main
from taskfree.faces.label import Labels, serve


@pytest.fixture
def served(tmp_path):
    folder = folder_of_tracks(tmp_path / "series", tracks=6)
    (folder / "labels.csv").unlink()
    (tmp_path / "secret.jpg").write_text("secret")
    server = serve(folder)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield folder, server.server_address[1]
    server.shutdown()
    server.server_close()


def named(folder):
    with open(folder / "labels.csv", newline="") as rows:
        return {row["track"]: row["name"] for row in csv.DictReader(rows)}


def test_a_person_names_tracks_and_finds_the_names_again(served):
    folder, port = served
    with page() as opened:
        opened.goto(f"http://127.0.0.1:{port}/")
        opened.wait_for_selector(".track >> nth=5")
        assert opened.locator(".track img").count() == 6 * 3
        until(opened, "[...document.images].every(i => i.complete && i.naturalWidth)")
        box = opened.get_by_label("name of 01-first/00001")
        box.fill("<b>leo</b>")
        box.press("Tab")
        opened.wait_for_selector("input.kept")
        assert named(folder) == {"01-first/00001": "<b>leo</b>"}
        assert opened.locator("#count").text_content() == "1 of 6 tracks have a name"
        opened.reload()
        opened.wait_for_selector(".track >> nth=5")
        assert opened.get_by_label("name of 01-first/00001").input_value() == "<b>leo</b>"
        assert not opened.locator("main b").count(), "a name is text, not a part of the page"
        box = opened.get_by_label("name of 01-first/00001")
        box.fill("")
        box.press("Tab")
        until(opened, "document.querySelector('#count').textContent.startsWith('0')")
    assert named(folder) == {}


def test_a_name_is_kept_while_it_is_typed_and_a_lost_one_is_said_to_be(tmp_path):
    folder = folder_of_tracks(tmp_path / "series", tracks=4)
    (folder / "01-first").rename(folder / "ep #1?")
    text = (folder / "tracks.csv").read_text()
    (folder / "tracks.csv").write_text(text.replace("01-first", "ep #1?"))
    (folder / "labels.csv").write_text("track,name\nnot on the page,amy\n")
    server = serve(folder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with page(allow="ERR_CONNECTION_REFUSED") as opened:
        opened.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        opened.wait_for_selector(".track >> nth=3")
        until(opened, "[...document.images].every(i => i.complete && i.naturalWidth)")
        box = opened.get_by_label("name of ep #1?/00001")
        box.press_sequentially("leo")  # nobody leaves the box
        opened.wait_for_selector("input.kept")
        assert named(folder) == {"ep #1?/00001": "leo", "not on the page": "amy"}
        assert opened.locator("#count").text_content() == "1 of 4 tracks have a name"
        server.shutdown()
        server.server_close()
        box.press_sequentially("nard")
        opened.wait_for_selector("input.lost")
        assert opened.locator("#count").text_content().startswith("Not kept")
        assert not opened.locator("input.kept").count()


def ask(port, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
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
def test_nothing_but_the_folder_s_crops_is_given_out(served, path):
    folder, port = served
    link = folder / "01-first" / "crops" / "link.jpg"
    link.symlink_to(folder.parent / "secret.jpg")
    assert ask(port, "GET", path) == 404


def test_only_the_page_can_name_tracks(served):
    folder, port = served
    said, own = json.dumps({"track": "01-first/00001", "name": "leo"}), {"X-Taskfree": "label"}
    assert ask(port, "POST", "/label", said) == 400, "another site's page cannot send the header"
    assert ask(port, "POST", "/label", "{", own) == 400
    assert ask(port, "POST", "/label", "[]", own) == 400
    assert ask(port, "POST", "/label", json.dumps({"track": "no", "name": "x"}), own) == 404
    assert ask(port, "POST", "/label", "x" * 5000, own) == 400
    assert ask(port, "POST", "/label", said, own | {"Host": "evil.example"}) == 400
    for length in ("-1", "abc", "1e3", ""):
        assert ask(port, "POST", "/label", said, own | {"Content-Length": length}) == 400
    assert not (folder / "labels.csv").exists()
    assert ask(port, "POST", "/label", said, own) == 200
    assert named(folder) == {"01-first/00001": "leo"}


def test_the_page_is_for_this_machine_alone(served):
    _, port = served
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    addresses = {place.split(":")[0] for place in listening if place.endswith(f":{port:04X}")}
    assert "0100007F" in addresses
    assert "00000000" not in addresses


def test_a_port_that_is_none_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["label", str(tmp_path), "--port", "99999"])
    assert "port must be a whole number from 0 to 65535, got 99999" in capsys.readouterr().err


def test_names_survive_whoever_reads_them_next(tmp_path):
    Labels(tmp_path).set("a/1", 'one, "two"\nthree')
    assert Labels(tmp_path).names == {"a/1": 'one, "two"\nthree'}


def test_names_that_are_corrected_in_the_file_meanwhile_stay(tmp_path):
    labels = Labels(tmp_path)
    labels.set("a", "Zoë")
    with open(labels.file, "a", encoding="utf-8") as out:
        out.write("b,leo\n")
    labels.set("c", "raj")
    labels.set("a", "")
    assert named(tmp_path) == {"b": "leo", "c": "raj"} == labels.names
    labels.update({"b": "amy", "d": "Zoë"})
    assert named(tmp_path) == {"b": "amy", "c": "raj", "d": "Zoë"}
