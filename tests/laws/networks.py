"""From the oracle's list of tuples to a network of the package, and how close two kernels must be."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from kernels.comparison import assert_as_exact, largest
from oracles import finite_groups, literal_kernels

ACTIVATIONS = {
    "relu": lambda: et.nn.Relu(),
    "leaky_relu": lambda slope: et.nn.LeakyRelu(slope),
    "abs": lambda: et.nn.Abs(),
    "erf": lambda: et.nn.Erf(),
    "gelu": lambda: et.nn.Gelu(),
    "sin": lambda: et.nn.Sin(),
    "cos": lambda: et.nn.Cos(),
    "identity": lambda: et.nn.Identity(),
}


def by_engines(name, cases, often, reference):
    """Parametrize `name` and the fixture `engine`: all cases by the fastest engine, and all by the reference engine.

    The usual run takes those in `often` by the fastest one and those in `reference`, which compiles each, by that.
    """
    runs = []
    for case in cases:
        for engine, usual in (("fastest", often), ("reference", reference)):
            values = case if isinstance(case, tuple) else (case,)
            runs.append(pytest.param(engine, *values, marks=() if case in usual else pytest.mark.slow))
    return pytest.mark.parametrize(f"engine, {name}", runs, indirect=["engine"])


def dense(layers, phis):
    """The network of the precise oracle's ("dense", W_std, b_std) and ("phi", name), by the layers `phis`."""
    made = (et.nn.Dense(1, W_std=la[1], b_std=la[2]) if la[0] == "dense" else phis[la[1]] for la in layers)
    return et.nn.Sequential(*made)


def network(layers, *, action=None, subgroup=None, channels=3, out=1):
    """The package's network of the oracle's tuples; `action` for lifting layers, `subgroup` for coset pools.

    A tuple of the oracle and a layer of the package, as one, stand for both.
    """
    last = max((i for i, layer in enumerate(layers) if layer[0] in ("dense", "conv", "group_conv")), default=-1)
    widths = [out if i == last else channels for i in range(len(layers))]
    return et.nn.Sequential(
        *(_layer(layer, action, subgroup, width) for layer, width in zip(layers, widths, strict=True))
    )


def _layer(layer, action, subgroup, channels):
    kind, *rest = layer
    n = et.nn
    if isinstance(kind, tuple):
        return rest[0]
    if kind == "dense":
        return n.Dense(channels, W_std=rest[0], b_std=rest[1])
    if kind in ("conv", "local"):
        window, stride, padding, W, b = rest
        make = n.Conv if kind == "conv" else n.LocallyConnected
        return make(channels, window, stride=stride, padding=padding, W_std=W, b_std=b)
    if kind == "lift":
        _, window, weights, W, b = rest
        return n.Lift(action, channels, window=list(window), W_std=W, b_std=b, **_profile(weights))
    if kind == "group_conv":
        _, window, weights, W, b = rest
        return n.GroupConv(channels, window=list(window), W_std=W, b_std=b, **_profile(weights))
    if kind == "phi":
        return ACTIVATIONS[rest[0]](*rest[1:])
    if kind == "coset_pool":
        return n.GroupPool() if subgroup is None else n.GroupPool(subgroup)
    if kind == "residual":
        return n.Residual(*(_layer(inner, action, subgroup, channels) for inner in rest[0]))
    if kind == "avg_pool":
        return n.AvgPool(*rest)
    return {"global_pool": n.GlobalAvgPool, "flatten": n.Flatten}[kind]()


def _profile(weights):
    return {} if weights is None else {"weights": [float(v) for v in weights]}


def check(layers, x1, x2=None, *, net=None, rtol=1e-12, engine=None, **kwargs):
    """The package's kernels are the literal sums; returns the larger of the two relative errors."""
    net = network(layers, **kwargs) if net is None else net
    layers = [layer[0] if isinstance(layer[0], tuple) else layer for layer in layers]
    x = x1 if x2 is None else np.concatenate([x1, x2])
    n = len(x1)
    got = net.kernel(x1, x2, engine)
    worst = 0.0
    for name, full, value in zip(("nngp", "ntk"), literal_kernels.kernels(layers, x), got_pair(got), strict=True):
        own = np.diag(full)
        expected = full if x2 is None else full[:n, n:]
        error = largest(value, expected, own[:n], own if x2 is None else own[n:])
        assert np.shape(value) == expected.shape
        assert error <= rtol, f"{name} is off by {error:.2e} (relative), allowed {rtol:.0e}\n{net}"
        worst = float(np.max([worst, error]))
    return worst


def check_cpu(layers, x, **kwargs):
    """The same by the CPU engine, of all inputs and between two sets, and single precision against double."""
    net = network(layers, **kwargs)
    check(layers, x, net=net, engine="cpu")
    check(layers, x[:1], x[1:], net=net, engine="cpu")
    assert_as_exact(net, x, engine="cpu", dtype=np.float32, judge="cpu")


def got_pair(kernels):
    return np.asarray(kernels.nngp), np.asarray(kernels.ntk)


def small_group(name):
    """A hand-written group in the package's clothes, and its table."""
    elements = finite_groups.SMALL[name]()
    return et.groups.from_permutations(elements), finite_groups.multiplication_table(elements)


def plane_group(rotations, reflections, shape):
    """(group, table, grid) in the package's numbering; table and grid made of hand-written motions."""
    group = et.groups.wallpaper(rotations=rotations, reflections=bool(reflections), shape=shape)
    motions = finite_groups.plane_motions(rotations, reflections, shape)
    number = np.array([group.index(*motion) for motion in motions])
    table = np.empty((len(motions),) * 2, dtype=int)
    table[np.ix_(number, number)] = number[finite_groups.motion_table(rotations, reflections, shape)]
    grid = np.empty((len(motions), shape[0] * shape[1]), dtype=int)
    grid[number] = finite_groups.motion_positions(rotations, reflections, shape)
    return group, table, grid


def box(shape, window):
    """The pixels of a box centred on (0, 0), the low side (w − 1) // 2 wide."""
    rows, columns = (np.arange(w) - (w - 1) // 2 for w in window)
    return [int(np.ravel_multi_index((i % shape[0], j % shape[1]), shape)) for i in rows for j in columns]


def group_box(group, shape, window, rotations, reflections):
    """The elements x -> R x + t with t in the box and any of the rotations and reflections given."""
    translations = [tuple(int(i) for i in np.unravel_index(p, shape)) for p in box(shape, window)]
    return [group.index(r, s, t) for s in reflections for r in rotations for t in translations]
