"""Law: the kernel field of a network that ends on positions is the literal sum at every pair of positions.

It moves with its inputs, Θ(ρ(g)x, ρ(g)x′) = ρ_K(g) Θ(x, x′) ρ_K(g)ᵀ, and pooled it is the pooled kernel.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import equitangents as et
from examples import examples
from laws.networks import by_engines, got_pair, network, plane_group, small_group
from laws.random_networks import DENSE, grid_networks, lifted_networks
from laws.test_grid_kernels import COS, ERF, RELU, TABLE, conv, pool, res, vconv, zconv, zlocal
from oracles import finite_groups, literal_kernels

n = et.nn
SLOW = pytest.mark.slow
READOUTS = ("flatten", "global_pool")


def check_field(layers, x1, x2, rtol=1e-11, **kwargs):
    """All parts of the package's field are the literal sums at their pairs of positions; returns the network."""
    net = network(layers, out=3, **kwargs)
    fields = literal_kernels.run(layers, literal_kernels.start(np.concatenate([x1, x2])))
    count, own = fields.K.shape[1], fields.variance
    scale = np.sqrt(own[: len(x1), :, None, None] * own[len(x1) :])
    whole, same = (net.kernel_field(x1, x2, positions=p) for p in ("all", "same"))
    for name, literal in (("nngp", fields.K), ("ntk", fields.T)):
        expected = literal[: len(x1), :, len(x1) :]
        error = np.abs(np.asarray(getattr(whole, name)) - expected) / np.where(scale > 0, scale, 1)
        assert error.shape == (len(x1), count, len(x2), count)
        assert np.max(error) <= rtol, f"{name} is off by {np.max(error):.2e} (relative), allowed {rtol:.0e}\n{net}"
        values = getattr(whole, name)
        np.testing.assert_allclose(getattr(same, name), np.einsum("ipjp->ijp", values), rtol=rtol, atol=rtol)
    return net


def without_readout(layers):
    end = next((i for i, layer in enumerate(layers) if layer[0] in READOUTS), len(layers))
    return layers[:end]


CASES = {
    "zero": ((4, 5), [zconv((3, 3)), RELU, zconv((2, 3))]),
    "circular, ends on a nonlinearity": ((4, 3), [conv((3, 3)), RELU, conv((2, 2)), ERF]),
    "strides": ((6, 4), [conv((3, 3), (2, 2)), RELU, conv((3, 3))]),
    "strides that mix pair offsets": ((5, 6), [conv((3, 3), (2, 2)), RELU, conv((3, 3))]),
    "valid": ((5, 5), [vconv((2, 2)), RELU, vconv((3, 3))]),
    "locally connected": ((4, 4), [conv((3, 3)), RELU, zlocal((2, 2)), RELU, zconv((2, 2))]),
    "pool between": ((4, 5), [zconv((3, 3)), ERF, pool(2, 2), conv((2, 2)), RELU]),
    "pool at the end": ((4, 4), [zconv((3, 3)), RELU, pool(2, 2)]),
    "residual of means": ((3, 4), [conv((2, 2)), COS, res(conv((2, 3)), RELU), DENSE]),
    "one dimension": ((19,), [zconv((3,)), RELU, zconv((4,)), DENSE]),
    "longer than a vector": ((2, 18), [conv((1, 3)), RELU, conv((2, 2))]),
}


@pytest.mark.quick(1)
@by_engines("name", CASES, CASES.keys() - {"strides that mix pair offsets"}, {"zero"})
def test_fields_are_the_literal_sums_at_all_pairs_of_positions(engine, name):
    grid, layers = CASES[name]
    x = np.random.default_rng(len(name)).standard_normal((5, *grid, 2))
    check_field(layers, x[:2], x[2:])


@SLOW
@pytest.mark.parametrize("name", [k for k, (_, layers) in TABLE.items() if without_readout(layers)])
def test_every_network_on_a_grid_has_the_literal_field(name):
    grid, layers = TABLE[name]
    x = np.random.default_rng(len(name)).standard_normal((3, *grid, 2))
    check_field(without_readout(layers), x[:2], x[2:])


@given(grid_networks())
@examples(3, random=15)
def test_random_networks_on_grids_have_the_literal_field(case):
    layers, x = case
    check_field(without_readout(layers), x[:1], x[1:])


@given(lifted_networks())
@examples(3, random=15)
def test_random_networks_on_groups_have_the_literal_field(case):
    layers, _, _, action, x = case
    check_field(layers, x[:1], x[1:], action=action)


@by_engines("window", ["part", "full"], {"part", "full"}, set())
def test_fields_on_a_group_and_on_its_cosets_are_literal(engine, window):
    group, table = small_group("S3")
    action = et.actions.permutations(group, table)
    lift = ("lift", table, [0, 1, 4] if window == "part" else list(range(6)), None, 1.3, 0.2)
    layers = [lift, RELU, ("group_conv", table, [1, 2, 3], None, 1.1, 0.0), ERF]
    x1, x2 = np.random.default_rng(8).standard_normal((2, 3, 6, 2))
    check_field(layers, x1, x2, action=action)
    inside = finite_groups.subgroup(table, [1])
    cosets = ("coset_pool", finite_groups.left_cosets(table, inside))
    check_field([*layers, cosets], x1, x2, action=action, subgroup=group.subgroup(inside))


@pytest.mark.parametrize("net", [
    n.Sequential(n.Conv(1, (3, 3), W_std=1.4, b_std=0.2), n.Relu(), n.Conv(1, (3, 3))),
    pytest.param(n.Sequential(n.Conv(1, (3, 3), padding="zero", b_std=0.2), n.Erf(), n.Conv(1, 3, padding="zero")),
                 marks=SLOW),
])  # fmt: skip
def test_fields_move_with_their_inputs(net):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((3, 5, 5, 2))
    number = np.arange(25).reshape(5, 5)
    field = net.kernel_field(x[:2], x)
    turns = [lambda a, k=k, m=m: np.rot90(a[:, ::m], k, axes=(1, 2)) for k in range(4) for m in (1, -1)]
    shifts = [lambda a, s=s: np.roll(a, s, axis=(1, 2)) for s in ((1, 0), (2, 3))]
    for move in turns + (shifts if net.layers[0].padding == "circular" else []):
        at = move(number[None])[0].ravel()  # position p of what is moved comes from at[p]
        for name in ("nngp", "ntk"):
            moved = getattr(net.kernel_field(move(x[:2]), move(x)), name)
            expected = getattr(field, name)[:, at][..., at]
            assert np.max(np.abs(moved - expected)) <= 1e-12 * np.max(expected)


def test_fields_on_a_group_move_by_left_translation():
    group, table, _ = plane_group(4, 0, (3, 3))
    lift = n.Lift(et.actions.permutations(group, table), 1, window=[0, 3, 7, 11], b_std=0.3)
    net = n.Sequential(lift, n.Relu(), n.GroupConv(1, window=[1, 4, 30]), n.Erf())
    x = np.random.default_rng(1).standard_normal((2, len(table), 1))
    field = net.kernel_field(x)
    for g in (1, 5, 30):
        at = np.argsort(table[g])  # (ρ(g)f)(h) = f(g⁻¹h)
        for name in ("nngp", "ntk"):
            moved, expected = getattr(net.kernel_field(x[:, at]), name), getattr(field, name)[:, at][..., at]
            assert np.max(np.abs(moved - expected)) <= 1e-12 * np.max(expected)


@pytest.mark.parametrize("padding", ["circular", "zero"])
def test_a_pooled_field_is_the_pooled_kernel(padding):
    layers = (n.Conv(1, (3, 3), padding=padding, b_std=0.1), n.Relu(), n.Conv(1, (2, 3), padding=padding), n.Relu())
    x = np.random.default_rng(2).standard_normal((4, 4, 6, 1))
    field, own = n.Sequential(*layers).kernel_field(x), n.Sequential(*layers).kernel_field_diagonal(x)
    pooled, flat = (got_pair(n.Sequential(*layers, end).kernel(x)) for end in (n.GlobalAvgPool(), n.Flatten()))
    for name, gap, vec in zip(("nngp", "ntk"), pooled, flat, strict=True):
        values = getattr(field, name)
        np.testing.assert_allclose(values.mean(axis=(1, 3)), gap, rtol=1e-13)
        np.testing.assert_allclose(np.einsum("ipjp->ij", values) / 24, vec, rtol=1e-13)
        np.testing.assert_array_equal(values, values.transpose(2, 3, 0, 1))
        each = np.stack([values[i, :, i] for i in range(4)])
        np.testing.assert_allclose(getattr(own, name), each, rtol=1e-13, atol=1e-15)
