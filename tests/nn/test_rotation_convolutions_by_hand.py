"""Convolutions on rotations against integrals written out, and the windows and white noise of their filters."""

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents.nn import GroupConv
from equitangents.nn.signal import OnRotations, Signal
from equitangents.nn.sphere_lift import ZonalWindow, rotation_root, sphere_root
from equitangents.sphere import wigner

DIMENSION = np.repeat([1.0, 3.0], [1, 9])  # 2l + 1 of every entry of D^0 and D^1


def functions(matrices):
    """(2l + 1) D^l_mn at rotations (..., 3, 3)."""
    flat = [d.reshape(-1, d.shape[-1] ** 2) for d in wigner(matrices.reshape(-1, 3, 3), 2)]
    return DIMENSION * np.concatenate(flat, axis=1).reshape(*matrices.shape[:-2], 10)


@pytest.mark.parametrize("make", [et.groups.so3, et.groups.o3])
def test_they_are_the_mean_of_moved_signals_times_the_filter(make, rng):
    group, proper = make(2), et.groups.so3(2)
    conv = GroupConv(2, W_std=1.3)
    params = {"w": rng.normal(size=(group.order // proper.order, 10, 3, 2)), "b": np.zeros(2)}
    filters = 1.3 / np.sqrt(3) * params["w"] / np.sqrt(DIMENSION)[:, None, None]
    R = proper.matrices
    moved, here = functions(R[:, None] @ R[None]), functions(R)

    def literal(F, G):
        signals, values = np.einsum("rsi,zic->zrsc", moved, F), np.einsum("si,icd->scd", here, G)
        return np.einsum("s,scd,zrsc->zrd", proper.weights, values, signals)

    coefficients = rng.normal(size=(len(filters), 2, 10, 3))  # of the parts that R -> -R keeps and turns over
    signals, found = (
        np.einsum("ri,pzic->pzrc", here, coefficients),
        [literal(F, G) for F, G in zip(coefficients, filters, strict=True)],
    )
    if group.order > proper.order:
        signals, found = ([np.concatenate([a + b, a - b], axis=1)] for a, b in (signals, found))
    np.testing.assert_allclose(
        jax.jit(lambda p, x: conv.apply(p, x, Signal(OnRotations(group), 3)))(params, signals[0]),
        found[0],
        rtol=1e-4,
        atol=1e-4,
    )


def test_windows_are_legendre_series():
    cosine = np.linspace(-1, 1, 7)
    expected = 1 + 3 * 0.25 * cosine + 5 * 0.1 * (3 * cosine**2 - 1) / 2
    np.testing.assert_allclose(ZonalWindow((1.0, 0.25, 0.1)).values(cosine), expected, rtol=1e-12)


def test_filters_of_full_windows_are_white_noise_of_mean_square_one():
    """On the sphere, whose harmonics have the mean square 1/4π, and on rotations, whose D^l have 1/(2l + 1)."""
    full = ZonalWindow((1.0,))
    np.testing.assert_allclose(sphere_root(full, 3), np.eye(9) / np.sqrt(4 * np.pi), atol=1e-12)
    np.testing.assert_allclose(rotation_root(full, 2), np.diag(DIMENSION**-0.5), atol=1e-12)
