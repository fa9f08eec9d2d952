"""Anything with `predict_proba` is an API: two random forests that know six digits teach a network about four others.

    pip install dfml scikit-learn
    python examples/forest.py

It shows the way, not a gain: forests of 64 raw pixels have little to teach, and an untrained network does as well here.
Look at both, always; the tutorial has APIs that teach more.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import dfml

OUT = "run-forest/"


def forest(name, digits):
    """A forest that tells these digits apart, as an API: arrays (n, 1, 8, 8) in [0, 1] -> probabilities (n, k)."""
    mine = np.isin(data.target, digits)
    model = RandomForestClassifier(50, random_state=0).fit(data.data[mine] / 16, data.target[mine])
    spec = dfml.ApiSpec(name=name, classes=tuple(map(str, digits)), image=(1, 8, 8))
    return dfml.FunctionApi(lambda x: model.predict_proba(x.reshape(len(x), -1)), spec)


data = load_digits()
apis = [forest("low", [0, 1, 2]), forest("high", [3, 4, 5])]
taught = dfml.learn(apis, f"{OUT}taught", budget=2000, settings=["net.size=16"], resume=True)
untrained = dfml.learn(apis, f"{OUT}untrained", method="random", settings=["net.size=16"], resume=True)

# Four digits that neither forest has seen, five pictures of each; then two hundred more.
new = np.isin(data.target, [6, 7, 8, 9])
images, labels = data.images[new][:, None].repeat(2, 2).repeat(2, 3).astype(np.float32) / 16, data.target[new]
shots = np.concatenate([np.flatnonzero(labels == digit)[:5] for digit in (6, 7, 8, 9)])
rest = np.setdiff1d(np.arange(len(labels)), shots)[:200]
for name, init in {"taught by two forests": taught, "untrained": untrained}.items():
    accuracy = init.adapt(images[shots], labels[shots]).score(images[rest], labels[rest])
    print(f"{name}: {100 * accuracy:.0f} % of {len(rest)} pictures (chance: 25 %)")
