"""Ensembles on tiny data: infinitely wide ones with every option, and a few trained ones of two or three members."""

from __future__ import annotations

import numpy as np

import equitangents as et
from equitangents.errors import EquitangentsError

from .files import numbers

COUNT = 200
TOLERANCE = 1e-6  # of the largest number: solving loses what the condition of Θ + ridge, up to 1e8 here, takes of 1e-15
N = et.nn


def names():
    return [str(i) for i in range(COUNT)]


def case(name):
    """What the ensemble of that number says of tiny data; the class of its refusal of each question that it refuses."""
    index = int(name)
    rng = np.random.default_rng([21, index])
    kind = ("regressor", "regressor", "vectors", "classifier", "field", "regressor", "vectors", "moved")[index % 8]
    if index % 20 == 19:
        return _trained(rng, "classifier" if index % 40 == 39 else "regressor")
    x, new, y, augmentation, label_action, net = _task(rng, kind)
    options = {
        "kernel": str(rng.choice(["nngp", "ntk"])),
        "ridge": float(rng.choice([1e-3, 1e-2, 0.1, 1.0])),
        "time": float(rng.choice([np.inf, np.inf, np.inf, 0.5, 20.0])),
        "learning_rate": float(rng.choice([1.0, 0.3])),
        "solver": str(rng.choice(["auto", "auto", "auto", "cholesky", "pcg", "nystrom"])),
        "standardise": bool(rng.random() < 0.15) and kind in ("regressor", "classifier"),
    }
    makes = et.InfiniteEnsemble
    if kind == "classifier":
        makes, options["calibrate"] = et.InfiniteEnsembleClassifier, bool(rng.integers(2))
    if rng.random() < 0.2:
        options["time"], options["ridge"] = float(rng.choice([0.3, 3.0])), 0.0
    found = {"task": kind + "".join(f" {key}={value}" for key, value in options.items())}
    ensemble = makes(net, augmentation=augmentation, label_action=label_action, **options)
    try:
        ensemble.fit(x, y)
    except EquitangentsError as error:
        return found | {"fit": type(error).__name__}
    questions = {
        "spread": lambda: ensemble.predict(new, return_std=True),
        "half": lambda: ensemble.predict(new, time=0.5),
    }
    if kind == "classifier":
        questions = {"probabilities": lambda: ensemble.predict_proba(new)}
        if options["calibrate"]:
            questions["temperature"] = lambda: ensemble.temperature_
    elif index % 3 == 0:
        questions["covariance"] = lambda: ensemble.predict(new, return_cov=True)[1]
    questions["evidence"] = lambda: ensemble.log_marginal_likelihood_
    if not options["standardise"] and kind != "classifier":
        questions["left out"] = lambda: ensemble.leave_one_out_.predictions
    if kind == "regressor" and index % 4 == 1:
        questions["slope"] = lambda: ensemble.log_marginal_likelihood_slope_
    return found | {key: _answer(question) for key, question in questions.items()}


def _answer(question):
    """The first eight numbers of an answer, or the class of the refusal."""
    try:
        answer = question()
    except EquitangentsError as error:
        return type(error).__name__
    parts = answer if isinstance(answer, tuple) else (answer,)
    return numbers(np.concatenate([np.ravel(np.asarray(part, dtype=np.float64))[:6] for part in parts]))


def _task(rng, kind):
    """Training and test inputs, targets, an augmentation, what it does to targets, and a network."""
    count, side = int(rng.integers(5, 9)), 3
    phi = [N.Erf(), N.Relu(), N.Gelu(), N.Sin()][rng.integers(4)]
    std = {"W_std": float(rng.uniform(0.8, 1.5)), "b_std": float(rng.uniform(0.1, 0.6))}
    if kind == "vectors":
        x, new = rng.normal(size=(count, 3)), rng.normal(size=(2, 3))
        group = et.groups.cyclic(2)
        action = et.actions.linear(group, [np.eye(3), -np.eye(3)])
        net = N.Sequential(N.Dense(4, **std), phi, N.Dense(1, **std))
        return x, new, np.sin(x[:, :2]), [None, action][rng.integers(2)], None, net
    x, new = rng.normal(size=(count, side, side, 1)), rng.normal(size=(2, side, side, 1))
    turns = et.actions.image_rotations(4)
    if kind == "moved":  # the label changes its sign with each quarter turn
        signs = et.actions.linear(et.groups.cyclic(4), [np.eye(1) * (-1) ** g for g in range(4)])
        net = N.Sequential(N.Conv(3, (3, 3), **std), phi, N.Flatten(), N.Dense(1, **std))
        return x, new, x[:, :1, 0, 0], turns, signs, net
    if kind == "field":
        net = N.Sequential(N.Conv(3, (3, 3), **std), phi, N.Conv(1, (3, 3), **std))
        return x[:4], new[:1], np.tanh(x[:4]), None, None, net
    last = [[N.Flatten()], [N.GlobalAvgPool()]][rng.integers(2)]
    net = N.Sequential(
        N.Conv(3, (3, 3), padding=str(rng.choice(["circular", "zero"])), **std), phi, *last, N.Dense(1, **std)
    )
    y = (np.arange(count) % 3 if kind == "classifier" else np.sin(3 * x.sum((1, 2)))) if count % 2 else x[:, 0, 0, 0]
    if kind == "classifier":
        y = np.arange(count) % int(rng.integers(2, 4))
    return x, new, y, [None, turns, turns][rng.integers(3)], None, net


def _trained(rng, kind):
    """Trained ensembles, in float64, for a few steps only, after which rounding has not grown."""
    net = N.Sequential(
        N.Conv(2, (2, 2), b_std=0.1), N.Erf(), N.GlobalAvgPool(), N.Dense(2 if kind == "classifier" else 1)
    )
    x, new = rng.normal(size=(6, 3, 3, 1)), rng.normal(size=(2, 3, 3, 1))
    options = {
        "members": int(rng.integers(2, 4)), "epochs": int(rng.integers(1, 4)), "learning_rate": 0.1,
        "optimizer": str(rng.choice(["sgd", "adam"])), "seed": int(rng.integers(100)), "dtype": "float64",
    }  # fmt: skip
    makes = et.DeepEnsembleClassifier if kind == "classifier" else et.DeepEnsemble
    augmentation = [None, et.actions.image_rotations(4)][rng.integers(2)]
    ensemble = makes(net, augmentation=augmentation, **options)
    found = {"task": f"trained {kind}" + "".join(f" {key}={value}" for key, value in options.items())}
    y = np.arange(6) % 2 if kind == "classifier" else x.sum((1, 2, 3))
    ensemble.fit(x, y)
    question = ensemble.predict_proba if kind == "classifier" else ensemble.predict
    return found | {"says": _answer(lambda: question(new)), "members": _answer(lambda: ensemble.predict_members(new))}
