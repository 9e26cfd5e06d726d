"""scikit-learn: digits, two classes at a time, by `partial_fit`."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from taskfree.adapters.sklearn import SklearnClassifier

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=500, random_state=0)

for name, model in {
    "plain": SklearnClassifier(buffer_size=0, strength=0.0),
    "scikit-learn's MLPClassifier": MLPClassifier(
        (100, 100), learning_rate_init=0.01, random_state=0
    ),
    "taskfree": SklearnClassifier(),
}.items():
    for pair in range(5):
        chosen = y // 2 == pair
        model.partial_fit(X[chosen], y[chosen], classes=np.arange(10))
    print(f"{name}: {100 * model.score(X_test, y_test):.0f} % of all digits")
