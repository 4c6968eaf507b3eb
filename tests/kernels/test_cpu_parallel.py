"""Branches side by side and normalisation over positions in the CPU engine.

Exact laws of one engine: channels of equal branches side by side are one branch, a sum with an untouched branch is a
residual sum, and normalisation divides kernels by known numbers. On random networks the reference engine judges, and
the literal run over all pairs of positions (that of inputs with masks, all of whose positions are there).
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from equitangents import Masked
from equitangents.errors import InvalidArgumentError
from equitangents.kernels.dispatch import compute
from equitangents.nn import (
    Abs,
    AvgPool,
    Concatenate,
    Conv,
    Dense,
    Erf,
    Flatten,
    GlobalAvgPool,
    Identity,
    LayerNorm,
    Parallel,
    Relu,
    Residual,
    Sequential,
    Sum,
)
from kernels.comparison import check_cpu, largest


def conv(padding="zero", **settings):
    return Conv(1, 3, padding=padding, W_std=1.1, b_std=0.3, **settings)


def equal(found, expected, tolerance=1e-13):
    for ours, exact in ((found.nngp, expected.nngp), (found.ntk, expected.ntk)):
        own = np.abs(np.diag(exact))
        assert largest(ours, exact, own, own) <= tolerance


END = (conv(), Relu(), GlobalAvgPool(), Dense(1))


@pytest.mark.parametrize("padding", ["zero", "circular"])
@pytest.mark.parametrize("stride", [1, 2])
def test_equal_branches_side_by_side_are_one_branch(rng, padding, stride):
    x = rng.standard_normal((4, 6, 4, 5))
    branch = [conv(padding, stride=stride), Relu(), conv(padding)]
    several = Sequential(conv(padding), Relu(), Parallel(branch, branch, branch), Concatenate(), *_end(padding))
    found = several.kernel(x, engine="cpu")
    equal(found, Sequential(conv(padding), Relu(), *branch, *_end(padding)).kernel(x, engine="cpu"))


def _end(padding):
    return conv(padding), Relu(), conv(padding), Erf(), GlobalAvgPool(), Dense(1)


def test_branches_of_vectors_add_up(rng):
    x = rng.standard_normal((5, 6))
    dense = Dense(1, W_std=1.2, b_std=0.4)
    parts = [Sequential(dense, Erf(), dense), Sequential(dense, Abs(), dense)]
    each = [part.kernel(x, engine="cpu") for part in parts]
    found = Sequential(Parallel(*parts), Sum(), Dense(1)).kernel(x, engine="cpu")
    nngp, ntk = sum(k.nngp for k in each), sum(k.ntk for k in each)
    assert np.max(np.abs(found.nngp - nngp)) <= 1e-13
    assert np.max(np.abs(found.ntk - (nngp + ntk))) <= 1e-13
    shares = Sequential(Parallel(*(Sequential(*p.layers) for p in parts)), Concatenate(), Dense(1))
    assert np.max(np.abs(shares.kernel(x, engine="cpu").nngp - nngp / 2)) <= 1e-13


@pytest.mark.parametrize("engine", ["cpu", pytest.param("reference", marks=pytest.mark.slow)])
@pytest.mark.parametrize("join", [Sum(), Concatenate()])
@pytest.mark.parametrize("end", [(), (GlobalAvgPool(),), (Flatten(),)])
def test_one_branch_is_its_layers(end, join, engine, rng):
    first = (conv(), Relu()) if end else ()
    x = rng.standard_normal((3, 5, 4, 2) if end else (3, 4))
    for branch in ((Dense(1, b_std=0.2),), (Identity(),), (Dense(1), Relu(), Residual(Dense(1), Erf()))):
        alone = Sequential(*first, *end, Parallel(list(branch)), join, Dense(1)).kernel(x, engine=engine)
        plain = Sequential(*first, *end, *branch, Dense(1)).kernel(x, engine=engine)
        np.testing.assert_array_equal(alone.nngp, plain.nngp)
        np.testing.assert_array_equal(alone.ntk, plain.ntk)
        assert np.abs(plain.ntk).min() > 0


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 2)])
def test_branches_that_end_the_grid_are_joined_as_vectors(shape, rng):
    x = rng.standard_normal((3, *shape, 2))
    first, after = (Conv(1, (2,) * len(shape), b_std=0.3), Relu()), Dense(1, W_std=1.3, b_std=0.1)
    ends = [(GlobalAvgPool(), after), (Flatten(), after), (AvgPool(2), Flatten(), after)]
    each = [Sequential(*first, *end).kernel(x) for end in ends]
    found = Sequential(*first, Parallel(*map(list, ends)), Sum()).kernel(x)
    equal(found, sum_of(each))
    pooled, flat = (Sequential(*first, end).kernel(x) for end in (GlobalAvgPool(), Flatten()))
    joined = Sequential(*first, Parallel(GlobalAvgPool(), Flatten()), Concatenate()).kernel(x)
    positions = int(np.prod(shape))
    assert np.max(np.abs(joined.nngp * (1 + positions) - (pooled.nngp + positions * flat.nngp))) <= 1e-12


def sum_of(kernels):
    return SimpleNamespace(nngp=sum(k.nngp for k in kernels), ntk=sum(k.ntk for k in kernels))


NETWORKS = {
    "one torus and one broken": (Parallel([conv("circular"), Relu()], [conv(), Abs()]), Sum()),
    "strides and a shortcut": (Parallel([conv(stride=2), Relu(), conv()], Conv(1, 1, 2, "zero")), Sum(), Relu()),
    "branches in branches": (
        Parallel([conv(), Parallel([Relu(), conv()], conv()), Sum(), Relu()], [Residual(conv(), Relu()), conv()]),
        Concatenate(),
    ),
    "branches handed on": (Parallel(conv(), conv()), Parallel(Relu(), Erf()), Sum()),
    "normalisation in a branch": (
        conv(), LayerNorm(positions=True), Residual(conv(), LayerNorm(positions=True, eps=0.1), Relu())
    ),
    "normalisation after a pool": (conv(), Relu(), AvgPool(2), conv(), LayerNorm(positions=True), Relu()),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_they_are_those_of_the_reference_engine_and_of_all_pairs_of_positions(rng, name):
    x = rng.standard_normal((5, 6, 4, 5))
    x[3], x[4] = x[2], -x[2]
    first = conv("circular") if "torus" in name else conv()
    net = Sequential(first, Relu(), *NETWORKS[name], *END)
    check_cpu(net, x)
    # Over all pairs of positions distances are formed anew from covariances, and angles are their roots.
    masked, program = net.lowered(Masked(x, np.ones(x.shape[:-1], bool)))
    equal(net.kernel(x, engine="cpu"), compute(program, masked, engine="reference"), 1e-10)


def test_what_mixes_fibres_runs_over_all_pairs(rng):
    pools = Sequential(conv(), Parallel([Relu(), conv()], conv()), Concatenate(), AvgPool(2), conv(), Relu(), Flatten())
    with pytest.raises(InvalidArgumentError, match="parallel branches and pools between layers mix fibres"):
        pools.kernel(rng.standard_normal((2, 4, 4, 3)), engine="cpu")
