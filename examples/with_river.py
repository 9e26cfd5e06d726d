"""river: digits, two classes at a time. A plain network forgets all but the last two."""

import random

from river import datasets, evaluate, metrics, stream
from sklearn.datasets import load_digits

from taskfree.adapters.river import RiverClassifier

digits = list(stream.iter_sklearn_dataset(load_digits()))
random.Random(0).shuffle(digits)
tests, samples = digits[:500], sorted(digits[500:], key=lambda sample: sample[1] // 2)

for name, model in {
    "plain": RiverClassifier(buffer_size=0, strength=0.0),
    "taskfree": RiverClassifier(),
}.items():
    for x, y in samples:
        model.learn_one(x, y)
    accuracy = metrics.Accuracy()
    model.in_order = False  # the tests are of any time
    for x, y in tests:
        accuracy.update(y, model.predict_one(x))
    print(f"{name}: {100 * accuracy.get():.0f} % of all digits")

found = evaluate.progressive_val_score(datasets.Phishing(), RiverClassifier(), metrics.Accuracy())
print(f"river's progressive evaluation on the Phishing dataset: {found}")
