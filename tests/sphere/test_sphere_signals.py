"""Harmonics, grids, transforms and rotations of signals on the sphere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents import groups, sphere
from equitangents.errors import EquitangentsError
from equitangents.sphere.directions import legendre_coefficients
from oracles import literal_rotations

BANDLIMITS = st.integers(1, 9)
SEEDS = st.integers(0, 2**31)


def unit(rng, n):
    x = rng.normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@given(BANDLIMITS, SEEDS)
def test_harmonics_are_those_of_scipy(bandlimit, seed):
    x = unit(np.random.default_rng(seed), 5)
    assert np.allclose(
        sphere.harmonics(x, bandlimit), literal_rotations.harmonics(x, bandlimit), rtol=0, atol=1e-12 * bandlimit
    )


def test_the_first_harmonics_are_y_z_x():
    x = unit(np.random.default_rng(0), 4)
    assert np.allclose(sphere.harmonics(x, 2)[:, 1:], np.sqrt(3 / (4 * np.pi)) * x[:, [1, 2, 0]])
    assert sphere.degrees(3).tolist() == [0, 1, 1, 1, 2, 2, 2, 2, 2]


@given(BANDLIMITS, SEEDS)
def test_round_trips_are_exact(bandlimit, seed):
    c = np.random.default_rng(seed).normal(size=(2, bandlimit**2, 3))
    assert np.allclose(sphere.from_grid(sphere.to_grid(c)), c, rtol=0, atol=1e-12)
    finer = sphere.to_grid(c, bandlimit + 2)
    again = sphere.project(finer, bandlimit)
    assert np.allclose(again.coefficients, c, rtol=0, atol=1e-12)
    assert np.max(again.lost_power) < 1e-24


@pytest.mark.parametrize("bandlimit", [16, 32])
def test_round_trips_are_exact_at_large_bandlimits(bandlimit):
    c = np.random.default_rng(0).normal(size=(1, bandlimit**2, 1))
    assert np.allclose(sphere.from_grid(sphere.to_grid(c)), c, rtol=0, atol=1e-12)


@given(bandlimit=st.integers(1, 8))
def test_quadrature_is_exact_for_products(bandlimit):
    grid = sphere.gauss_legendre(bandlimit)
    Y = sphere.harmonics(grid.points, bandlimit).reshape(-1, bandlimit**2)
    assert np.allclose(Y.T @ (grid.weights.reshape(-1, 1) * Y), np.eye(bandlimit**2), atol=1e-13)


@given(BANDLIMITS, SEEDS)
def test_lost_power_is_that_of_the_degrees_cut(bandlimit, seed):
    c = np.random.default_rng(seed).normal(size=(2, (bandlimit + 2) ** 2, 1))
    found = sphere.project(sphere.to_grid(c), bandlimit)
    lost = (c[:, bandlimit**2 :] ** 2).sum(1) / (c**2).sum(1)
    assert np.allclose(found.lost_power, lost, rtol=1e-10)


def test_signals_outside_the_bandlimit_are_refused():
    with pytest.raises(EquitangentsError, match=r"outside the grid's bandlimit.*sphere\.project"):
        sphere.from_grid(np.random.default_rng(0).normal(size=(1, 3, 5, 1)))
    values = sphere.to_grid(np.random.default_rng(0).normal(size=(1, 9, 1)))
    values[0, 0, 0] += 1e-6  # a share of 1e-13 of the power, far above rounding
    with pytest.raises(EquitangentsError, match=r"outside the grid's bandlimit"):
        sphere.from_grid(values)


@given(BANDLIMITS, SEEDS, st.booleans())
def test_rotated_signals_take_their_values_at_rotated_points(bandlimit, seed, reflect):
    rng = np.random.default_rng(seed)
    R = groups.so3(1).random(1, seed)[0] * (-1 if reflect else 1)
    c, x = rng.normal(size=(2, bandlimit**2, 2)), unit(rng, 6)
    turned = np.einsum("pk,nkc->npc", literal_rotations.harmonics(x, bandlimit), sphere.rotate(c, R))
    still = np.einsum("pk,nkc->npc", literal_rotations.harmonics(x @ R, bandlimit), c)  # R⁻¹x
    assert np.allclose(turned, still, rtol=0, atol=1e-11)


@given(BANDLIMITS, SEEDS)
def test_wigner_matrices_are_an_orthogonal_representation(bandlimit, seed):
    R, S = groups.o3(1).random(2, seed)
    for l, (r, s, product) in enumerate(zip(*(sphere.wigner(M, bandlimit) for M in (R, S, R @ S)), strict=True)):
        assert r.shape == (2 * l + 1, 2 * l + 1)
        assert np.allclose(r @ s, product, rtol=0, atol=1e-12)
        assert np.allclose(r @ r.T, np.eye(2 * l + 1), rtol=0, atol=1e-12)


def test_many_rotations_at_once():
    rng = np.random.default_rng(0)
    R, c = groups.so3(1).random(3), rng.normal(size=(2, 9, 1))
    assert np.allclose(sphere.rotate(c, R), np.stack([sphere.rotate(c, r) for r in R]), atol=1e-14)


def test_bumps_around_directions():
    rng = np.random.default_rng(0)
    r, w = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 4, 2))
    delta = sphere.from_directions(r, w, 5)
    literal = np.einsum("npk,npc->nkc", literal_rotations.harmonics(r / np.linalg.norm(r, axis=-1)[..., None], 5), w)
    assert np.allclose(delta, literal, atol=1e-13)
    assert np.array_equal(sphere.from_directions(r, w[..., 0], 5), sphere.from_directions(r, w[..., :1], 5))
    wide = sphere.from_directions(r, w, 5, 0.3)
    l = sphere.degrees(5)[:, None]
    assert np.allclose(wide, delta * np.exp(-l * (l + 1) * 0.09 / 2), atol=1e-13)
    R = groups.so3(1).random(1)[0]
    assert np.allclose(sphere.from_directions(r @ R.T, w, 5, 0.3), sphere.rotate(wide, R), atol=1e-12)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("dtype", "lengths"),
    [(np.float64, (1e-300, 1e-170, 1e-150, 1e160, 1e305)), (np.float32, (1e-36, 1e-24, 1e-17, 1e19, 1e37))],
)
def test_lengths_of_directions_do_not_matter(dtype, lengths):
    rng = np.random.default_rng(0)
    r, w = rng.normal(size=(2, 4, 3)).astype(dtype), rng.normal(size=(2, 4, 2)).astype(dtype)
    tolerance = 100 * np.finfo(dtype).eps
    for length in lengths:
        moved = r * dtype(length)
        make = lambda r: sphere.from_directions(r, w, 3)
        assert np.allclose(make(moved), make(r), rtol=0, atol=tolerance), length
    with jax.enable_x64(dtype == np.float64):
        power = lambda r: (sphere.from_directions(r, jnp.asarray(w), 3)[:, 1:] ** 3).sum()
        slope = jax.jit(jax.grad(power))
        short = dtype(lengths[1])
        found = np.asarray(slope(jnp.asarray(r * short))) * short
        assert np.allclose(found, slope(jnp.asarray(r)), rtol=0, atol=1e3 * tolerance)


@pytest.mark.slow
def test_signals_have_derivatives_also_at_the_poles():
    def power(z):
        c = sphere.from_directions(z, jnp.ones((1, 2, 1)), 4, 0.2)
        return (c[:, 1:] ** 2).sum()

    with jax.enable_x64(True):
        z = jnp.asarray([[[0.0, 0.0, 2.0], [0.3, 0.4, -1.0]]])
        both = jax.jit(lambda z: (jax.hessian(power)(z), jax.grad(power)(z)))
        hessian, slope = both(z)[0], lambda z: both(z)[1]
        assert np.isfinite(hessian).all()
        e = 1e-4 * np.eye(6).reshape(6, 1, 2, 3)
        difference = np.array([(slope(z + d) - slope(z - d)) / 2e-4 for d in e])
        assert np.allclose(difference.reshape(6, 6), hessian.reshape(6, 6), atol=1e-6)


@pytest.mark.slow
def test_arrays_keep_their_kind_and_precision():
    c = np.random.default_rng(0).normal(size=(2, 9, 1)).astype(np.float32)
    R = groups.so3(1).random(1)[0]
    for values in (sphere.to_grid(c), sphere.rotate(c, R)):
        assert isinstance(values, np.ndarray)
        assert values.dtype == np.float32
    for values in (sphere.to_grid(jnp.asarray(c)), sphere.rotate(jnp.asarray(c), R), sphere.harmonics(jnp.eye(3), 2)):
        assert isinstance(values, jax.Array)
    assert np.allclose(sphere.from_grid(sphere.to_grid(c)), c, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sphere.to_grid(np.ones((1, 5, 1))), "not a square"),
        (lambda: sphere.to_grid(np.ones((1, 4, 1)), bandlimit=1), "at least 2"),
        (lambda: sphere.from_grid(np.ones((1, 3, 4, 1))), "expected"),
        (lambda: sphere.project(np.ones((1, 3, 5, 1)), 4), "expected 1 to 3; the grid has no more"),
        (lambda: sphere.rotate(np.ones((1, 4, 1)), 2 * np.eye(3)), "expected orthogonal matrices"),
        (lambda: sphere.harmonics(np.ones((2, 2)), 2), "expected vectors"),
        (lambda: sphere.harmonics(np.ones(3), 0), "at least 1 and at most"),
        (lambda: sphere.harmonics(np.ones(3), 2.5), "whole number"),
        (lambda: sphere.from_directions(np.zeros((1, 2, 3)), np.ones((1, 2, 1)), 2), "no direction"),
        (lambda: sphere.from_directions(np.ones((1, 2, 3)), np.ones((1, 3, 1)), 2), "weights has shape"),
        (lambda: sphere.from_directions(np.ones((1, 2, 3)), np.ones((1, 2, 1)), 2, -1.0), "width"),
        (lambda: sphere.from_directions(np.ones((1, 2, 3)), np.ones((1, 2, 1)), 2, "a"), "width is 'a'"),
        (lambda: sphere.from_directions(np.ones((1, 2, 3)), np.ones((1, 2, 1)), 2, None), "width is None"),
        (lambda: legendre_coefficients(None, 2), "profile is None"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(EquitangentsError, match=message):
        call()
