"""Law: kernels of outputs that turn are the literal double sums over the group, and turn as they should."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given

import equitangents as et
from examples import examples
from laws.joint import limit_of_the_largest
from laws.networks import network
from laws.random_networks import lifted_networks
from oracles import literal_kernels

n = et.nn


def readout_net(layers, action, representation, **scales):
    return n.Sequential(
        *network([*layers, ("dense", 1, 0)], action=action).layers[:-1], n.Readout(representation, **scales)
    )


def literal(layers, rho, x, W, b):
    """W² (1/|G|²) Σ_gh ρ(g) ρ(h)ᵀ K(g, h) + b² P, and the same of the tangent kernel on top."""
    fields = literal_kernels.run(layers, literal_kernels.start(x))
    project = lambda K: np.einsum("gac,hbc,igjh->ijab", rho, rho, K) / len(rho) ** 2
    nngp = W**2 * project(fields.K) + b**2 * rho.mean(axis=0)
    return nngp, nngp + W**2 * project(fields.T)


@given(lifted_networks())
@examples(4, random=40)
def test_kernels_are_the_literal_double_sums(case):
    """Of all irreps together, as independent blocks."""
    layers, group, _, action, x = case
    whole = et.groups.direct_sum(*group.irreps("real"))
    got = readout_net(layers, action, whole, W_std=1.2, b_std=0.3).kernel(x[:2], x)
    exact = literal(layers, whole.at(group), x, 1.2, 0.3)
    scale = max(np.abs(np.einsum("iiaa->ia", exact[1])).max(), 1e-3)
    for value, expected in zip((got.nngp, got.ntk), exact, strict=True):
        assert value.shape == (2, 3, whole.dimension, whole.dimension)
        assert np.abs(value - expected[:2]).max() <= 1e-12 * scale


@given(lifted_networks())
@examples(4, random=40)
def test_kernels_turn_with_either_input_and_are_positive(case):
    layers, group, _, action, x = case
    rng = np.random.default_rng(len(x))
    whole = et.groups.direct_sum(*group.irreps("real"))
    net = readout_net(layers, action, whole, b_std=0.3)
    base, g, h = net.kernel(x, x), *rng.integers(group.order, size=2)
    moved = net.kernel(np.asarray(action(int(g), x)), np.asarray(action(int(h), x)))
    for a, b in ((base.nngp, moved.nngp), (base.ntk, moved.ntk)):
        assert np.abs(whole(g) @ a @ whole(h).T - b).max() <= 1e-12 * np.abs(a).max()
    own = net.kernel(x)
    np.testing.assert_allclose(own.ntk, base.ntk, rtol=0, atol=1e-12 * np.abs(base.ntk).max())
    np.testing.assert_array_equal(own.ntk, own.ntk.transpose(1, 0, 3, 2))
    np.testing.assert_allclose(net.kernel_diagonal(x).ntk, np.einsum("iiab->iab", base.ntk), rtol=0, atol=1e-12)
    matrix = own.ntk.transpose(0, 2, 1, 3).reshape(len(x) * whole.dimension, -1)
    assert np.linalg.eigvalsh(matrix)[0] >= -1e-12 * np.trace(matrix)


def on_itself(group, *after, window="full"):
    action = et.actions.permutations(group, group.table)
    return action, (n.Lift(action, 6, window=window, W_std=1.3, b_std=0.2), n.Relu(), *after)


S3 = et.groups.symmetric(3)
X = np.random.default_rng(0).normal(size=(3, 6, 2))


def test_the_regular_representation_has_the_whole_kernel_between_group_elements():
    """Up to |G|: a value of a signal is √|G| times its coordinate in an orthonormal basis."""
    layers = [("lift", S3.table, [1, 4], None, 1.3, 0.2), ("phi", "relu")]
    last = ("group_conv", S3.table, list(range(6)), None, 1.1, 0.0)
    action = et.actions.permutations(S3, S3.table)
    net = readout_net(layers, action, et.groups.regular(S3), W_std=1.1 * 6**0.5)
    fields = literal_kernels.run([*layers, last], literal_kernels.start(X))
    got = net.kernel(X)
    np.testing.assert_allclose(got.nngp, fields.K.transpose(0, 2, 1, 3), rtol=0, atol=1e-13)
    np.testing.assert_allclose(got.ntk, fields.T.transpose(0, 2, 1, 3), rtol=0, atol=1e-13)


def test_the_noise_of_an_input_meets_itself_at_each_group_element_alone():
    """The kernel with dropout is the literal double sum over its field."""
    _, layers = on_itself(S3, n.Dropout(0.4), n.GroupConv(6, [0, 1]), n.Relu(), n.Dropout(0.3), window=[0, 2])
    whole = et.groups.direct_sum(*S3.irreps("real"))
    net, field = n.Sequential(*layers, n.Readout(whole)), n.Sequential(*layers).kernel_field(X)
    nngp, ntk = (np.einsum("gac,hbc,igjh->ijab", *2 * [whole.at(S3)], K) / 36 for K in (field.nngp, field.ntk))
    for found, axes in ((net.kernel(X), "ijab->ijab"), (net.kernel_diagonal(X), "iiab->iab")):
        np.testing.assert_allclose(found.nngp, np.einsum(axes, nngp), rtol=0, atol=1e-14)
        np.testing.assert_allclose(found.ntk, np.einsum(axes, nngp + ntk), rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    "group",
    [et.groups.quaternion(), *(pytest.param(g, marks=pytest.mark.slow) for g in (S3, et.groups.cyclic(5)))],
    ids=lambda g: g.name,
)
def test_finite_networks_are_exactly_equivariant(group):
    """Irreps of real, complex and quaternionic type."""
    action, layers = on_itself(group, window=[0, 1])
    rho = et.groups.direct_sum(*group.irreps("real"))
    net = n.Sequential(*layers, n.Readout(rho, b_std=0.4))
    x = np.random.default_rng(1).normal(size=(2, group.order, 2))
    params = net.init(jax.random.key(0), x.shape[1:], dtype="float64")
    y = np.asarray(net.apply(params, action.orbit(x).reshape(-1, *x.shape[1:]))).reshape(group.order, 2, -1)
    assert y.shape[2] == rho.dimension
    np.testing.assert_allclose(y, np.einsum("gab,nb->gna", rho.at(group), y[group.identity]), atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("group", [S3, et.groups.cyclic(5), et.groups.quaternion()], ids=lambda g: g.name)
def test_kernels_are_the_means_over_random_networks(group):
    """One hidden layer, whose mean does not depend on the width; 4,000 networks, the largest deviation."""
    _, layers = on_itself(group, window=[0, 1])
    x = np.random.default_rng(1).normal(size=(2, group.order, 2))
    scores = []
    for i, irrep in enumerate(group.irreps("real")):
        net = n.Sequential(*layers, n.Readout(irrep, W_std=1.2, b_std=0.3))
        exact = net.kernel(x)
        found = et.kernels.monte_carlo(net, x, key=jax.random.key(100 + i), samples=4000, dtype="float64")
        assert found.ntk.shape == (2, 2, irrep.dimension, irrep.dimension)
        scores += [(found.nngp - exact.nngp) / found.nngp_std_error, (found.ntk - exact.ntk) / found.ntk_std_error]
    z = np.concatenate([np.abs(score).ravel() for score in scores])
    assert np.max(z) <= limit_of_the_largest(len(z), 4000, verdicts=3)


PLANE = et.groups.wallpaper(rotations=4, reflections=True, shape=(4, 4))


@pytest.mark.parametrize("kind", ["vector of O(2)", "irrep of D4"])
def test_images_give_vectors_that_turn_with_them_and_do_not_feel_shifts(kind):
    irrep = et.groups.o2().irreps(2)[2] if kind == "vector of O(2)" else et.groups.dihedral(4).irreps("real")[-1]
    net = n.Sequential(n.Lift(PLANE, 4, window=(2, 3)), n.Relu(), n.Readout(irrep))
    x = np.random.default_rng(0).normal(size=(2, 4, 4, 1))
    turns = et.actions.image_dihedral(4)
    shifted = np.roll(x, (1, 2), axis=(1, 2))
    base = net.kernel(x, x).ntk
    assert np.abs(base).max() > 1e-4
    np.testing.assert_allclose(net.kernel(shifted, x).ntk, base, atol=1e-15)
    rho = et.groups.direct_sum(irrep).at(turns.group)
    for g in (1, 3, 4, 6):
        np.testing.assert_allclose(net.kernel(turns(g, x), x).ntk, rho[g] @ base, atol=1e-15)


@pytest.mark.parametrize("reflections", [False, True], ids=["SO(3)", "O(3)"])
def test_vectors_of_signals_on_the_sphere_turn_with_them(reflections):
    group = (et.groups.o3 if reflections else et.groups.so3)(3)
    vector = group.irreps(2)[-1]
    net = n.Sequential(n.SphereLift(group, 4, resolution=7), n.Erf(), n.Readout(vector))
    x = 0.5 * np.random.default_rng(0).normal(size=(2, 9, 1))
    R, S = group.random(2, seed=1)
    found = net.kernel(x)
    assert found.resolution == 7
    turned = net.kernel(et.sphere.rotate(x, R), et.sphere.rotate(x, S)).ntk
    np.testing.assert_allclose(turned, vector(R) @ found.ntk @ vector(S).T, atol=1e-6 * np.abs(found.ntk).max())


@pytest.mark.slow
def test_the_resolution_of_a_readout_meets_the_tolerance():
    group = et.groups.so3(3)
    x = 0.5 * np.random.default_rng(0).normal(size=(2, 9, 1))
    lift = lambda **how: n.SphereLift(group, 4, **how)
    for irrep in group.irreps(3):
        layers = (n.Erf(), n.Readout(irrep))
        found = n.Sequential(lift(tolerance=1e-5), *layers).kernel(x)
        fine = n.Sequential(lift(resolution=20), *layers).kernel(x)
        assert found.error_estimate <= 1e-5
        assert found.resolution < 20
        assert np.abs(found.ntk - fine.ntk).max() <= 2e-5 * np.abs(fine.ntk).max()


def test_irreps_of_rotations_act_for_the_rotations_of_a_cube():
    octahedral, vector = et.groups.octahedral(), et.groups.so3(2).irreps(2)[1]
    net = n.Sequential(n.SphereLift(octahedral, 4), n.Relu(), n.Readout(vector))
    x = np.random.default_rng(0).normal(size=(2, 9, 1))
    found = net.kernel(x, x).ntk
    R = octahedral.matrices[7]
    np.testing.assert_allclose(net.kernel(et.sphere.rotate(x, R), x).ntk, vector(R) @ found, atol=1e-13)


def test_float32_inputs_give_float32_kernels_near_those_in_float64():
    _, layers = on_itself(S3)
    net = n.Sequential(*layers, n.Readout(S3.irreps("real")[2]))
    single = net.kernel(X.astype(np.float32)).ntk
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, net.kernel(X).ntk, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_the_reference_engine_agrees_and_is_differentiable():
    _, layers = on_itself(S3)
    net = n.Sequential(*layers, n.Readout(S3.irreps("real")[2]))
    np.testing.assert_allclose(net.kernel(X, engine="reference").ntk, net.kernel(X).ntk, atol=1e-14)
    with jax.enable_x64(True):
        inside = jax.jit(lambda x: net.kernel(x, X).ntk)(X)
        np.testing.assert_allclose(inside, net.kernel(X, X).ntk, atol=1e-13)
        slope = jax.jacfwd(lambda t: net.kernel(X[:1] + t, X[1:]).ntk)(0.0)
    step = 1e-5
    by_steps = (net.kernel(X[:1] + step, X[1:]).ntk - net.kernel(X[:1] - step, X[1:]).ntk) / (2 * step)
    np.testing.assert_allclose(slope, by_steps, atol=1e-8)
