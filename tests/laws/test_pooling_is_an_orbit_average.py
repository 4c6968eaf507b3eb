"""Law: kernels of pooled networks are orbit averages of kernels of simpler networks.

For any finite group and any window, Θ^pool(f, f′) = (1/|G|) Σ_q Θ^flat(f, ρ(q) f′). With full windows the flattened
network is an MLP, with windows that all rotations preserve it is a CNN (arXiv 2406.06504, Theorems 5.2 and 5.3).
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import equitangents as et
from kernels.comparison import largest
from laws.networks import by_engines, got_pair, network, plane_group, small_group
from laws.random_networks import DENSE, lifted_networks
from oracles import finite_groups

n = et.nn
SLOW = pytest.mark.slow


def assert_same(a, b, x, rtol=1e-12):
    """Equal kernels, up to rounding; a and b map (x, x) to kernels. Returns the larger relative error."""
    worst = 0.0
    for one, other in zip(got_pair(a(x, x)), got_pair(b(x, x)), strict=True):
        worst = float(np.max([worst, largest(one, other, np.diag(one), np.diag(one))]))
    assert worst <= rtol, f"the kernels differ by {worst:.2e} (relative), allowed {rtol:.0e}"
    return worst


def mean_of(net, moves):
    """The kernels' mean over a list of moved second arguments."""

    def kernel(x1, x2):
        parts = [net.kernel(x1, move(x2)) for move in moves]
        return et.kernels.Kernels(*(np.mean([getattr(k, name) for k in parts], axis=0) for name in ("nngp", "ntk")))

    return kernel


def moves_of(action_table, table):
    """(ρ(q) f)(x) = f(q⁻¹x), for signals (N, P, C)."""
    return [lambda f, at=action_table[q]: f[:, at] for q in finite_groups.inverses(table)]


@pytest.mark.slow
@given(lifted_networks())
@settings(max_examples=25)
def test_pooling_averages_flattening_over_the_orbit_of_many(case):
    layers, _, table, action, x = case
    body, head = network([*layers, DENSE], action=action).layers[:-1], n.Dense(1, W_std=1.1, b_std=0.3)
    pooled, flat = n.Sequential(*body, n.GroupPool(), head), n.Sequential(*body, n.Flatten(), head)
    assert_same(pooled.kernel, mean_of(flat, moves_of(layers[0][1], table)), x)


@pytest.mark.slow
@by_engines("name", list(finite_groups.SMALL), list(finite_groups.SMALL), [])
def test_full_windows_make_an_mlp(engine, name):
    group, table = small_group(name)
    inside = finite_groups.subgroup(table, [1])
    positions = finite_groups.coset_action(table, inside)
    action = et.actions.permutations(group, positions)
    one, two = {"W_std": 1.4, "b_std": 0.1}, {"W_std": 1.2, "b_std": 0.3}
    head = n.Dense(1, W_std=1.1, b_std=0.2)
    gcnn = n.Sequential(n.Lift(action, 3, **one), n.Relu(), n.GroupConv(3, **two), n.Erf(), n.GroupPool(), head)
    mlp = n.Sequential(n.Flatten(), n.Dense(3, **one), n.Relu(), n.Dense(3, **two), n.Erf(), head)
    x = np.random.default_rng(1).standard_normal((3, positions.shape[1], 2))
    assert_same(gcnn.kernel, mean_of(mlp, moves_of(positions, table)), x)
    assert_same(gcnn.kernel, et.kernels.orbit_average(mlp, action).kernel, x)


def _roto_translations(size, window, rotations=4):
    group, _, _ = plane_group(rotations, 0, (size, size))
    one, two = {"window": window, "W_std": 1.4, "b_std": 0.1}, {"window": window, "W_std": 1.3, "b_std": 0.2}
    lifted = n.Lift(group, 3, **one), n.Relu(), n.GroupConv(3, **two), n.Erf(), n.GroupPool(), n.Dense(1)
    plain = n.Conv(3, **one), n.Relu(), n.Conv(3, **two), n.Erf(), n.GlobalAvgPool(), n.Dense(1)
    turns = [lambda f, k=k: np.rot90(f, k * (4 // rotations), axes=(1, 2)) for k in range(rotations)]
    x = np.random.default_rng(size).standard_normal((3, size, size, 2))
    return n.Sequential(*lifted), n.Sequential(*plain), turns, x


@pytest.mark.slow
@pytest.mark.parametrize(("size", "window", "rotations"), [(4, (3, 3), 4), (5, (3, 3), 4), (4, (1, 3), 2)])
def test_symmetric_windows_average_the_pooled_cnn_over_rotations(size, window, rotations):
    gcnn, cnn, turns, x = _roto_translations(size, window, rotations)
    assert_same(gcnn.kernel, mean_of(cnn, turns), x)
    assert_same(gcnn.kernel, et.kernels.orbit_average(cnn, et.actions.image_rotations(rotations)).kernel, x)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "window"), [(4, (1, 3)), (5, (2, 2)), (4, (2, 3))])
def test_other_windows_do_not(size, window):
    gcnn, cnn, turns, x = _roto_translations(size, window)
    with pytest.raises(AssertionError, match="differ by"):
        assert_same(gcnn.kernel, mean_of(cnn, turns), x, rtol=1e-4)


SHAPES = [((3, 4),), ((6,),), ((2, 3, 2),)]


@by_engines("shape", SHAPES, SHAPES, [])
def test_pooled_cnns_average_flattened_ones_over_translations(engine, shape):
    body = [
        n.Conv(3, (3, 2, 2)[: len(shape)], W_std=1.4, b_std=0.1),
        n.Relu(),
        n.Conv(3, (2, 2, 1)[: len(shape)], b_std=0.2),
        n.Relu(),
    ]
    pooled = n.Sequential(*body, n.GlobalAvgPool(), n.Dense(1))
    flat = n.Sequential(*body, n.Flatten(), n.Dense(1))
    axes = tuple(range(1, 1 + len(shape)))
    shifts = [lambda f, s=s: np.roll(f, s, axes) for s in np.ndindex(*shape)]
    x = np.random.default_rng(3).standard_normal((3, *shape, 2))
    assert_same(pooled.kernel, mean_of(flat, shifts), x)


def test_zero_padding_breaks_the_translation_average():
    body = [n.Conv(3, (3, 3), padding="zero"), n.Relu()]
    pooled = n.Sequential(*body, n.GlobalAvgPool(), n.Dense(1))
    flat = n.Sequential(*body, n.Flatten(), n.Dense(1))
    shifts = [lambda f, s=s: np.roll(f, s, (1, 2)) for s in np.ndindex(4, 4)]
    x = np.random.default_rng(4).standard_normal((3, 4, 4, 2))
    with pytest.raises(AssertionError, match="differ by"):
        assert_same(pooled.kernel, mean_of(flat, shifts), x, rtol=1e-3)


def test_coset_pooling_averages_over_the_subgroup():
    # Cosets gH: the pooled, flattened kernel is the mean over h in H of K_{g, gh}, the offsets q = g h g⁻¹.
    # For a normal subgroup those are the flattened network's orbit average over H.
    group, table = small_group("D4")
    center = next(
        s
        for a in range(8)
        if len(s := finite_groups.subgroup(table, [a])) == 2
        and all(sorted(table[g, s]) == sorted(table[s, g]) for g in range(8))
    )
    action = et.actions.permutations(group, table)
    body = [n.Lift(action, 3, window=[0, 3, 4]), n.Relu(), n.GroupConv(3, window=[1, 2]), n.Relu()]
    pooled = n.Sequential(*body, n.GroupPool(group.subgroup(center)), n.Flatten(), n.Dense(1))
    flat = n.Sequential(*body, n.Flatten(), n.Dense(1))
    inverse = finite_groups.inverses(table)
    moves = [lambda f, at=table[inverse[q]]: f[:, at] for q in center]
    x = np.random.default_rng(5).standard_normal((3, 8, 2))
    assert_same(pooled.kernel, mean_of(flat, moves), x)
