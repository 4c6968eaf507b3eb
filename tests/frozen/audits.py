"""Audits of tiny functions under groups: the verdict, mean errors by element, and floors."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import equitangents as et
from equitangents.errors import EquitangentsError

from .files import numbers

TOLERANCE = 1e-5  # of the largest number: one function is of float32. Errors at the floor are rounding: a code
_IMAGES = {
    "sum": lambda x: x.sum((1, 2, 3)),
    "row": lambda x: x[:, 0].sum((1, 2)),
    "squares": lambda x: np.stack([(x**2).sum((1, 2, 3)), np.abs(x).sum((1, 2, 3))], 1),
    "nearly": lambda x: 1 + x.sum((1, 2, 3)) ** 2 + 1e-4 * x[:, 0, 0, 0],
    "jax": lambda x: jnp.tanh(jnp.asarray(x)[:, :2].sum((1, 2, 3))),
}
_PLACES = {
    "itself": lambda x: x,
    "square": lambda x: x**2 + x.mean((1, 2, 3), keepdims=True),
    "shift": lambda x: np.roll(x, 1, 1),
}
_POINTS = {"norm": lambda p: (p**2).sum((1, 2)), "height": lambda p: p[:, :, 2].sum(1)}
_MOVED = {"mean": lambda p: p.mean(1), "leaning": lambda p: p.mean(1) * np.array([1.0, 1.0, 1.3])}
_SERIES = {
    "spectrum": lambda s: np.abs(np.fft.fft(s, axis=1)),
    "first": lambda s: s[:, 0] + 2 * s[:, 1],
    "odd": lambda s: np.sin(s).sum(1),
}
_CASES = [
    *(("images", f, group, None) for f in _IMAGES for group in ("C2", "C4", "D4", "translations", "sign", "D2")),
    *(("places", f, group, "images") for f in _PLACES for group in ("C4", "D4", "translations", "C2", "D2")),
    *(("points", f, group, None) for f in _POINTS for group in ("O3", "SO3", "S_n")),
    *(("moved", f, group, "vectors") for f in _MOVED for group in ("O3", "SO3")),
    *(("series", f, group, None) for f in _SERIES for group in ("sign", "translations")),
    *(("series", f, "sign", "values") for f in _SERIES),
]  # fmt: skip
_OF = {"images": _IMAGES, "places": _PLACES, "points": _POINTS, "moved": _MOVED, "series": _SERIES}
_SHAPES = {"images": (4, 4, 1), "places": (4, 4, 1), "points": (4, 3), "moved": (4, 3), "series": (5,)}


def names():
    return [f"{kind} {f} {group} {out}" for kind, f, group, out in _CASES]


def case(name):
    """Verdict, numbers of the error and of its first elements; the class of the refusal where there is one."""
    kind, f, group, out = _CASES[names().index(name)]
    x = np.random.default_rng([22, names().index(name)]).normal(size=(5, *_SHAPES[kind])) + 0.2
    inputs = {"inputs": "points"} if kind in ("points", "moved") else {}
    try:
        report = et.audit(_OF[kind][f], group, x, out, effort="quick", off_data=False, **inputs)
    except EquitangentsError as error:
        return {"refused": type(error).__name__}
    found = {"verdict": report.verdict, "elements": f"{len(report.elements)}"}
    means = [e.error.estimate.mean for e in report.elements][:5]
    spread = report.error
    values = [spread.estimate.mean, spread.median, spread.worst, *means]
    if max(values) < 1e-12:
        return found | {"errors": "at the floor"}
    interval = [spread.estimate.low, spread.estimate.high]
    return found | {"errors": numbers(values), "interval": numbers(interval) if np.isfinite(interval).all() else "none"}
