"""The tables of tracks, and the contact sheet."""

import csv
import shutil

import pytest
from footage import folder_of_tracks

from taskfree.paper.tv import tables


def test_one_table_has_the_faces_of_all_videos_with_co_occurring_tracks(tracked, tmp_path):
    series = tmp_path / "series"
    for number in ("01", "02"):
        shutil.copytree(tracked / "01-part", series / f"{number}-part")
    tables.gather(series)
    with open(series / "faces.csv", newline="") as rows:
        faces = list(csv.DictReader(rows))
    assert list(faces[0]) == ["video", *tables.FIELDS, "shares a frame with"]
    for video in ("01-part", "02-part"):
        own = [row for row in faces if row["video"] == video]
        with open(series / video / "faces.csv", newline="") as rows:
            assert [{name: row[name] for name in tables.FIELDS} for row in own] == list(
                csv.DictReader(rows)
            )
        for row in own:
            others = {other["track"] for other in own if other["frame"] == row["frame"]}
            assert set(row["shares a frame with"].split()) == others - {row["track"]}
    assert any(row["shares a frame with"] for row in faces)


def write_faces(folder, *rows):
    folder.mkdir(parents=True)
    lines = ["frame,seconds,left,top,right,bottom,track", *rows]
    (folder / "faces.csv").write_text("\n".join(lines) + "\n")


def test_tracks_have_first_and_last_frames_and_the_tracks_that_share_one(tmp_path):
    write_faces(
        tmp_path / "e1",
        "3,0.12,0,0,9,9,0", "4,0.16,0,0,9,9,0", "4,0.16,20,0,29,9,2", "8,0.32,20,0,29,9,2",
        "9,0.36,0,0,9,9,1",
    )  # fmt: skip
    tables.gather(tmp_path)
    assert tables.read(tmp_path) == [
        tables.Track("e1", 0, 3, 4, 0.12, 2, (2,)),
        tables.Track("e1", 1, 9, 9, 0.36, 1, ()),
        tables.Track("e1", 2, 4, 8, 0.16, 2, (0,)),
    ]
    assert tables.read(tmp_path)[0].name == "e1/00000"


def test_the_contact_sheet_shows_at_most_eight_crops_per_track_and_escapes_names(tmp_path):
    write_faces(tmp_path / "a <b>", *(f"{frame},0,0,0,9,9,0" for frame in range(20)))
    crops = tmp_path / "a <b>" / "crops" / "00000"
    crops.mkdir(parents=True)
    for frame in range(20):
        (crops / f"{frame:06d}.jpg").write_bytes(b"")
    tables.gather(tmp_path)
    sheet = (tmp_path / "sheet.html").read_text()
    assert sheet.count("<tr>") == 1
    assert sheet.count("<img") == 8
    assert 'src="a%20%3Cb%3E/crops/00000/000000.jpg"' in sheet
    assert "a &lt;b&gt;/00000" in sheet
    assert "a <b>" not in sheet
    assert "20 faces, 0.0 s" in sheet


def test_a_folder_without_tracks_says_how_to_create_them(tmp_path):
    with pytest.raises(ValueError, match="holds no tracks; create them with taskfree tracks"):
        tables.read(tmp_path)


def test_labels_from_a_spreadsheet_are_read_and_other_columns_refused(tmp_path):
    folder_of_tracks(tmp_path, tracks=4)
    text = (tmp_path / "labels.csv").read_text().replace("amy", " amy ")
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8-sig")
    assert tables.read_labels(tmp_path) == {
        f"{video}/{track:05d}": ("amy", "leo")[track]
        for video in ("01-first", "02-second")
        for track in (0, 1)
    }
    (tmp_path / "labels.csv").write_text(text.replace(",", ";"))
    with pytest.raises(ValueError, match=r"labels\.csv must have the columns track and name"):
        tables.read_labels(tmp_path)


def test_without_labels_there_are_none(tmp_path):
    assert tables.read_labels(tmp_path) == {}
