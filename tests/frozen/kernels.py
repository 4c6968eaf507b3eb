"""Kernels of networks drawn at random, over all spaces, layers and nonlinearities, in float64, by both engines."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import equitangents as et
from equitangents.errors import EquitangentsError

from .files import summary

COUNT = 300
BOTH = 217  # by both engines; the rest by the reference engine only where the other cannot
TOLERANCE = 3e-9  # of the largest number: libm and the order of sums differ, and Θ of a kink loses half of the digits
N = et.nn
SPACES = ("vector", "line", "plane", "wallpaper", "positions", "sphere", "points", "whole", "fields")
SIMPLE = [
    N.Relu, N.LeakyRelu, N.Abs, N.Erf, N.Gelu, N.Sin, N.Cos, N.Identity, N.Gaussian, N.Rbf, lambda: N.Exp(0.7, 0.4),
    N.Exponential, lambda: N.Hermite(2), lambda: N.Monomial(2), lambda: N.Polynomial((0.2, 1.0, 0.3)),
    lambda: N.RectifiedMonomial(2), N.Heaviside, N.Sign,
]  # fmt: skip


def names():
    return [str(i) for i in range(COUNT)]


def case(name):
    """nngp and ntk of the network of that number, summarised, by engine; else the class of its refusal."""
    rng = np.random.default_rng([20, int(name)])
    space = SPACES[int(name) % len(SPACES)]
    layers, shape = globals()[f"_{space}"](rng)
    net, field = N.Sequential(*layers), space == "fields"
    x1, x2 = (rng.uniform(-1, 1, size=(size, *shape)) for size in (2, 3))
    inputs = (x1,) if rng.random() < 0.3 else (x1, x2)
    found = {"net": " ".join([space, *(type(layer).__name__ for layer in layers)])}
    for engine in ("cpu", "reference"):
        if engine == "reference" and int(name) >= BOTH and "cpu ntk" in found:
            continue
        try:
            kernel = (net.kernel_field if field else net.kernel)(*inputs, engine=engine)
        except EquitangentsError as error:
            found[engine] = type(error).__name__
            continue
        for which in ("nngp", "ntk"):
            try:
                found[f"{engine} {which}"] = summary(getattr(kernel, which))
            except EquitangentsError as error:
                found[f"{engine} {which}"] = type(error).__name__
    return found


def _std(rng):
    return {"W_std": float(rng.uniform(0.6, 1.4)), "b_std": float(rng.choice([0.0, rng.uniform(0.05, 0.5)]))}


def _phi(rng, jumps=False):
    return SIMPLE[rng.integers(len(SIMPLE) if jumps else len(SIMPLE) - 2)]()


def _block(rng, layer):
    """Perhaps a residual or parallel block around `layer()`, a linear layer that keeps the shape."""
    kind = rng.integers(5)
    if kind == 0:
        return [N.Residual(layer(), _phi(rng))]
    if kind == 1:
        return [N.Parallel([layer(), _phi(rng)], [layer(), N.Erf()], N.Identity()), N.Sum()]
    if kind == 2:
        return [N.Parallel([layer(), _phi(rng)], layer()), N.Concatenate()]
    return [layer(), _phi(rng)]


def _vector(rng):
    dense = lambda: N.Dense(3, **_std(rng))
    first = N.Elementwise(jnp.tanh) if rng.random() < 0.3 else _phi(rng, jumps=rng.random() < 0.2)
    layers = [dense(), first, *_block(rng, dense)]
    more = rng.integers(4)
    layers += [[N.LayerNorm()], [N.Dropout(0.2)], [N.Scale(0.7)], []][more]
    return [*layers, N.Dense(1, **_std(rng))], (int(rng.integers(2, 5)),)


def _grid(rng, dimensions):
    shape = tuple(int(n) for n in rng.integers(3, 6, size=dimensions))
    kind = N.LocallyConnected if rng.random() < 0.35 else N.Conv
    padding = str(rng.choice(["circular", "zero", "valid"]))
    window = tuple(int(n) for n in rng.integers(1, 4, size=dimensions))
    stride = int(rng.choice([1, 1, 2]))
    whole = stride == 1 and padding != "valid"  # then there are at least 3 positions left along each axis
    conv = lambda: N.Conv(3, (3,) * dimensions, **_std(rng)) if whole else N.Dense(3, **_std(rng))
    layers = [kind(3, window, stride=stride, padding=padding, **_std(rng))]
    layers += [N.Elementwise(jnp.tanh) if rng.random() < 0.2 else _phi(rng)]
    more = rng.integers(8)
    if more == 0:
        layers += [N.LayerNorm(positions=True), conv(), N.Relu()]
    elif more == 1:
        layers += [N.Attention(2, heads=2, mechanism=str(rng.choice(["softmax", "identity"]))), N.Erf()]
    elif more <= 4:
        layers += _block(rng, conv)
    elif more == 5:
        layers += [N.AvgPool((1,) * (dimensions - 1) + (2,), stride=1, padding=str(rng.choice(["valid", "zero"])))]
    elif more == 6:
        layers += [N.SumPool((1,) * (dimensions - 1) + (2,))]
    last = [[N.Flatten()], [N.GlobalAvgPool()], [N.GlobalSumPool()], [N.Dense(2), N.Erf(), N.GlobalAvgPool()]]
    layers += last[rng.integers(len(last))]
    return [*layers, N.Dense(1, **_std(rng))], (*shape, int(rng.integers(1, 3)))


def _line(rng):
    return _grid(rng, 1)


def _plane(rng):
    return _grid(rng, 2)


def _wallpaper(rng):
    side = int(rng.integers(2, 4))
    rotations = int(rng.choice([1, 2, 4]))
    group = et.groups.wallpaper(rotations=rotations, reflections=bool(rng.integers(2)), shape=(side, side))
    window = (side, side) if rng.random() < 0.5 else (1, 2)
    chosen = {"rotations": [0, 1]} if rotations == 4 and group.order % 8 != 0 and rng.random() < 0.3 else {}
    layers = [N.Lift(group, 3, window=window, **_std(rng)), _phi(rng)]
    layers += [N.GroupConv(3, window=window, **chosen, **_std(rng)), _phi(rng)]
    if rng.random() < 0.3:
        layers += [N.Residual(N.GroupConv(3, window="full", **_std(rng)), N.Erf())]
    last = [[N.GroupPool(), N.Dense(1, **_std(rng))], [N.Readout(et.groups.regular(et.groups.cyclic(4)))]]
    use = 1 if rotations == 4 and group.order == 4 * side**2 and rng.random() < 0.4 else 0
    return [*layers, *last[use]], (side, side, int(rng.integers(1, 3)))


def _positions(rng):
    made = [
        et.groups.cyclic(int(rng.integers(2, 6))),
        et.groups.dihedral(3),
        et.groups.symmetric(3),
        et.groups.quaternion(),
    ]
    group = made[rng.integers(len(made))]
    order = group.order
    action = et.actions.permutations(group, np.asarray(group.table))  # on itself
    pick = lambda: "full" if rng.random() < 0.3 else sorted({0, *map(int, rng.integers(order, size=2))})
    layers = [N.Lift(action, 3, window=pick(), **_std(rng)), _phi(rng)]
    for _ in range(int(rng.integers(1, 3))):
        layers += _block(rng, lambda: N.GroupConv(3, window=pick(), **_std(rng)))
    if rng.random() < 0.3:
        return [*layers, N.Readout(et.groups.regular(group), **_std(rng))], (order, 2)
    return [*layers, N.GroupPool(), N.Dense(1, **_std(rng))], (order, 2)


def _sphere(rng):
    group = et.groups.so3(bandlimit=2) if rng.random() < 0.6 else et.groups.octahedral()
    layers = [N.SphereLift(group, 2, **_std(rng)), [N.Erf(), N.Relu(), N.Sin(), N.Gelu()][rng.integers(4)]]
    layers += [N.GroupConv(2, **_std(rng)), N.Erf()]
    if rng.random() < 0.4 and isinstance(group, et.groups.Group):
        return [*layers, N.Readout(et.groups.regular(group))], (4, 1)
    return [*layers, N.GroupPool(), N.Dense(1, **_std(rng))], (4, int(rng.integers(1, 3)))


def _features(rng):
    """A group of turns, features of a hidden layer, of an output, and the size of a point."""
    return [
        ("SO(2)", "2x0+2x1", "1x1", 2), ("O(2)", "2x0e+2x1", "1x1", 2), ("SO(3)", "2x0+1x1", "1x1", 3),
        ("O(3)", "2x0e+1x1o", "1x1o", 3),
    ][rng.integers(4)]  # fmt: skip


def _points(rng):
    group, hidden, output, size = _features(rng)
    image = size == 2 and rng.random() < 0.4
    conv = N.SteerableConv(hidden, radii=(0.0, 1.5), width=0.8, **_std(rng))
    bent = N.NormNonlinearity() if rng.random() < 0.5 else N.Residual(N.NormNonlinearity(), conv)
    layers = [N.PlaneImage(group) if image else N.PointCloud(group)]
    layers += [N.SteerableConv(hidden, radii=(0.0, 1.5), width=0.8, **_std(rng)), bent]
    if rng.random() < 0.3:
        layers += [N.SteerableConv(hidden, radii=(0.0, 1.5), **_std(rng))]
    last = [[N.SteerablePool(), N.SteerableDense(output, **_std(rng))], [N.SteerablePool(), N.SteerableDense(hidden)]]
    return [*layers, *last[rng.integers(2)]], ((2, 3, 1) if image else (3, size))


def _whole(rng):
    group, hidden, output, size = _features(rng)
    if size == 3 and rng.random() < 0.5:
        first, shape = N.SphereSignal(group), (4, 1)
    else:
        first, shape = N.FeatureVector(group, hidden), (2 + (4 if size == 2 else 3),)
    bent = N.NormNonlinearity() if rng.random() < 0.5 else N.NormNonlinearity(jnp.tanh)
    return [first, N.SteerableDense(hidden, **_std(rng)), bent, N.SteerableDense(output, **_std(rng))], shape


def _fields(rng):
    """Networks that end on their positions."""
    layers, shape = _grid(rng, int(rng.integers(1, 3)))
    kept = next(i for i, layer in enumerate(layers) if isinstance(layer, N.Flatten | N.GlobalAvgPool | N.GlobalSumPool))
    return [*layers[:kept], N.Dense(1, **_std(rng))], shape
