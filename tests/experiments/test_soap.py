import pytest

from taskfree.experiments import soap


def runs(**curves):
    """Two seeds of every setting, flat at a half where nothing else is said."""
    return [
        {
            "setting": setting.name,
            "seed": seed,
            "curve": [
                {"accuracy": value + 0.02 * seed}
                for value in curves.get(setting.name.replace(" ", "_"), [0.5, 0.5, 0.5])
            ],
        }
        for setting in soap.SETTINGS
        for seed in (0, 1)
    ]


def test_the_aims_are_gaps_at_the_end_losses_since_the_best_and_unrest():
    found = soap.aims(
        runs(
            initial=[0.1],
            online=[0.1, 0.6, 0.4],
            online_continual=[0.1, 0.4, 0.6],
            **{"online_continual,_decay": [0.1, 0.5, 0.2, 0.6]},
        )
    )
    assert found == {
        "online above initial": pytest.approx(0.3),
        "online continual above online": pytest.approx(0.2),
        "online continual above online joint": pytest.approx(0.1),
        "online continual above offline joint": pytest.approx(0.1),
        "online, lost since its best episode": pytest.approx(0.2),
        "online continual, lost since its best episode": 0,
        "self-supervised, online above initial": pytest.approx(0.4),
        "self-supervised, online continual above online": 0,
        "hard buffer, online": pytest.approx(-0.1),
        "hard buffer, online continual": pytest.approx(0.1),
        "unrest, cumulative mean": 0,
        "unrest, decay": pytest.approx(0.3),
    }


def test_who_corrects_a_name_or_adds_a_picture_has_another_series(tmp_path):
    (tmp_path / "e1" / "crops" / "00000").mkdir(parents=True)
    labels = tmp_path / "labels.csv"
    labels.write_text("track,name\ne1/00000,amy\n")
    job = soap.Job(soap.Config(series=tmp_path), soap.SETTINGS[1], 0)

    def places():
        soap._mark.cache_clear()
        return soap._place(job), soap._kept(job.config, 0)

    found = [places()]
    assert places() == found[0]
    labels.write_text("track,name\ne1/00000,bob\n")
    found.append(places())
    (tmp_path / "e1" / "crops" / "00000" / "000001.jpg").write_text("a picture")
    found.append(places())
    (tmp_path / "sheet.html").write_text("a page to look at")
    assert places() == found[-1]
    assert len({place for both in found for place in both}) == 6


def test_parts_are_all_of_it_and_even():
    found = [soap.Pair(1, (at,), ()) for at in range(10)]
    parts = soap._parts(found, 4)
    assert [len(part) for part in parts] == [2, 3, 2, 3]
    assert [pair for part in parts for pair in part] == found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"held_out": 1}, "held_out must be 0 or at least 2"),
        ({"dropout": 1.0}, "dropout must be below 1"),
        ({"mean": 0.0}, "mean must be above 0"),
        ({"nearest": -1.0}, "nearest must be"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_done(options, said):
    with pytest.raises(ValueError, match=said):
        soap.Config(**options)


def test_joint_learning_shuffles_tracks_across_episodes():
    tracks = [soap.series.Seen(1 + at // 20, f"actor {at % 7}", (at,)) for at in range(40)]
    whole = soap.series.Series(soap.torch.zeros(40, 1), tracks, {}, {})
    joint = next(one for one in soap.SETTINGS if one.name == "offline joint")
    job = soap.Job(soap.Config(epochs=2, chunks=3), joint, 0)
    steps = list(soap._steps(job, whole))
    assert [episode for episode, _ in steps] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    found = [pair for _, part in steps for pair in part]
    assert any((a // 20) != (b // 20) for _, (a,), (b,) in found)
    assert all(a % 7 != b % 7 for _, (a,), (b,) in found)
    turns = [[pair for e, part in steps if (e > 2) == later for pair in part] for later in (0, 1)]
    assert turns[0] != turns[1]
