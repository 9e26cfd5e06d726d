"""The HTML report: one file that needs nothing else."""

import base64
import json
import re
from html import unescape

import pytest

from taskfree.observe.html import write_html


def write(folder, **changes):
    (folder / "loss.png").write_bytes(b"\x89PNG")
    content = {
        "title": "A <run>",
        "introduction": "Fast & simple.",
        "tables": {"Accuracy": [["method", "mean"], ["<b>online</b>", "0.5"]]},
        "figures": {"loss": (folder / "loss.png", "The loss <over> time")},
        "details": {"seed": 3, "command": "a < b"},
    } | changes
    write_html(folder / "report.html", **content)
    return (folder / "report.html").read_text()


def test_the_report_holds_its_tables_figures_and_settings(tmp_path):
    page = write(tmp_path)
    assert "<td>0.5</td>" in page
    assert base64.b64encode(b"\x89PNG").decode() in page
    settings = re.search(r"<pre>(.*?)</pre>", page, re.DOTALL)[1]
    assert json.loads(unescape(settings)) == {"seed": 3, "command": "a < b"}


def test_text_is_escaped(tmp_path):
    page = write(tmp_path)
    for text in (
        "A &lt;run&gt;",
        "Fast &amp; simple.",
        "&lt;b&gt;online&lt;/b&gt;",
        "&lt;over&gt;",
    ):
        assert text in page
    assert "<b>" not in page


def test_the_report_loads_nothing_else(tmp_path):
    page = write(tmp_path)
    sources = re.findall(r"(?:src|href)=['\"]([^'\"]*)", page)
    assert sources
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert "<script" not in page


def test_a_report_that_fails_leaves_the_old_one(tmp_path):
    before = write(tmp_path)
    with pytest.raises(FileNotFoundError):
        write(tmp_path, figures={"loss": (tmp_path / "none.png", "")})
    assert (tmp_path / "report.html").read_text() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["loss.png", "report.html"]
