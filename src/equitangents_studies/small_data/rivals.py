"""What kernels are compared with: a CNN of the form of Myrtle-5, trained, and a random forest; both see flips, too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from equitangents import actions
from equitangents.ensembles import DeepEnsemble
from equitangents_studies.common.images import Images
from equitangents_studies.framework.study import Arrays
from equitangents_studies.small_data.flips import flip
from equitangents_studies.small_data.networks import network
from equitangents_studies.small_data.settings import Settings

Draws = list[np.ndarray]  # rows of the pool, a set for each
Step = Callable[[float, float], None]

_VALIDATION = 500  # images of the pool that a draw leaves, at most, on which the learning rate is chosen


def train(settings: Settings, images: Images, rows: np.ndarray, rate: float, seed: int) -> DeepEnsemble:
    """One network on the squared loss of one-hot targets; every image is flipped or not, anew in each epoch."""
    net = network("Myrtle-5", "relu", settings.hidden_layers, settings.width, images.classes)
    epochs = settings.passes(len(rows))
    model = DeepEnsemble(
        net,
        members=1,
        augmentation=actions.image_dihedral(1),
        augmentation_mode="random",
        optimizer="adam",
        learning_rate=rate,
        epochs=epochs,
        batch_size=settings.batch,
        seed=seed,
    )
    return model.fit(images.train_x[rows], images.targets[rows])


def classified(model: DeepEnsemble, x: np.ndarray) -> np.ndarray:
    """Classes by the mean of the outputs for an image and for its flip; −1, no class, where these are not finite."""
    outputs = np.asarray(model.predict(x) + model.predict(flip(x)))
    return np.where(np.isfinite(outputs).all(axis=1), outputs.argmax(axis=1), -1)


def networks(settings: Settings, images: Images, draws: Draws, step: Step) -> Arrays:
    """`right` (draws, test images), and the learning `rate`: of those allowed, the best on images left in the pool.

    The first `tuned` draws choose it. A rate at which training diverges counts as always wrong.
    """
    total = settings.tuned * len(settings.rates) + len(draws)
    scores = np.zeros((len(settings.rates), settings.tuned))
    for i, rate in enumerate(settings.rates):
        for d in range(settings.tuned):
            left = np.setdiff1d(np.arange(len(images.train_x)), draws[d])
            left = np.random.default_rng((settings.seed, d)).permutation(left)[:_VALIDATION]
            model = train(settings, images, draws[d], rate, settings.seed + d)
            scores[i, d] = np.mean(classified(model, images.train_x[left]) == images.train_y[left])
            step(i * settings.tuned + d + 1, total)
    rate = settings.rates[int(scores.mean(axis=1).argmax())]
    right = []
    for d, rows in enumerate(draws):
        model = train(settings, images, rows, rate, settings.seed + d)
        right.append(classified(model, images.sets["test"]) == images.test_y)
        step(total - len(draws) + d + 1, total)
    return {"right": np.array(right), "rate": np.array(rate)}


def forests(settings: Settings, images: Images, draws: Draws, step: Step) -> Arrays:
    """`right` (draws, test images) of forests that see both copies of every image, in training and in test."""
    flat = lambda x: x.reshape(len(x), -1)
    test, right = images.sets["test"], []
    for d, rows in enumerate(draws):
        x, y = images.train_x[rows], images.train_y[rows]
        forest = RandomForestClassifier(settings.trees, random_state=settings.seed + d)
        forest.fit(flat(np.concatenate([x, flip(x)])), np.concatenate([y, y]))
        chances = forest.predict_proba(flat(test)) + forest.predict_proba(flat(flip(test)))
        right.append(forest.classes_[chances.argmax(axis=1)] == images.test_y)
        step(d + 1, len(draws))
    return {"right": np.array(right)}
