"""Branches side by side and normalisation over positions in the CPU engine.

Exact laws of one engine: channels of equal branches side by side are one branch, a sum with an untouched branch is a
residual sum, and normalisation divides kernels by known numbers. On random networks the reference engine judges, and
the literal run over all pairs of positions (that of inputs with masks, all of whose positions are there).
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import equitangents as et
from equitangents import Masked
from equitangents.errors import InvalidArgumentError
from equitangents.kernels.runs.programs import compute
from kernels.comparison import check_cpu, largest

N = et.nn


def conv(padding="zero", **settings):
    return N.Conv(1, 3, padding=padding, W_std=1.1, b_std=0.3, **settings)


def equal(found, expected, tolerance=1e-13):
    for ours, exact in ((found.nngp, expected.nngp), (found.ntk, expected.ntk)):
        own = np.abs(np.diag(exact))
        assert largest(ours, exact, own, own) <= tolerance


END = (conv(), N.Relu(), N.GlobalAvgPool(), N.Dense(1))


@pytest.mark.parametrize("padding", ["zero", "circular"])
@pytest.mark.parametrize("stride", [1, 2])
def test_equal_branches_side_by_side_are_one_branch(rng, padding, stride):
    x = rng.standard_normal((4, 6, 4, 5))
    branch = [conv(padding, stride=stride), N.Relu(), conv(padding)]
    several = N.Sequential(conv(padding), N.Relu(), N.Parallel(branch, branch, branch), N.Concatenate(), *_end(padding))
    found = several.kernel(x, engine="cpu")
    equal(found, N.Sequential(conv(padding), N.Relu(), *branch, *_end(padding)).kernel(x, engine="cpu"))


def _end(padding):
    return conv(padding), N.Relu(), conv(padding), N.Erf(), N.GlobalAvgPool(), N.Dense(1)


def test_branches_of_vectors_add_up(rng):
    x = rng.standard_normal((5, 6))
    dense = N.Dense(1, W_std=1.2, b_std=0.4)
    parts = [N.Sequential(dense, N.Erf(), dense), N.Sequential(dense, N.Abs(), dense)]
    each = [part.kernel(x, engine="cpu") for part in parts]
    found = N.Sequential(N.Parallel(*parts), N.Sum(), N.Dense(1)).kernel(x, engine="cpu")
    nngp, ntk = sum(k.nngp for k in each), sum(k.ntk for k in each)
    assert np.max(np.abs(found.nngp - nngp)) <= 1e-13
    assert np.max(np.abs(found.ntk - (nngp + ntk))) <= 1e-13
    shares = N.Sequential(N.Parallel(*(N.Sequential(*p.layers) for p in parts)), N.Concatenate(), N.Dense(1))
    assert np.max(np.abs(shares.kernel(x, engine="cpu").nngp - nngp / 2)) <= 1e-13


@pytest.mark.parametrize("engine", ["cpu", pytest.param("reference", marks=pytest.mark.slow)])
@pytest.mark.parametrize("join", [N.Sum(), N.Concatenate()])
@pytest.mark.parametrize("end", [(), (N.GlobalAvgPool(),), (N.Flatten(),)])
def test_one_branch_is_its_layers(end, join, engine, rng):
    first = (conv(), N.Relu()) if end else ()
    x = rng.standard_normal((3, 5, 4, 2) if end else (3, 4))
    for branch in ((N.Dense(1, b_std=0.2),), (N.Identity(),), (N.Dense(1), N.Relu(), N.Residual(N.Dense(1), N.Erf()))):
        alone = N.Sequential(*first, *end, N.Parallel(list(branch)), join, N.Dense(1)).kernel(x, engine=engine)
        plain = N.Sequential(*first, *end, *branch, N.Dense(1)).kernel(x, engine=engine)
        np.testing.assert_array_equal(alone.nngp, plain.nngp)
        np.testing.assert_array_equal(alone.ntk, plain.ntk)
        assert np.abs(plain.ntk).min() > 0


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 2)])
def test_branches_that_end_the_grid_are_joined_as_vectors(shape, rng):
    x = rng.standard_normal((3, *shape, 2))
    first, after = (N.Conv(1, (2,) * len(shape), b_std=0.3), N.Relu()), N.Dense(1, W_std=1.3, b_std=0.1)
    ends = [(N.GlobalAvgPool(), after), (N.Flatten(), after), (N.AvgPool(2), N.Flatten(), after)]
    each = [N.Sequential(*first, *end).kernel(x) for end in ends]
    found = N.Sequential(*first, N.Parallel(*map(list, ends)), N.Sum()).kernel(x)
    equal(found, sum_of(each))
    pooled, flat = (N.Sequential(*first, end).kernel(x) for end in (N.GlobalAvgPool(), N.Flatten()))
    joined = N.Sequential(*first, N.Parallel(N.GlobalAvgPool(), N.Flatten()), N.Concatenate()).kernel(x)
    positions = int(np.prod(shape))
    assert np.max(np.abs(joined.nngp * (1 + positions) - (pooled.nngp + positions * flat.nngp))) <= 1e-12


def sum_of(kernels):
    return SimpleNamespace(nngp=sum(k.nngp for k in kernels), ntk=sum(k.ntk for k in kernels))


NETWORKS = {
    "one torus and one broken": (N.Parallel([conv("circular"), N.Relu()], [conv(), N.Abs()]), N.Sum()),
    "strides and a shortcut": (
        N.Parallel([conv(stride=2), N.Relu(), conv()], N.Conv(1, 1, 2, "zero")), N.Sum(), N.Relu(),
    ),
    "branches in branches": (
        N.Parallel(
            [conv(), N.Parallel([N.Relu(), conv()], conv()), N.Sum(), N.Relu()], [N.Residual(conv(), N.Relu()), conv()]
        ), N.Concatenate(),
    ),
    "branches handed on": (N.Parallel(conv(), conv()), N.Parallel(N.Relu(), N.Erf()), N.Sum()),
    "normalisation in a branch": (
        conv(), N.LayerNorm(positions=True), N.Residual(conv(), N.LayerNorm(positions=True, eps=0.1), N.Relu())
    ),
    "normalisation after a pool": (conv(), N.Relu(), N.AvgPool(2), conv(), N.LayerNorm(positions=True), N.Relu()),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_they_are_those_of_the_reference_engine_and_of_all_pairs_of_positions(rng, name):
    x = rng.standard_normal((5, 6, 4, 5))
    x[3], x[4] = x[2], -x[2]
    first = conv("circular") if "torus" in name else conv()
    net = N.Sequential(first, N.Relu(), *NETWORKS[name], *END)
    check_cpu(net, x)
    # Over all pairs of positions distances are formed anew from covariances, and angles are their roots.
    wrapped = ("neural-tangents",) if "torus" in name or "strides" in name else ()  # refused by the usual convention
    masked, program = net.lowered(Masked(x, np.ones(x.shape[:-1], bool), *wrapped))
    equal(net.kernel(x, engine="cpu"), compute(program, masked, engine="reference"), 1e-10)


def test_what_mixes_offsets_runs_over_all_pairs(rng):
    pools = N.Sequential(
        conv(), N.Parallel([N.Relu(), conv()], conv()), N.Concatenate(), N.AvgPool(2), conv(), N.Relu(), N.Flatten()
    )
    with pytest.raises(InvalidArgumentError, match="parallel branches and pools between layers mix pair offsets"):
        pools.kernel(rng.standard_normal((2, 4, 4, 3)), engine="cpu")
