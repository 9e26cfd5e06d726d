import pytest

from taskfree.tabular.progress import Progress
from taskfree.tabular.sources import START, open_source


def source(folder, rows, name="a.csv", first="1"):
    file = folder / name
    file.write_text("x\n" + f"{first}\n" * rows)
    return open_source(str(file))


def read(progress, rows):
    found = list(rows.rows(progress.position(rows)))
    if found:
        progress.reached(rows, found[-1].end)
    return len(found)


def test_each_source_continues_where_it_was_left(tmp_path):
    progress = Progress()
    assert progress.position(source(tmp_path, 5)) == START
    assert read(progress, source(tmp_path, 5)) == 5
    assert read(progress, source(tmp_path, 5)) == 0
    assert read(progress, source(tmp_path, 8)) == 3
    assert read(progress, source(tmp_path, 2, "other.csv")) == 2


@pytest.mark.parametrize(("rows", "first"), [(3, "1"), (8, "2")], ids=["shorter", "another"])
def test_a_replaced_file_is_refused(tmp_path, rows, first):
    progress = Progress()
    read(progress, source(tmp_path, 5))
    with pytest.raises(ValueError, match=r"a\.csv has changed since it was last read"):
        progress.position(source(tmp_path, rows, first=first))


def test_progress_continues_from_its_state(tmp_path):
    progress, other = Progress(), Progress()
    read(progress, source(tmp_path, 5))
    progress.rows, progress.skipped = 5, 2
    other.load_state_dict(progress.state_dict())
    assert (other.rows, other.skipped) == (5, 2)
    assert read(other, source(tmp_path, 6)) == 1
    assert read(progress, source(tmp_path, 6)) == 1, "the state is a copy"
