"""The CPU engine in both precisions on random groups, windows, weights and readouts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import equitangents as et
from equitangents.nn import Dense, Flatten, Gelu, GroupConv, GroupPool, LeakyRelu, Lift, Relu, Residual, Sequential, Sin
from examples import examples
from kernels.comparison import assert_as_exact
from kernels.random_networks import CHANNELS
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
    return Sequential(*layers, *draw(readouts())), (order, draw(CHANNELS))


@st.composite
def plane_groups(draw):
    """(network, shape of an input) on motions of a torus, windows that keep or break the rotations' symmetry."""
    rotations = draw(st.sampled_from([1, 2, 4]))
    sides = (4, 4) if rotations == 4 else draw(st.sampled_from([(3, 5), (4, 4), (6, 1)]))
    group = et.groups.wallpaper(rotations=rotations, reflections=draw(st.booleans()), shape=sides)
    window = tuple(draw(st.integers(1, min(3, n))) for n in sides)
    later = draw(st.sampled_from([window, "full"]))
    layers = (Lift(group, 1, window, b_std=0.1), draw(st.sampled_from(PHIS)), GroupConv(1, later, W_std=1.2), Relu())
    return Sequential(*layers, *draw(readouts())), (*sides, draw(CHANNELS))


def readouts():
    """Flattening or pooling, and perhaps a layer on vectors."""
    end = st.sampled_from([(Dense(1, b_std=0.1),), (Dense(1), Relu(), Dense(1))])
    return st.builds(lambda readout, layers: (readout, *layers), st.sampled_from([Flatten(), GroupPool()]), end)


def random_inputs(shape, n1, n2, seed):
    """Two batches."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n1, *shape)), rng.standard_normal((n2, *shape))


ANY = {"n1": st.integers(1, 20), "n2": st.integers(1, 67), "seed": st.integers(0, 1000)}


@given(case=general_groups() | plane_groups(), **ANY)
@examples(10, random=25)
def test_random_networks_on_groups_in_single_precision(case, n1, n2, seed):
    net, shape = case
    x1, x2 = random_inputs(shape, n1, n2, seed)
    assert_as_exact(net, x1, x2, engine="cpu", dtype=np.float32, judge="cpu")
