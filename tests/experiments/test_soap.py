import pytest

from taskfree.experiments import soap, soap_figures, soap_found


def runs(**curves):
    """Two seeds of every setting, flat at a half where nothing else is said."""
    return [
        {
            "setting": setting.name,
            "seed": seed,
            "curve": [
                {"accuracy": value + 0.02 * seed, "episodes": {1: value, 2: 2 * value}}
                for value in curves.get(setting.name.replace(" ", "_"), [0.5, 0.5, 0.5])
            ],
        }
        for setting in soap.SETTINGS
        for seed in (0, 1)
    ]


def test_the_aims_are_gaps_at_the_end_losses_and_unrest():
    found = soap_found.aims(
        runs(
            initial=[0.1],
            online=[0.1, 0.6, 0.4],
            online_continual=[0.1, 0.4, 0.6],
            **{"online_continual,_decay": [0.1, 0.5, 0.2, 0.6]},
        )
    )
    assert {name: pytest.approx(values) for name, values in found.items()} == {
        "online above initial": [0.3, 0.3],
        "online continual above online": [0.2, 0.2],
        "online continual above online joint": [0.1, 0.1],
        "online continual above offline joint": [0.1, 0.1],
        "online, lost since the middle of the series": [0.2, 0.2],
        "online continual, lost since the middle of the series": [-0.2, -0.2],
        "forgotten of each episode, online": [0.3, 0.3],
        "forgotten of each episode, online continual": [0, 0],
        "forgotten of each episode, online above online continual": [0.3, 0.3],
        "self-supervised, online above initial": [0.4, 0.4],
        "self-supervised, online continual above online": [0, 0],
        "hard buffer, online": [-0.1, -0.1],
        "hard buffer, online continual": [0.1, 0.1],
        "falls from part to part, with decay above those without": [0.3, 0.3],
    }


def test_an_aim_is_met_only_by_more_than_the_standard_error():
    def verdict(name, *values):
        return soap_found.aims_table({name: list(values)})[1][2:]

    assert verdict("hard buffer, online", 0.01, 0.03) == ["2.0", "1.0, 3.0", "met"]
    assert verdict("hard buffer, online", -0.05, 0.06)[-1] == "within the error"
    assert verdict("hard buffer, online", 0.0, 0.0)[-1] == "missed"
    assert verdict("hard buffer, online", -0.02, -0.03)[-1] == "missed"
    offline = "online continual above offline joint"
    assert verdict(offline, -0.07, -0.06)[-1] == "met"
    assert verdict(offline, -0.09, -0.1)[-1] == "missed"
    assert verdict(soap_found.TOLD[0], -0.09, -0.1)[-1] == "", "nobody asked for it"


def test_markers_are_as_large_as_an_actor_is_frequent_in_a_part():
    curve = [{"actors": {"amy": 0.1 * at, "leo": 0.5}} for at in range(5)]
    found = [
        {"setting": name, "seed": 0, "curve": curve} for name in ("online", "online continual")
    ]
    seen = [{"amy": 3}, {"leo": 1}, {"amy": 1, "leo": 1}, {}]
    figure = soap_figures.actors(found, seen, chunks=2)
    amy, leo = figure.axes
    assert amy.get_title() == "amy, 4 tracks"
    assert amy.collections[0].get_sizes().tolist() == [0, 18, 0, 6, 0]
    assert leo.collections[1].get_sizes().tolist() == [0, 0, 6, 6, 0]
    assert amy.collections[0].get_offsets()[:, 0].tolist() == [0, 0.5, 1, 1.5, 2]


def test_what_is_recognised_of_an_episode_is_the_mean_over_the_seeds():
    found = [
        {
            "setting": name,
            "seed": seed,
            "curve": [
                {"episode": at, "episodes": {"1": 0.1 * at, "3": 0.5 + 0.2 * seed}}
                for at in range(4)
            ],
        }
        for name in ("online", "online continual")
        for seed in (0, 1)
    ]
    first, second = soap_figures.episodes(found, tested="held-out faces").axes
    assert first.lines[0].get_ydata().tolist() == pytest.approx([0, 10, 20, 30])
    assert second.lines[1].get_ydata().tolist() == pytest.approx([60, 60, 60, 60])
    assert [axis.get_title() for axis in (first, second)] == ["episode 1", "episode 3"]
    assert [axis.patches[0].get_width() for axis in (first, second)] == [0, 2], "not watched yet"


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
    for table in ("faces.csv", "tracks.csv"):
        (tmp_path / table).write_text("what follows from the rest")
    assert places() == found[-1]
    assert len({place for both in found for place in both}) == 6


@pytest.mark.parametrize(
    ("option", "users"),
    [
        ({"strength": 7.0}, "continual"),
        ({"penalty": "gradient"}, "continual"),
        ({"nearest": 0.7}, "self-supervised"),
        ({"repeats_alone": 3}, "self-supervised"),
        ({"epochs": 3}, "offline"),
        ({"lr": 0.5}, ""),
        ({"mean": 0.5}, ""),
    ],
)
def test_an_option_repeats_only_the_runs_that_use_it(option, users):
    for setting in soap.SETTINGS:
        before, now = (
            soap._place(soap.Job(soap.Config(**given), setting, 0)) for given in ({}, option)
        )
        assert (before != now) == (users in setting.name), setting.name


@pytest.mark.parametrize(
    "option",
    [
        {"actors": 5},
        {"stretch": 3},
        {"tracks": 9},
        {"held_out": 3},
        {"episodes": 2},
        {"crop": False},
    ],
)
def test_an_option_that_makes_another_series_does_not_take_the_one_that_is_there(option):
    assert soap._kept(soap.Config(), 0) != soap._kept(soap.Config(**option), 0)


def test_accuracy_is_of_all_faces_of_each_actor_and_of_each_episode():
    gallery = soap.torch.tensor([[0.0], [10.0], [1.0], [2.0], [9.0], [4.0]])
    whole = soap.series.Series(
        gallery, [], {"amy": [0], "leo": [1]}, {"amy": [2, 4], "leo": [3, 5]}, [1, 1, 1, 1, 2, 2]
    )
    job = soap.Job(soap.Config(), soap.SETTINGS[0], 0)
    network = soap.torch.nn.Linear(1, 1)
    with soap.torch.no_grad():
        network.weight.fill_(1)
        network.bias.fill_(0)
    (point,) = soap.learned(job, whole, network)["curve"]
    assert point["accuracy"] == 0.25
    assert point["actors"] == {"amy": 0.5, "leo": 0.0}
    assert point["episodes"] == {1: 0.5, 2: 0.0}


def test_parts_are_all_of_it_and_even():
    found = [soap.Pair(1, (at,), ()) for at in range(10)]
    parts = soap._parts(found, 4)
    assert [len(part) for part in parts] == [2, 3, 2, 3]
    assert [pair for part in parts for pair in part] == found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"actors": 1}, "actors must be 0 or at least 2"),
        ({"held_out": 1}, "held_out must be 0 or at least 2"),
        ({"dropout": 1.0}, "dropout must be below 1"),
        ({"mean": 0.0}, "mean must be above 0"),
        ({"nearest": -1.0}, "nearest must be"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_done(options, said):
    with pytest.raises(ValueError, match=said):
        soap.Config(**options)


def test_joint_learning_has_the_same_time_steps_shuffled_across_episodes():
    tracks = [soap.series.Seen(1 + at // 20, f"actor {at % 7}", (at,)) for at in range(40)]
    whole = soap.series.Series(soap.torch.zeros(40, 1), tracks, {}, {}, [])
    config = soap.Config(epochs=2, chunks=3)

    def steps(name):
        setting = next(one for one in soap.SETTINGS if one.name == name)
        return list(soap._steps(soap.Job(config, setting, 0), whole))

    joint = steps("offline joint")
    assert [episode for episode, _ in joint] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    turns = [[pair for e, part in joint if (e > 2) == late for pair in part] for late in (0, 1)]
    seen = [pair for _, part in steps("online") for pair in part]
    assert sorted(turns[0]) == sorted(turns[1]) == sorted(seen)
    assert turns[0] != turns[1]
    half = [pair.episode for pair in turns[0][: len(seen) // 2]]
    assert half.count(1) > 4
    assert half.count(2) > 4


def test_every_setting_is_the_same_learner_with_parts_left_out():
    config = soap.Config(strength=7.0, buffer=9, repeats=2, repeats_alone=11)
    made = {
        setting.name: soap._learner(
            soap.Faces(soap.torch.nn.Linear(2, 2), soap.torch.zeros(4, 2)), config, setting
        )
        for setting in soap.SETTINGS
    }
    how = {name: own.how and (own.how.strength, own.how.accumulate) for name, own in made.items()}
    assert how == {
        name: None if "continual" not in name else (7.0, "decay" if "decay" in name else "mean")
        for name in made
    }
    without = ("online, no hard buffer", "online continual, no hard buffer", "offline joint")
    for name, learner in made.items():
        assert (learner.which is None) == (name in without)
        assert learner.which is None or learner.which.capacity == 9
        assert learner.repeats == (11 if "self-supervised" in name else 2)
        assert (learner.when.mean, learner.when.variance) == (0.3, 0.1)


@pytest.mark.parametrize("name", ["weights.pth", "weights.pt", "order.txt"])
def test_files_of_the_same_size_are_told_apart(tmp_path, name):
    marks = []
    for content in (b"one", b"two"):
        (tmp_path / name).write_bytes(content)
        soap._mark.cache_clear()
        marks.append(soap._mark(tmp_path / name))
    assert marks[0] != marks[1]


@pytest.mark.parametrize("end", soap.compose.PICTURES)
def test_a_picture_of_any_kind_that_comes_makes_another_series(tmp_path, end):
    before = soap._mark(tmp_path)
    (tmp_path / f"one{end}").write_text("a picture")
    soap._mark.cache_clear()
    assert soap._mark(tmp_path) != before
