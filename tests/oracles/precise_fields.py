"""Kernels of two signals over all pairs of positions in sixty digits: pools, branches, masks, graphs, attention.

An operation is a tuple whose first entry is a name of `STEPS`; ("phi", NAME, c) is φ + c of a φ of `precise_kernels`.
Of signals f and g three fields are carried, K and Θ of f with f, of g with g and of f with g, beside the means of both,
all as arrays of decimals. Positions that a mask leaves out are left out of the signals.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

from oracles.precise_kernels import DIGITS, dual_of, pi

SIDES = ((0, 0), (1, 1), (0, 1))  # of which signals each of the three fields is


def exact(numbers):
    """An array of decimals."""
    return np.array([[Decimal(float(c)) for c in row] for row in numbers], dtype=object)


@dataclass
class Field:
    """K and Θ of the pairs of positions."""

    k: np.ndarray
    theta: np.ndarray

    def mixed(self, left, right):
        """K' = A K A'ᵀ, Θ' = A Θ A'ᵀ."""
        return Field(*(left @ part @ right.T for part in (self.k, self.theta)))


def kernels(ops, f, g, graphs=None):
    """(NNGP, NTK) as floats of the one position that `ops` leave of the signals f and g; numbers count as exact."""
    with localcontext() as context:
        context.prec = DIGITS
        signals, graphs = [exact(f), exact(g)], graphs and [exact(of) for of in graphs]
        products = [signals[a] @ signals[b].T / len(signals[a][0]) for a, b in SIDES]
        means = [v.sum(axis=1) / len(v[0]) for v in signals]
        fields, _ = run(ops, [Field(k, 0 * k) for k in products], means, graphs)
        return float(fields[2].k[0, 0]), float(fields[2].theta[0, 0])


def run(ops, fields, means, graphs=None):
    """The three fields, and the means of both signals, behind operations."""
    for name, *rest in ops:
        fields, means = STEPS[name](fields, means, graphs, *rest)
    return fields, means


def _no(means):
    return [0 * m for m in means]


def _affine(fields, means, graphs, W, b):
    W, b = Decimal(float(W)) ** 2, Decimal(float(b)) ** 2
    return [Field(W * f.k + b, W * f.k + b + W * f.theta) for f in fields], _no(means)


def _phi(fields, means, graphs, name, constant=0.0):
    dual, c = dual_of(name), Decimal(float(constant))
    own = [np.diagonal(f.k) for f in fields[:2]]
    means = [np.array([MEANS[name](q) for q in each], dtype=object) for each in own]
    found = []
    for f, (one, other) in zip(fields, SIDES, strict=True):
        rows = zip(own[one], f.k, strict=True)
        both = np.array([[dual(p, *z) for z in zip(own[other], row, strict=True)] for p, row in rows], dtype=object)
        added = c * (means[one][:, None] + means[other] + c)
        found.append(Field(both[..., 0] + added, both[..., 1] * f.theta))
    return found, [m + c for m in means]


def _mixed(fields, means, matrices):
    found = [f.mixed(matrices[one], matrices[other]) for f, (one, other) in zip(fields, SIDES, strict=True)]
    return found, [A @ m for A, m in zip(matrices, means, strict=True)]


def _pool(fields, means, graphs, width):
    """Averages over blocks of `width` positions, or over all (None)."""

    def matrix(count):
        w = width or count
        return exact([[p // w == b for p in range(count)] for b in range(count // w)]) / w

    return _mixed(fields, means, [matrix(len(m)) for m in means])


def _windows(fields, means, graphs, width, zeros=False):
    """The mean of K over windows inside the signal, or with zeros beyond its ends (an odd `width`)."""

    def along(part):
        part = np.pad(part, width // 2, constant_values=Decimal(0)) if zeros else part
        n, m = (count - width + 1 for count in part.shape)
        return sum(part[u : u + n, u : u + m] for u in range(width)) / width

    less = 0 if zeros else width - 1
    return [Field(along(f.k), along(f.theta)) for f in fields], _no([m[: len(m) - less] for m in means])


def _around(fields, means, graphs, width):
    """Averages over `width` neighbours, an odd number, around the circle."""
    count, reach = len(means[0]), width // 2
    near = lambda p, r: min((p - r) % count, (r - p) % count) <= reach
    matrix = exact([[near(p, r) for r in range(count)] for p in range(count)]) / width
    return _mixed(fields, means, [matrix, matrix])


def _aggregate(fields, means, graphs):
    return _mixed(fields, means, graphs)


def _attend(fields, means, graphs, mechanism, scale, W, b):
    """K' = s² A K A'ᵀ + b², Θ' = s² A (Θ + 2K) A'ᵀ + b², A of c K of each signal with itself."""
    c, s, b = Decimal(float(scale)), Decimal(float(W)) ** 2, Decimal(float(b)) ** 2

    def of(row):
        if mechanism == "identity":
            return c * row
        each = np.array([(c * (k - max(row))).exp() for k in row], dtype=object)
        return each / each.sum()

    matrices = [np.array([of(row) for row in f.k], dtype=object) for f in fields[:2]]
    found, means = _mixed([Field(f.k, f.theta + 2 * f.k) for f in fields], means, matrices)
    return [Field(s * f.k + b, s * f.theta + b) for f in found], _no(means)


def _attend_root(fields, means, graphs, scale, W, b):
    """K' = s² c² K Σ K² + b², Θ' = s² c² (4 K Σ K² + Θ Σ K² + 2 K Σ KΘ) + b²."""
    s, b = (Decimal(float(W)) * Decimal(float(scale))) ** 2, Decimal(float(b)) ** 2
    found = []
    for f in fields:
        squares, products = (f.k * f.k).sum(), (f.k * f.theta).sum()
        theta = s * (4 * f.k * squares + f.theta * squares + 2 * f.k * products) + b
        found.append(Field(s * f.k * squares + b, theta))
    return found, _no(means)


def _branches(fields, means, graphs, *branches):
    """Sums of what branches make of independent weights; means of every two are multiplied."""
    each = [run(ops, fields, means, graphs) for ops in branches]
    found = []
    for n, (one, other) in enumerate(SIDES):
        k, theta = (sum(getattr(f[n], part) for f, _ in each) for part in ("k", "theta"))
        crossed = sum(
            np.outer(m[one], w[other]) for a, (_, m) in enumerate(each) for b, (_, w) in enumerate(each) if a != b
        )
        found.append(Field(k + crossed, theta))
    return found, [sum(m[side] for _, m in each) for side in range(2)]


def _side_by_side(fields, means, graphs, *branches):
    """Means of branches with as many channels each."""
    each = [run(ops, fields, means, graphs) for ops in branches]
    mean = lambda values: sum(values) / len(each)
    found = [Field(mean([f[n].k for f, _ in each]), mean([f[n].theta for f, _ in each])) for n in range(3)]
    return found, [mean([m[side] for _, m in each]) for side in range(2)]


def _normalise(fields, means, graphs, eps):
    """K/(σσ'), σ² the mean variance of all positions and eps, of fields without means."""
    inverse = [1 / (np.trace(f.k) / len(f.k) + Decimal(eps)).sqrt() for f in fields[:2]]
    factors = [inverse[one] * inverse[other] for one, other in SIDES]
    return [Field(c * f.k, c * f.theta) for c, f in zip(factors, fields, strict=True)], means


def _flatten(fields, means, graphs):
    same = lambda part: np.array([[np.trace(part) / len(part)]], dtype=object)
    return [Field(same(f.k), same(f.theta)) for f in fields], [m.sum(keepdims=True) / len(m) for m in means]


STEPS = {
    "affine": _affine, "phi": _phi, "pool": _pool, "windows": _windows, "aggregate": _aggregate, "attend": _attend,
    "attend by roots": _attend_root, "branches": _branches, "side by side": _side_by_side, "flatten": _flatten,
    "normalise": _normalise, "around": _around,
}  # fmt: skip

_ZERO = lambda q: Decimal(0)
MEANS = {
    "cube": _ZERO, "hermite": _ZERO, "erf": _ZERO, "sin": _ZERO, "normalised": _ZERO,
    "exp": lambda q: (q / 8).exp(), "square": lambda q: q / 2, "cos": lambda q: (-q / 2).exp(),
    "gaussian": lambda q: 1 / (1 + 2 * q).sqrt(), "gelu": lambda q: q / (2 * pi() * (1 + q)).sqrt(),
    0.0: lambda q: (q / (2 * pi())).sqrt(),
}  # fmt: skip
"""E[φ(u)] of u ~ N(0, q)."""
