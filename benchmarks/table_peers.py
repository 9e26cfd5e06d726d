"""What people would use instead on a table: each predicts every row before it learns it.

Columns are read as a person would who knows them: numbers, times (as hour, weekday, month and days
since the first), names, and text. A missing number is the mean so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import pandas as pd
from table_streams import Stream

Row = dict[str, float | str]
WIDE = 2**10
"""Inputs of scikit-learn's models, for names by a hash."""


class Peer(Protocol):
    """Predicts one row, then learns it."""

    def predict(self, row: Row) -> Any:
        """The target, or None if it cannot tell yet."""

    def learn(self, row: Row, target: Any) -> None:
        """Take the target."""


def rows(stream: Stream) -> Iterator[tuple[Row, Any]]:
    """The rows as peers take them, each with its target."""
    table = stream.rows.drop(columns=stream.target)
    numbers, names = pd.DataFrame(index=table.index), pd.DataFrame(index=table.index)
    for name, column in table.items():
        times = _times(column)
        if times is not None:
            numbers[f"{name} days"] = (times - times.iloc[0]).dt.total_seconds() / 86400
            for part in ("hour", "weekday", "month"):
                names[f"{name} {part}"] = getattr(times.dt, part).astype(str)
        elif pd.api.types.is_numeric_dtype(column):
            known = column.astype(float)
            numbers[name] = known.fillna(known.expanding().mean()).fillna(0.0)
        else:
            names[name] = column.astype(str)
    names = names.astype(object).where(names.notna(), "missing")
    numbers = numbers.fillna(0.0)
    targets = stream.rows[stream.target].tolist()
    both = zip(numbers.to_dict("records"), names.to_dict("records"), targets, strict=True)
    for left, right, target in both:
        yield {**left, **right}, target


def _times(column: pd.Series[Any]) -> pd.Series[Any] | None:
    """A column of times; None if it is another one."""
    if pd.api.types.is_numeric_dtype(column):
        return None
    try:
        return pd.to_datetime(column, utc=True)
    except (ValueError, TypeError):
        return None


class Majority:
    """The class seen most, or the mean so far."""

    def __init__(self, classes: bool) -> None:
        self.classes, self.counts, self.total = classes, Counter[Any](), 0.0

    def predict(self, row: Row) -> Any:
        """The answer."""
        del row
        if self.classes:
            return self.counts.most_common(1)[0][0] if self.counts else None
        return self.total / max(1, self.counts[0])

    def learn(self, row: Row, target: Any) -> None:
        """Count it."""
        del row
        self.counts[target if self.classes else 0] += 1
        self.total += 0.0 if self.classes else target


class Last:
    """The target of the row before."""

    def __init__(self, classes: bool) -> None:
        self.last = None if classes else 0.0

    def predict(self, row: Row) -> Any:
        """The answer."""
        del row
        return self.last

    def learn(self, row: Row, target: Any) -> None:
        """Remember it."""
        del row
        self.last = target


class River:
    """A model of river."""

    def __init__(self, name: str, classes: bool, seed: int) -> None:
        from river import compose, forest, linear_model, preprocessing, tree

        hot = compose.SelectType(str) | preprocessing.OneHotEncoder()
        scaled = compose.SelectType(float) | preprocessing.StandardScaler()
        plain = compose.SelectType(float) + hot  # regression trees have linear models of numbers
        if name == "linear":
            last: Any = linear_model.SoftmaxRegression()
            if not classes:
                last = preprocessing.TargetStandardScaler(linear_model.LinearRegression())
            self.model: Any = (scaled + hot) | last
        elif name == "tree":
            regressor = tree.HoeffdingAdaptiveTreeRegressor
            self.model = (
                tree.HoeffdingAdaptiveTreeClassifier(seed=seed)
                if classes
                else plain | regressor(seed=seed)
            )
        else:
            self.model = (
                forest.ARFClassifier(seed=seed)
                if classes
                else plain | forest.ARFRegressor(seed=seed)
            )

    def predict(self, row: Row) -> Any:
        """The answer."""
        return self.model.predict_one(row)

    def learn(self, row: Row, target: Any) -> None:
        """Learn it."""
        self.model.learn_one(row, target)


class Scikit:
    """A model of scikit-learn, by `partial_fit`, on standardized numbers and hashed names."""

    def __init__(self, name: str, classes: list[Any], seed: int) -> None:
        from sklearn.linear_model import SGDClassifier, SGDRegressor
        from sklearn.neural_network import MLPClassifier, MLPRegressor
        from sklearn.preprocessing import StandardScaler

        kinds: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
            "SGD": (SGDClassifier, SGDRegressor), "MLP": (MLPClassifier, MLPRegressor),
        }  # fmt: skip
        self.model = kinds[name][0 if classes else 1](random_state=seed)
        self.classes, self.known = classes, False
        self.scaler, self.targets = StandardScaler(), StandardScaler()
        self.places: dict[str, int] = {}

    def _inputs(self, row: Row) -> Any:
        numbers = [value for value in row.values() if not isinstance(value, str)]
        hot = np.zeros(64 * (len(row) - len(numbers)))
        for at, (name, value) in enumerate((n, v) for n, v in row.items() if isinstance(v, str)):
            place = self.places.setdefault(f"{name}={value}", len(self.places) % 64)
            hot[64 * at + place] = 1
        scaled = np.array(numbers)
        if numbers and self.known:
            scaled = self.scaler.transform(scaled[None])[0]
        return np.concatenate([scaled, hot])[None]

    def predict(self, row: Row) -> Any:
        """The answer."""
        if not self.known:
            return None if self.classes else 0.0
        found = self.model.predict(self._inputs(row))[0]
        if self.classes:
            return found
        return float(self.targets.inverse_transform([[found]])[0, 0])

    def learn(self, row: Row, target: Any) -> None:
        """Learn it."""
        numbers = [value for value in row.values() if not isinstance(value, str)]
        if numbers:
            self.scaler.partial_fit([numbers])
        self.known = True
        inputs = self._inputs(row)
        if self.classes:
            self.model.partial_fit(inputs, [target], classes=self.classes)
        else:
            self.targets.partial_fit([[target]])
            self.model.partial_fit(inputs, self.targets.transform([[target]])[0])


class Vowpal:
    """Vowpal Wabbit, one against all for classes."""

    def __init__(self, classes: list[Any]) -> None:
        from vowpalwabbit import Workspace

        options = f"--oaa {len(classes)} --quiet" if classes else "--quiet"
        self.model, self.classes = Workspace(options), classes

    def _line(self, row: Row) -> str:
        parts = []
        for at, (_, value) in enumerate(row.items()):
            if isinstance(value, str):
                words = "".join(c if c.isalnum() else " " for c in value).split()
                parts += [f"c{at}={word}" for word in words]
            else:
                parts.append(f"c{at}:{value}")
        return "| " + " ".join(parts)

    def predict(self, row: Row) -> Any:
        """The answer."""
        found = self.model.predict(self._line(row))
        return self.classes[int(found) - 1] if self.classes else float(found)

    def learn(self, row: Row, target: Any) -> None:
        """Learn it."""
        label = self.classes.index(target) + 1 if self.classes else target
        self.model.learn(f"{label} {self._line(row)}")


PEERS = (
    "majority or mean", "same as last", "river: linear", "river: Hoeffding adaptive tree",
    "river: adaptive random forest", "scikit-learn: SGD", "scikit-learn: MLP", "Vowpal Wabbit",
)  # fmt: skip
SEEDED = PEERS[3:7]
"""Those that draw random numbers."""


def make(name: str, classes: list[Any], seed: int) -> Peer:
    """A peer by its name, for these classes; none for a number."""
    few: dict[str, Callable[[], Peer]] = {
        "majority or mean": lambda: Majority(bool(classes)),
        "same as last": lambda: Last(bool(classes)),
        "river: linear": lambda: River("linear", bool(classes), seed),
        "river: Hoeffding adaptive tree": lambda: River("tree", bool(classes), seed),
        "river: adaptive random forest": lambda: River("forest", bool(classes), seed),
        "scikit-learn: SGD": lambda: Scikit("SGD", classes, seed),
        "scikit-learn: MLP": lambda: Scikit("MLP", classes, seed),
        "Vowpal Wabbit": lambda: Vowpal(classes),
    }
    return few[name]()
