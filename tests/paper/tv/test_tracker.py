from taskfree.paper.tv.detect import Face
from taskfree.paper.tv.tracker import FaceTracker


def box(x, y, size=50, score=0.9):
    return Face(x, y, x + size, y + size, score)


def test_two_faces_that_pass_each_other_stay_in_their_tracks():
    tracker, tracks = FaceTracker(), {}
    for step in range(60):
        left, right = box(20 + 8 * step, 100), box(500 - 8 * step, 180)
        for face, track in tracker.update([left, right]):
            tracks.setdefault("left" if face == left else "right", set()).add(track)
    assert all(len(own) == 1 for own in tracks.values())
    assert tracks["left"] != tracks["right"]


def test_the_minimum_score_of_a_face_that_starts_a_track():
    default, lower = FaceTracker(), FaceTracker(score=0.3)
    tracked = {default: [], lower: []}
    for tracker, found in tracked.items():
        for _ in range(5):
            found += tracker.update([box(100, 50, score=0.4)])
    assert not tracked[default]
    assert tracked[lower]


def test_a_missed_face_stays_in_its_track_until_a_cut():
    tracker = FaceTracker()
    tracks = []
    for step in range(30):
        hidden = 10 <= step < 14
        if step == 25:
            tracker.cut()
        tracks += [track for _, track in tracker.update([] if hidden else [box(100 + step, 50)])]
    assert len(set(tracks[:-4])) == 1
    assert set(tracks[-4:]) == {1}, "a track starts with its second face"
