"""Kernels of two vectors through dense layers in sixty decimal digits: angles near 0 and π lose nothing.

A network is a list of ("dense", W, b), ("phi", NAME) with a name in `SMOOTH`, and ("phi", slope) for
max(x, 0) + slope · min(x, 0).
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import lru_cache, partial
from itertools import count

DIGITS = 60


def kernels(layers, f, g):
    """(NNGP, NTK) of the vectors f and g, as floats; their numbers are taken as exact."""
    with localcontext() as context:
        context.prec = DIGITS
        f, g = ([Decimal(float(x)) for x in v] for v in (f, g))
        q1, q2, k = (sum(x * y for x, y in zip(a, b, strict=True)) / len(a) for a, b in ((f, f), (g, g), (f, g)))
        theta = Decimal(0)
        for kind, *rest in layers:
            if kind == "dense":
                W, b = (Decimal(float(number)) ** 2 for number in rest)
                q1, q2, k = (W * x + b for x in (q1, q2, k))
                theta = k + W * theta
            else:
                dual = SMOOTH.get(rest[0]) or partial(piecewise_linear, rest[0])
                (q1, _), (q2, _), (k, slope) = (dual(a, b, c) for a, b, c in ((q1, q1, q1), (q2, q2, q2), (q1, q2, k)))
                theta *= slope
        return float(k), float(theta)


def piecewise_linear(slope, q1, q2, k):
    """φ(x) = α x + β |x|, whose parts are uncorrelated."""
    odd, even = ((1 + Decimal(slope)) / 2) ** 2, ((1 - Decimal(slope)) / 2) ** 2
    root, sine = (q1 * q2).sqrt(), max(q1 * q2 - k * k, Decimal(0)).sqrt()
    turn = 2 * arctangent(sine, k) / pi()  # θ in units of a right angle
    return odd * k + even * (2 / pi() * sine + (1 - turn) * k if root else root), odd + even * (1 - turn)


def erf(q1, q2, k):
    """(2/π) arcsin(2k/√p), p = (1+2q1)(1+2q2)."""
    root = ((1 + 2 * q1) * (1 + 2 * q2) - 4 * k * k).sqrt()
    return 2 / pi() * (pi() / 2 - arctangent(root, 2 * k)), 4 / pi() / root


def gelu(q1, q2, k):
    """kP + [q1 q2 - k² + k² i]/(2π√Δ), Δ = (1+q1)(1+q2) - k², P = 1/4 + arctan(k/√Δ)/(2π), i = 1/(1+q1) + 1/(1+q2)."""
    delta, inverse = (1 + q1) * (1 + q2) - k * k, 1 / (1 + q1) + 1 / (1 + q2)
    root, turns = delta.sqrt(), 1 / (2 * pi())
    p = Decimal("0.25") + turns * (pi() / 2 - arctangent(root, k))
    covariance = k * p + turns / root * (q1 * q2 - k * k + k * k * inverse)
    return covariance, p + k * turns / root * (inverse + 1 / delta)


def sine(q1, q2, k):
    """e^{-(q1+q2)/2} sinh k, and cosh k for the derivatives."""
    up, down = (k - (q1 + q2) / 2).exp(), (-k - (q1 + q2) / 2).exp()
    return (up - down) / 2, (up + down) / 2


def cosine(q1, q2, k):
    """The same the other way round."""
    return sine(q1, q2, k)[::-1]


def gaussian(q1, q2, k):
    """1/√Δ of e^{-x²}, Δ = (1+2q1)(1+2q2) - 4k², and 4k/√Δ³."""
    delta = (1 + 2 * q1) * (1 + 2 * q2) - 4 * k * k
    return 1 / delta.sqrt(), 4 * k / (delta * delta.sqrt())


def normalised(q1, q2, k):
    """k/√((q1+ε)(q2+ε)), ε = 1e-12: layer normalisation."""
    factor = 1 / ((q1 + Decimal("1e-12")) * (q2 + Decimal("1e-12"))).sqrt()
    return factor * k, factor


SMOOTH = {"normalised": normalised, "erf": erf, "gelu": gelu, "sin": sine, "cos": cosine, "gaussian": gaussian}


@lru_cache(1)
def pi():
    """Machin's formula."""
    return 16 * _series(Decimal(1) / 5) - 4 * _series(Decimal(1) / 239)


def arctangent(y, x):
    """The angle of (x, y), y >= 0."""
    if y == 0:
        return pi() if x < 0 else Decimal(0)
    if x < 0:
        return pi() - arctangent(y, -x)
    if y > x:
        return pi() / 2 - arctangent(x, y)
    ratio, doublings = y / x, 0
    while ratio > Decimal("0.05"):
        ratio, doublings = ratio / (1 + (1 + ratio * ratio).sqrt()), doublings + 1
    return 2**doublings * _series(ratio)


def _series(x):
    total, power = Decimal(0), x
    for n in count():
        term = power / (2 * n + 1)
        total += term
        if abs(term) < Decimal(10) ** -DIGITS:
            return total
        power *= -x * x
