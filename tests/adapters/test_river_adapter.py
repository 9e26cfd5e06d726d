import math

import pytest
import torch
from river import checks, compose, preprocessing

from taskfree.adapters.river import RiverClassifier, RiverRegressor

MODELS = (RiverClassifier(), RiverRegressor())


@pytest.mark.parametrize(
    ("model", "check"),
    [
        pytest.param(model, check, id=f"{type(model).__name__}-{number}-{check.__name__}")
        for model in MODELS
        for number, check in enumerate(checks.yield_checks(model))
    ],
)
def test_the_checks_of_river(model, check):
    check(model.clone())


def test_no_check_of_river_is_skipped():
    assert all(not model._unit_test_skips() for model in MODELS)


def inputs_of(model, x):
    """The inputs of the network for a sample."""
    return model._encoder.prepare(model._inputs(x, learn=False))


def test_late_features_get_inputs_of_their_own():
    model = RiverClassifier()
    for number in range(40):
        model.learn_one({f"f{number}": 1.0, "kind": f"k{number}"}, number % 2)
    assert model.network.learner.model[0].in_features >= 80
    one, other = (inputs_of(model, {"kind": kind}) for kind in ("k3", "k4"))
    assert (one != other).sum() == 2


def test_a_feature_that_was_never_learned_has_no_effect():
    model = RiverClassifier()
    model.learn_one({"a": 1.0}, "x")
    with_it = inputs_of(model, {"a": 2.0, "b": 1e6, "c": "x"})
    assert torch.equal(with_it, inputs_of(model, {"a": 2.0}))


def test_the_order_of_features_does_not_matter():
    one, other = RiverClassifier(), RiverClassifier()
    one.learn_one({"a": 1.0, "b": "x", 3: 2.0}, "y")
    other.learn_one({3: 2.0, "b": "x", "a": 1.0}, "y")
    assert str(one._encoder.state_dict()) == str(other._encoder.state_dict())


@pytest.mark.parametrize(
    "model", [RiverClassifier(), RiverRegressor()], ids=["classifier", "regressor"]
)
@pytest.mark.parametrize("x", [{"a": math.inf}, {"a": object()}, {"A new": 1.0, "a": -math.inf}])
def test_an_invalid_feature_raises_and_changes_nothing(model, x):
    for number in range(20):
        model.learn_one({"a": number % 2}, number % 2)
    state = model._encoder.state_dict
    before = model.network.learner.step, model.predict_one({"a": 1.0}), str(state())
    with pytest.raises(ValueError, match="feature 'a' must be a finite number or a string"):
        model.learn_one(x, 1)
    after = model.network.learner.step, model.predict_one({"a": 1.0}), str(state())
    assert after == before


@pytest.mark.parametrize("y", [None, math.nan])
@pytest.mark.parametrize("make", [RiverClassifier, RiverRegressor])
def test_a_missing_target_raises_and_changes_nothing(make, y):
    model = make()
    with pytest.raises(ValueError, match=r"missing|must be a label"):
        model.learn_one({"a": 1.0}, y)
    assert model._network is None
    assert not model._encoder.columns


def test_labels_keep_their_type():
    model = RiverClassifier()
    for number in range(60):
        label = number % 3 > 0 or number % 5 == 0
        model.learn_one({"a": 0.0 if label else 5.0}, label)
    assert model.predict_one({"a": 5.0}) is False
    assert set(model.predict_proba_one({"a": 0.0})) == {True, False}


def test_the_global_generator_is_not_touched():
    before = torch.random.get_rng_state()
    model = RiverClassifier(seed=3)
    model.learn_one({"a": 1.0}, "x")
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_network_of_the_user_in_a_pipeline():
    made = []

    def make(inputs, outputs):
        made.append((inputs, outputs))
        return torch.nn.Linear(inputs, outputs)

    model = compose.Pipeline(preprocessing.MinMaxScaler(), RiverClassifier(make))
    for number in range(60):
        model.learn_one({"a": number % 3}, f"class {number % 3}")
    assert made == [(1, 1)]
    assert model.predict_one({"a": 2}) == "class 2"


def test_missing_values_equal_absent_features():
    model = RiverClassifier()
    model.learn_one({"a": 1.0, "b": "x"}, "y")
    assert torch.equal(inputs_of(model, {"a": None, "b": ""}), inputs_of(model, {}))


@pytest.mark.parametrize("label", ["none", "NA", "?", "", 0, False, ("a", 1)])
def test_labels_may_be_anything(label):
    model = RiverClassifier()
    for _ in range(20):
        model.learn_one({"a": 0.0}, label)
        model.learn_one({"a": 5.0}, "another")
    assert model.predict_one({"a": 0.0}) == label


def test_a_network_that_cannot_grow_is_refused():
    for model, message in (
        (torch.nn.Linear(3, 2), "model must be a function that creates a network"),
        (lambda inputs, outputs: torch.nn.LayerNorm(inputs), "model has no linear layer"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            RiverClassifier(model).learn_one({"a": 1.0}, "x")
