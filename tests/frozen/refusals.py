"""Bad input: the class of the error, and the argument that its message begins with."""

from __future__ import annotations

import re

import numpy as np

import equitangents as et

TOLERANCE = 0.0
N = et.nn
_X = np.random.default_rng(23).normal(size=(4, 3, 3, 1))
_Y = np.arange(4.0)
_NET = N.Sequential(N.Conv(2, (2, 2)), N.Relu(), N.Flatten(), N.Dense(1))
_NAN, _INF = np.where(_X > 1, np.nan, _X), np.where(_X > 0, np.inf, _X)
_ODD = (-1, 0, float("nan"), float("inf"), "3", None, 1.5, [], True)


def _layers():
    given = {
        "Dense": ({"channels": 2}, ("channels", "W_std", "b_std", "parametrisation")),
        "Conv": ({"channels": 2, "window": 3}, ("channels", "window", "stride", "padding")),
        "LocallyConnected": ({"channels": 2, "window": 3}, ("window", "padding")),
        "AvgPool": ({"window": 2}, ("window",)),
        "Dropout": ({"rate": 0.5}, ("rate",)),
        "LayerNorm": ({}, ("eps",)),
        "Hermite": ({"degree": 1}, ("degree",)),
        "Attention": ({"channels": 2}, ("heads", "mechanism")),
    }  # fmt: skip
    for layer, (good, arguments) in given.items():
        for argument in arguments:
            for value in _ODD:
                bad = {**good, argument: value}
                yield f"{layer} {argument} {value!r}", lambda layer=layer, bad=bad: getattr(N, layer)(**bad)


def _ensembles():
    for argument in ("time", "learning_rate", "ridge", "kernel", "solver"):
        for value in _ODD:
            yield (
                f"InfiniteEnsemble {argument} {value!r}",
                lambda argument=argument, value=value: et.InfiniteEnsemble(_NET, **{argument: value}).fit(_X, _Y),
            )
    for argument in ("members", "epochs", "learning_rate", "optimizer", "dtype"):
        for value in (-1, 0, float("nan"), "3", None):
            yield (
                f"DeepEnsemble {argument} {value!r}",
                lambda argument=argument, value=value: et.DeepEnsemble(
                    _NET, **{"members": 2, "epochs": 1, argument: value}
                ).fit(_X, _Y),
            )


def _arrays():
    f = lambda x: x.sum((1, 2, 3))
    bad = {
        "nan": _NAN, "inf": _INF, "flat": _X[:, 0, 0, 0], "rank 3": _X[..., 0], "none": None, "text": "x",
        "empty": _X[:0], "oblong": _X[:, :2], "complex": _X + 1j,
    }  # fmt: skip
    for name, x in bad.items():
        yield f"kernel {name}", lambda x=x: _NET.kernel(x)
        yield f"kernel second {name}", lambda x=x: _NET.kernel(_X, x)
        yield (
            f"fit {name}",
            lambda x=x: et.InfiniteEnsemble(_NET, augmentation=et.actions.image_rotations(4)).fit(x, _Y),
        )
        yield f"targets {name}", lambda x=x: et.InfiniteEnsemble(_NET).fit(_X, x)
        yield f"predict {name}", lambda x=x: et.InfiniteEnsemble(_NET, ridge=0.1).fit(_X, _Y).predict(x)
        yield f"audit {name}", lambda x=x: et.audit(f, "C4", x, effort="quick")
    yield "order GroupConv first", lambda: N.Sequential(N.GroupConv(2), N.Dense(1)).kernel(_X)
    yield "order GroupPool first", lambda: N.Sequential(N.GroupPool(), N.Dense(1)).kernel(_X)
    yield "engine unknown", lambda: _NET.kernel(_X, engine="none such")
    yield "unfitted", lambda: et.InfiniteEnsemble(_NET).predict(_X)
    yield "lengths", lambda: et.InfiniteEnsemble(_NET).fit(_X, _Y[:2])
    yield "group", lambda: et.audit(f, "C0", _X)
    yield "no action", lambda: et.actions.linear(et.groups.cyclic(2), [np.eye(2), 2 * np.eye(2)]).orbit(np.ones((1, 2)))
    yield "table", lambda: et.actions.permutations(et.groups.cyclic(2), [[0, 1], [0, 0]])
    for order in (0, -1, 1.5, "4", None):
        yield f"cyclic {order!r}", lambda order=order: et.groups.cyclic(order)
        yield f"image_rotations {order!r}", lambda order=order: et.actions.image_rotations(order)


def _cases():
    return {name: call for made in (_layers, _ensembles, _arrays) for name, call in made()}


def names():
    return list(_cases())


def case(name):
    """The error's class, whose message names an argument first perhaps; "accepted" where there is none."""
    try:
        _cases()[name]()
    except Exception as error:
        first = re.match(r"[A-Za-z_][A-Za-z_0-9]*(?= )", str(error))
        found = {"error": type(error).__name__}
        return found | ({"argument": first.group()} if first and first.group() in _ARGUMENTS else {})
    return {"error": "accepted"}


_ARGUMENTS = {
    "channels", "window", "stride", "padding", "W_std", "b_std", "parametrisation", "rate", "eps", "degree", "heads",
    "mechanism", "time", "learning_rate", "ridge", "kernel", "solver", "members", "epochs", "optimizer", "dtype", "x",
    "x1", "x2", "X", "y", "engine", "group", "action", "table", "matrices", "n", "order", "augmentation",
}  # fmt: skip
