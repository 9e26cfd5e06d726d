"""`taskfree inspect` and `taskfree report`: what has been learned, as text and as a page."""

import pytest

from points import learn, write
from taskfree.cli import main


@pytest.fixture
def state(tmp_path, capsys):
    """The folder of a network that has learned."""
    learn(write(tmp_path / "a.csv", rows=4000), "--target", "label", "--state", tmp_path / "state")
    assert "balanced accuracy" in capsys.readouterr().err
    return tmp_path / "state"


def test_inspect_shows_what_was_learned(state, capsys):
    assert main(["inspect", str(state)]) == 0
    shown = capsys.readouterr().out
    for words in (
        "rows",
        "colour",
        "category",
        "high",
        "Hardest rows in the buffer",
        "consolidations",
    ):
        assert words in shown


def test_the_number_of_rows_and_events_shown_can_be_chosen(state, capsys):
    main(["inspect", str(state), "--hardest", "0", "--last", "0"])
    shown = capsys.readouterr().out
    assert "Hardest rows" not in shown
    assert "Last plateaus and peaks" not in shown


def test_report_writes_a_page_with_figures(state, capsys):
    assert main(["report", str(state)]) == 0
    assert "report.html" in capsys.readouterr().out.replace("\n", "")
    page = (state / "report.html").read_text()
    assert "history.png" in page
    assert "Learning label" in page
    assert (state / "history.png").stat().st_size > 0


@pytest.mark.parametrize("command", ["inspect", "report"])
def test_a_folder_without_a_state(tmp_path, capsys, command):
    assert main([command, str(tmp_path / "nothing")]) == 2
    assert "holds nothing that was learned" in capsys.readouterr().err
