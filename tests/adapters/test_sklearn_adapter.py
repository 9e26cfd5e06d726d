import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from taskfree.adapters.sklearn import SklearnClassifier, SklearnRegressor


@pytest.mark.filterwarnings("ignore")  # the checks cause warnings themselves
@parametrize_with_checks([SklearnClassifier(), SklearnRegressor()])
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


def test_classes_may_appear_late_and_need_not_be_listed(digits):
    X, y = digits
    model = SklearnClassifier()
    for digit in (7, 3):
        model.partial_fit(X[y == digit], y[y == digit])
    assert model.classes_.tolist() == [3, 7]
    model.partial_fit(X[y == 5], y[y == 5])
    assert model.classes_.tolist() == [3, 5, 7]
    assert set(model.predict(X)) <= {3, 5, 7}


def test_listed_classes_do_not_change_what_is_learned(digits):
    X, y = digits
    plain, listed = SklearnClassifier(), SklearnClassifier()
    for digit in (2, 1):
        plain.partial_fit(X[y == digit], y[y == digit])
        listed.partial_fit(X[y == digit], y[y == digit], classes=range(10))
    found = listed.predict_proba(X)
    assert found.shape == (len(X), 10)
    assert np.array_equal(found[:, 1:3], plain.predict_proba(X))
    assert not found[:, 3:].any()
    assert np.array_equal(plain.predict(X), listed.predict(X))


def test_fit_starts_over(digits):
    X, y = digits
    model = SklearnClassifier(passes=2).partial_fit(X[:100], y[:100] + 50)
    model.fit(X[:300], y[:300])
    assert model.classes_.max() == 9
    assert np.array_equal(
        model.predict(X), SklearnClassifier(passes=2).fit(X[:300], y[:300]).predict(X)
    )


def test_wrong_samples_raise_and_nothing_is_learned(digits):
    X, y = digits
    model = SklearnClassifier().partial_fit(X[:50], y[:50])
    before = model.predict_proba(X)
    for wrong in (X[:5, :3], np.full((5, 64), np.nan)):
        with pytest.raises(ValueError, match=r"features|NaN"):
            model.partial_fit(wrong, y[:5])
    assert np.array_equal(model.predict_proba(X), before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"lr": -1.0}, "lr"), ({"batch_size": 0}, "batch_size"), ({"passes": 0}, "passes"),
     ({"buffer_size": -1}, "buffer_size"), ({"strength": "a"}, "strength")],
)  # fmt: skip
def test_wrong_settings_are_named(arguments, message, digits):
    with pytest.raises((ValueError, TypeError), match=message):
        SklearnClassifier(**arguments).fit(*digits)


def test_grid_search_works(digits):
    X, y = digits
    found = GridSearchCV(SklearnClassifier(passes=1), {"lr": [1e-5, 0.01]}, cv=2).fit(
        X[:400], y[:400]
    )
    assert found.best_params_ == {"lr": 0.01}


def test_the_generator_of_torch_is_not_touched(digits):
    before = torch.random.get_rng_state()
    SklearnClassifier(passes=1).fit(*digits)
    assert torch.equal(torch.random.get_rng_state(), before)


def shifted(regime, rows, seed):
    """Two regimes whose inputs and targets are far apart."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(rows, 2))
    return np.column_stack([x + 20 * regime, np.full(rows, regime)]), x[:, 0] + 20 * regime


def test_replayed_samples_are_standardized_by_the_current_statistics():
    model = SklearnRegressor()
    (X, y), (X_later, y_later) = shifted(0, 1000, 0), shifted(1, 1000, 1)
    model.partial_fit(X, y).partial_fit(X_later, y_later)
    held = model.network_.learner.which
    old = held.inputs[:, 2] == 0
    assert old.any()
    assert held.inputs[old, 0].abs().max() < 6, "stored raw, not standardized"
    assert held.targets[old].abs().max() < 6
    tests, answers = shifted(0, 200, 2)
    plain = (
        SklearnRegressor(buffer_size=0, strength=0).partial_fit(X, y).partial_fit(X_later, y_later)
    )
    error, forgot = (np.abs(one.predict(tests) - answers).mean() for one in (model, plain))
    assert error < 2 < forgot
