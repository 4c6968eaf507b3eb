"""The CPU engine in both precisions on random groups, windows, weights and readouts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents.kernels.engines import cpu
from equitangents.kernels.plan import plan
from equitangents.nn import Dense, Flatten, Gelu, GroupConv, GroupPool, LeakyRelu, Lift, Relu, Residual, Sequential, Sin
from laws.networks import small_group
from oracles import finite_groups

PHIS = (Relu(), Relu(), LeakyRelu(0.2), Gelu(), Sin())


@st.composite
def general_groups(draw):
    """(network, shape of an input) on a small group, its action on itself, weighted windows of any elements."""
    group, table = small_group(draw(st.sampled_from(sorted(finite_groups.SMALL))))
    order = len(table)

    def layer(make):
        window = draw(st.lists(st.integers(0, order - 1), min_size=1, max_size=order, unique=True))
        raw = [draw(st.integers(1, 4)) for _ in window]
        weights = [w / sum(raw) for w in raw] if draw(st.booleans()) else None
        return make(window, weights=weights, W_std=1.3, b_std=draw(st.sampled_from([0.0, 0.3])))

    action = et.actions.permutations(group, table)
    layers = [layer(lambda window, **kwargs: Lift(action, 1, window, **kwargs)), draw(st.sampled_from(PHIS))]
    for _ in range(draw(st.integers(0, 2))):
        conv = layer(lambda window, **kwargs: GroupConv(1, window, **kwargs))
        phi = draw(st.sampled_from(PHIS))
        layers += [Residual(conv, phi)] if draw(st.booleans()) else [conv, phi]
    return Sequential(*layers, *draw(readouts())), (order, draw(st.integers(1, 3)))


@st.composite
def plane_groups(draw):
    """(network, shape of an input) on motions of a torus, windows that keep or break the rotations' symmetry."""
    rotations = draw(st.sampled_from([1, 2, 4]))
    sides = (4, 4) if rotations == 4 else draw(st.sampled_from([(3, 5), (4, 4), (6, 1)]))
    group = et.groups.wallpaper(rotations=rotations, reflections=draw(st.booleans()), shape=sides)
    window = tuple(draw(st.integers(1, min(3, n))) for n in sides)
    later = draw(st.sampled_from([window, "full"]))
    layers = (Lift(group, 1, window, b_std=0.1), draw(st.sampled_from(PHIS)), GroupConv(1, later, W_std=1.2), Relu())
    return Sequential(*layers, *draw(readouts())), (*sides, draw(st.integers(1, 3)))


def readouts():
    """Flattening or pooling, and perhaps a layer on vectors."""
    end = st.sampled_from([(Dense(1, b_std=0.1),), (Dense(1), Relu(), Dense(1))])
    return st.builds(lambda readout, layers: (readout, *layers), st.sampled_from([Flatten(), GroupPool()]), end)


def check(case, n1, n2, seed, reference):
    """Float32 against float64 on the same numbers, and that where asked against the reference engine."""
    net, shape = case
    rng = np.random.default_rng(seed)
    single = [rng.standard_normal((n, *shape)).astype(np.float32) for n in (n1, n2)]
    double = [x.astype(np.float64) for x in single]
    exact = net.kernel(*double, engine="cpu")
    own = [cpu.diagonal(plan(net.lower(shape)[1]), x) for x in double]
    scales = [np.sqrt(a.max() * b.max()) for a, b in zip(*own, strict=True)]
    coarse = 2e-6 if shape[-1] > 1 else 1e-5  # many pairs of one channel are parallel but for rounding
    agree(net.kernel(*single, engine="cpu"), exact, coarse, scales)
    if reference:
        agree(exact, net.kernel(*double, engine="reference"), 1e-12, scales)


def agree(found, expected, tolerance, scales):
    """Both kernels, in units of those of inputs with themselves."""
    for a, b, own in zip((found.nngp, found.ntk), (expected.nngp, expected.ntk), scales, strict=True):
        assert np.abs(a - np.asarray(b)).max() <= tolerance * own


ANY = {"n1": st.integers(1, 20), "n2": st.integers(1, 67), "seed": st.integers(0, 1000)}


@given(case=general_groups() | plane_groups(), **ANY)
@settings(max_examples=25)
def test_random_networks_on_groups_in_single_precision(case, n1, n2, seed):
    check(case, n1, n2, seed, reference=False)


@pytest.mark.slow
@given(case=general_groups() | plane_groups(), **ANY)
@settings(max_examples=30, derandomize=False)
def test_many_random_networks_on_groups(case, n1, n2, seed):
    check(case, n1, n2, seed, reference=True)
