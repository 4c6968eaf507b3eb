"""Kernels of two vectors through dense layers in sixty decimal digits: angles near 0 and π lose nothing.

A network is a list of ("dense", W, b), ("phi", NAME) with a name in `SMOOTH`, and ("phi", slope) for
max(x, 0) + slope · min(x, 0).
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import lru_cache, partial

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
                dual = dual_of(rest[0])
                (q1, _), (q2, _), (k, slope) = (dual(a, b, c) for a, b, c in ((q1, q1, q1), (q2, q2, q2), (q1, q2, k)))
                theta *= slope
        return float(k), float(theta)


def of_signals(phis, f, g, W, b, window, pooled=False):
    """(NNGP, NTK) of signals (positions, channels) through convolutions inside the grid, one of `phis` behind each.

    Then positions are averaged (`pooled`), or equal ones alone.
    """
    f, g = (tuple(tuple(map(float, p)) for p in v) for v in (f, g))
    return _of_signals(tuple(phis), f, g, float(W), float(b), window, pooled, DIGITS)


@lru_cache(1024)  # tests ask for the same of several engines
def _of_signals(phis, f, g, W, b, window, pooled, digits):
    with localcontext() as context:
        context.prec = digits
        f, g = ([[Decimal(c) for c in p] for p in v] for v in (f, g))
        W, b = Decimal(W) ** 2, Decimal(b) ** 2
        own1, own2 = (_variances(phis, v, W, b, window) for v in (f, g))
        count = len(f) - len(phis) * (window - 1)
        offsets = range(1 - count, count) if pooled else (0,)
        values = [v for o in offsets for v in _offset(phis, f, g, own1, own2, W, b, window, o)]
        return tuple(float(sum(v) / (count**2 if pooled else count)) for v in zip(*values, strict=True))


def _variances(phis, f, W, b, window):
    """Of the positions of one signal, before each of `phis`."""
    q, found = [_mean_product(p, p) for p in f], []
    for phi in phis:
        found.append([W * sum(q[e - window : e]) / window + b for e in range(window, len(q) + 1)])
        q = [dual_of(phi)(v, v, v)[0] for v in found[-1]]
    return found


def _offset(phis, f, g, own1, own2, W, b, window, offset):
    """(K, Θ) of the pairs of positions that `offset` joins."""
    first = max(0, -offset)
    k = [_mean_product(p, o) for p, o in zip(f[first:], g[first + offset :], strict=False)]
    theta = [Decimal(0)] * len(k)
    for phi, q1, q2 in zip(phis, own1, own2, strict=True):
        ends = range(window, len(k) + 1)
        k = [W * sum(k[e - window : e]) / window + b for e in ends]
        theta = [new + W * sum(theta[e - window : e]) / window for e, new in zip(ends, k, strict=True)]
        both = [dual_of(phi)(*z) for z in zip(q1[first:], q2[first + offset :], k, strict=False)]
        k, theta = [v for v, _ in both], [t * slope for t, (_, slope) in zip(theta, both, strict=True)]
    return list(zip(k, theta, strict=True))


def _mean_product(f, g):
    return sum(x * y for x, y in zip(f, g, strict=True)) / len(f)


def dual_of(phi):
    """The dual of a name in `SMOOTH`, or of a slope."""
    return SMOOTH.get(phi) or partial(piecewise_linear, phi)


def piecewise_linear(slope, q1, q2, k):
    """φ(x) = α x + β |x|, whose parts are uncorrelated."""
    odd, even = ((1 + Decimal(slope)) / 2) ** 2, ((1 - Decimal(slope)) / 2) ** 2
    sine = max(q1 * q2 - k * k, Decimal(0)).sqrt()
    turn = 2 * arctangent(sine, k) / pi()  # θ in units of a right angle
    return odd * k + even * (2 / pi() * sine + (1 - turn) * k), odd + even * (1 - turn)


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


def cube(q1, q2, k):
    """9 q1 q2 k + 6 k³, and 9 (q1 q2 + 2 k²), of x³."""
    return 9 * q1 * q2 * k + 6 * k**3, 9 * (q1 * q2 + 2 * k * k)


def third_hermite(q1, q2, k):
    """6 k³ + 9 (q1 - 1)(q2 - 1) k, and 18 k² + 9 (q1 - 1)(q2 - 1), of x³ - 3x."""
    return 6 * k**3 + 9 * (q1 - 1) * (q2 - 1) * k, 18 * k * k + 9 * (q1 - 1) * (q2 - 1)


def exponential(q1, q2, k):
    """e^{(q1 + q2)/8 + k/4}, and a quarter of it, of e^{x/2}."""
    value = ((q1 + q2) / 8 + k / 4).exp()
    return value, value / 4


def rectified_square(q1, q2, k):
    """((π - θ)(q1 q2 + 2k²) + 3 k s)/(2π) and 2 ((π - θ) k + s)/π, s = √(q1 q2 - k²), of max(x, 0)²."""
    s = max(q1 * q2 - k * k, Decimal(0)).sqrt()
    rest = pi() - arctangent(s, k)
    return (rest * (q1 * q2 + 2 * k * k) + 3 * k * s) / (2 * pi()), 2 * (rest * k + s) / pi()


GROWING = {"cube": cube, "hermite": third_hermite, "exp": exponential, "square": rectified_square}
BOUNDED = {"normalised": normalised, "erf": erf, "sin": sine, "cos": cosine, "gaussian": gaussian}
SMOOTH = BOUNDED | GROWING | {"gelu": gelu}


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
    least, square = Decimal(10) ** -DIGITS, -x * x
    total, power, n = x, x, 1
    while abs(power) >= least:
        power, n = power * square, n + 2
        total += power / n
    return total
