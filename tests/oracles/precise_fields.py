"""Kernels of two signals over all pairs of positions in sixty digits: pools, branches, masks, graphs, attention.

An operation is a tuple whose first entry is a name of `STEPS`; ("phi", NAME, c) is φ + c of a φ of `precise_kernels`.
Of signals f and g three fields are carried, K and Θ of f with f, of g with g and of f with g, beside the means of both.
A signal is a list of positions of channels; positions that a mask leaves out are left out of the list.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import partial

from oracles.precise_kernels import DIGITS, dual_of, pi


def kernels(ops, f, g, graphs=None):
    """(NNGP, NTK) as floats of the one position that `ops` leave of the signals f and g; numbers count as exact."""
    with localcontext() as context:
        context.prec = DIGITS
        f, g = ([[Decimal(float(c)) for c in p] for p in v] for v in (f, g))
        graphs = graphs and [[[Decimal(float(a)) for a in row] for row in of] for of in graphs]
        ways = [((f, f), (0, 0)), ((g, g), (1, 1)), ((f, g), (0, 1))]
        fields = [Field.of(*pair) for pair, _ in ways]
        means = [[sum(p) / len(p) for p in v] for v in (f, g)]
        fields, _ = run(ops, fields, means, graphs)
        return float(fields[2].k[0][0]), float(fields[2].theta[0][0])


@dataclass
class Field:
    """K and Θ of the pairs of positions, in rows."""

    k: list
    theta: list

    @classmethod
    def of(cls, f, g):
        k = [[sum(x * y for x, y in zip(a, b, strict=True)) / len(a) for b in g] for a in f]
        return cls(k, [[Decimal(0)] * len(g) for _ in f])

    def each(self, function):
        """By function(row, column, K, Θ) → (K, Θ)."""
        both = [
            [function(i, j, k, t) for j, (k, t) in enumerate(zip(*rows, strict=True))]
            for i, rows in enumerate(zip(self.k, self.theta, strict=True))
        ]
        return Field([[k for k, _ in row] for row in both], [[t for _, t in row] for row in both])


SIDES = ((0, 0), (1, 1), (0, 1))  # of which signals each of the three fields is


def run(ops, fields, means, graphs=None):
    """The three fields, and the means of both signals, behind operations."""
    for name, *rest in ops:
        fields, means = STEPS[name](fields, means, graphs, *rest)
    return fields, means


def _affine(fields, means, graphs, W, b):
    W, b = Decimal(float(W)) ** 2, Decimal(float(b)) ** 2
    return [f.each(lambda i, j, k, t: (W * k + b, W * k + b + W * t)) for f in fields], _no(means)


def _no(means):
    return [[Decimal(0)] * len(m) for m in means]


def _phi(fields, means, graphs, name, constant=0.0):
    dual, c = dual_of(name), Decimal(float(constant))
    own = [[f.k[p][p] for p in range(len(f.k))] for f in fields[:2]]
    means = [[MEANS[name](q) for q in each] for each in own]

    def behind(one, other):
        def function(i, j, k, t):
            value, slope = dual(own[one][i], own[other][j], k)
            return value + c * (means[one][i] + means[other][j] + c), slope * t

        return function

    found = [f.each(behind(*of)) for f, of in zip(fields, SIDES, strict=True)]
    return found, [[m + c for m in each] for each in means]


def _mixed(fields, means, matrices):
    """K' = A K A'ᵀ, Θ' = A Θ A'ᵀ."""

    def product(matrix, of, other):
        rows = range(len(of[0])) if of else ()
        half = [[sum(a * of[r][c] for r, a in enumerate(row) if a) for c in rows] for row in matrix]
        return [[sum(a * row[c] for c, a in enumerate(entries) if a) for entries in other] for row in half]

    found = [
        Field(*(product(matrices[one], part, matrices[other]) for part in (f.k, f.theta)))
        for f, (one, other) in zip(fields, SIDES, strict=True)
    ]
    return found, [
        [sum(a * m for a, m in zip(row, of, strict=True)) for row in A] for A, of in zip(matrices, means, strict=True)
    ]


def _pool(fields, means, graphs, width):
    """Averages over blocks of `width` positions, or over all (None)."""

    def matrix(count):
        w = width or count
        return [[Decimal(p // w == b) / w for p in range(count)] for b in range(count // w)]

    return _mixed(fields, means, [matrix(len(m)) for m in means])


def _windows(fields, means, graphs, width, zeros=False):
    """The mean of K over windows inside the signal, or with zeros beyond its ends (an odd `width`)."""
    least = -(width // 2) if zeros else 0

    def along(part, i, j):
        places = ((i + least + u, j + least + u) for u in range(width))
        return sum(part[a][b] for a, b in places if 0 <= a < len(part) and 0 <= b < len(part[0])) / width

    less = 0 if zeros else width - 1
    found = [
        Field(
            *(
                [[along(part, i, j) for j in range(len(part[0]) - less)] for i in range(len(part) - less)]
                for part in (f.k, f.theta)
            )
        )
        for f in fields
    ]
    return found, _no([m[: len(m) - less] for m in means])


def _around(fields, means, graphs, width):
    """Averages over `width` neighbours, an odd number, around the circle."""
    count, reach = len(means[0]), width // 2
    near = lambda p, r: min((p - r) % count, (r - p) % count) <= reach
    matrix = [[Decimal(near(p, r)) / width for r in range(count)] for p in range(count)]
    return _mixed(fields, means, [matrix, matrix])


def _aggregate(fields, means, graphs):
    return _mixed(fields, means, graphs)


def _attend(fields, means, graphs, mechanism, scale, W, b):
    """K' = s² A K A'ᵀ + b², Θ' = s² A (Θ + 2K) A'ᵀ + b², A of c K of each signal with itself."""
    c, s, b = Decimal(float(scale)), Decimal(float(W)) ** 2, Decimal(float(b)) ** 2

    def of(row):
        if mechanism == "identity":
            return [c * k for k in row]
        most = max(row)
        each = [(c * (k - most)).exp() for k in row]
        return [e / sum(each) for e in each]

    matrices = [[of(row) for row in f.k] for f in fields[:2]]
    fields = [
        Field(f.k, [[t + 2 * k for t, k in zip(*z, strict=True)] for z in zip(f.theta, f.k, strict=True)])
        for f in fields
    ]
    found, means = _mixed(fields, means, matrices)
    return [f.each(lambda i, j, k, t: (s * k + b, s * t + b)) for f in found], _no(means)


def _attend_root(fields, means, graphs, scale, W, b):
    """K' = s² c² K Σ K² + b², Θ' = s² c² (4 K Σ K² + Θ Σ K² + 2 K Σ KΘ) + b²."""
    s, b = (Decimal(float(W)) * Decimal(float(scale))) ** 2, Decimal(float(b)) ** 2
    found = []
    for f in fields:
        squares = sum(k * k for row in f.k for k in row)
        products = sum(k * t for rows in zip(f.k, f.theta, strict=True) for k, t in zip(*rows, strict=True))
        found.append(f.each(partial(_cubic, s, b, squares, products)))
    return found, _no(means)


def _cubic(s, b, squares, products, i, j, k, t):
    return s * k * squares + b, s * (4 * k * squares + t * squares + 2 * k * products) + b


def _branches(fields, means, graphs, *branches):
    """Sums of what branches make of independent weights; means of every two are multiplied."""
    each = [run(ops, fields, means, graphs) for ops in branches]
    found = []
    for n, (one, other) in enumerate(SIDES):

        def total(i, j, *_, n=n, one=one, other=other):
            k = sum(f[n].k[i][j] for f, _ in each)
            for a, (_, m) in enumerate(each):
                k += sum(m[one][i] * w[other][j] for b, (_, w) in enumerate(each) if a != b)
            return k, sum(f[n].theta[i][j] for f, _ in each)

        found.append(each[0][0][n].each(total))
    return found, [[sum(m[s][p] for _, m in each) for p in range(len(each[0][1][s]))] for s in range(2)]


def _side_by_side(fields, means, graphs, *branches):
    """Means of branches with as many channels each."""
    each = [run(ops, fields, means, graphs) for ops in branches]
    mean = lambda values: sum(values) / len(each)
    found = [
        each[0][0][n].each(
            lambda i, j, *_, n=n: (mean([f[n].k[i][j] for f, _ in each]), mean([f[n].theta[i][j] for f, _ in each]))
        )
        for n in range(3)
    ]
    return found, [[mean([m[s][p] for _, m in each]) for p in range(len(each[0][1][s]))] for s in range(2)]


def _normalise(fields, means, graphs, eps):
    """K/(σσ'), σ² the mean variance of all positions and eps, of fields without means."""
    inverse = [1 / (sum(f.k[p][p] for p in range(len(f.k))) / len(f.k) + Decimal(eps)).sqrt() for f in fields[:2]]
    found = []
    for f, (one, other) in zip(fields, SIDES, strict=True):
        factor = inverse[one] * inverse[other]
        found.append(f.each(lambda i, j, k, t, factor=factor: (factor * k, factor * t)))
    return found, means


def _flatten(fields, means, graphs):
    same = lambda part: [[sum(part[p][p] for p in range(len(part))) / len(part)]]
    return [Field(same(f.k), same(f.theta)) for f in fields], [[sum(m) / len(m)] for m in means]


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
