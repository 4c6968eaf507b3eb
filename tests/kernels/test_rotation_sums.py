"""The CPU engine on rotations, against means that are known: signals of degrees 0 and 1 are a number and a vector."""

import itertools

import numpy as np
import pytest

import equitangents as et
from equitangents import groups, nn


def parts(rng):
    """Two signals of one channel, (1, 4, 1), and what their covariance is under R: a + v·Rv'."""
    x, y = rng.normal(size=(2, 1, 4, 1)) * 2
    a = x[0, 0, 0] * y[0, 0, 0] / (4 * np.pi)
    # harmonics of degree 1 are y, z, x
    v, w = (s[0, [3, 1, 2], 0] / np.sqrt(4 * np.pi) for s in (x, y))
    variances = [float((s**2).sum() / (4 * np.pi)) for s in (x, y)]
    return x, y, a, v, w, variances


def kernel(group, x, y):
    net = nn.Sequential(nn.SphereLift(group, 3, resolution=12), nn.Sin(), nn.GroupPool(), nn.Dense(1))
    found = net.kernel(x, y, engine="cpu")
    assert found.engine == "cpu"
    return float(np.asarray(found.nngp)[0, 0])


def test_of_all_rotations_it_is_the_mean_over_directions(rng):
    x, y, a, v, w, (q, p) = parts(rng)
    b = np.linalg.norm(v) * np.linalg.norm(w)
    expected = np.exp(-(q + p) / 2) * np.sinh(a) * np.sinh(b) / b
    assert kernel(groups.so3(2), x, y) == pytest.approx(expected, rel=1e-10)


def test_of_a_finite_group_it_is_the_mean_over_its_elements(rng):
    x, y, a, v, w, (q, p) = parts(rng)
    signed = (
        np.eye(3)[list(o)] * s for o in itertools.permutations(range(3)) for s in itertools.product((1, -1), repeat=3)
    )
    turns = [m for m in signed if np.linalg.det(m) > 0]
    assert len(turns) == 24
    expected = np.exp(-(q + p) / 2) * np.mean([np.sinh(a + v @ m @ w) for m in turns])
    assert kernel(et.groups.octahedral(), x, y) == pytest.approx(expected, rel=1e-10)
