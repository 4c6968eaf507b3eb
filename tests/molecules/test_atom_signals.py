"""What atoms see: against sums over points on the sphere, and as the molecule turns."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equitangents import sphere
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.molecules import AtomSignals
from equitangents.molecules.signals import SHARPNESS
from molecules.example_molecules import SIGNALS, molecules, turned


def literal(signals, numbers, positions, atom, points):
    """The signal's channels at points of the sphere, by its formula."""
    total = np.zeros((len(points), len(signals.elements), len(signals.powers)))
    for other, (z, x) in enumerate(zip(numbers, positions, strict=True)):
        if other == atom or z == 0:
            continue
        r = x - positions[atom]
        distance = np.sqrt(r @ r)
        bump = np.exp(-((points @ r / distance - 1) ** 2) / SHARPNESS)
        for p, power in enumerate(signals.powers):
            total[:, signals.elements.index(z), p] += numbers[atom] * z / distance**power * bump
    return total.reshape(len(points), -1)


def test_coefficients_are_those_of_the_formula():
    batch = molecules(2, atoms=4)
    fields = SIGNALS(batch)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    azimuth = 2 * np.pi * np.arange(121) / 121
    sine = np.sqrt(1 - nodes**2)[:, None]
    points = np.stack([sine * np.cos(azimuth), sine * np.sin(azimuth), nodes[:, None] + 0 * azimuth], -1).reshape(-1, 3)
    w = np.repeat(weights * 2 * np.pi / 121, 121)
    harmonics = sphere.harmonics(points, 2)
    row = 0
    for z, x in zip(batch.atomic_numbers, batch.positions, strict=True):
        for atom in np.flatnonzero(z):
            values = literal(SIGNALS, z.tolist(), x, atom, points)
            expected = np.einsum("p,pk,pc->kc", w, harmonics, values)
            np.testing.assert_allclose(fields.signals[row], expected, rtol=0, atol=1e-9 * np.abs(expected).max())
            row += 1
    assert row == len(fields.signals)


def test_signals_turn_with_the_molecule():
    batch = molecules(3, atoms=4)
    moved, R = turned(batch)
    before, after = SIGNALS(batch), SIGNALS(moved)
    for m in range(3):
        expected = sphere.rotate(before.signals[before.molecule == m], R[m])
        np.testing.assert_allclose(after.signals[after.molecule == m], expected, rtol=0, atol=1e-10)


def test_elements_are_those_that_occur_or_those_given():
    batch = molecules(3)
    open_ = dataclasses.replace(SIGNALS, elements=None)
    assert open_.for_molecules(batch).elements == batch.elements
    with pytest.raises(InvalidArgumentError, match="the molecules hold"):
        dataclasses.replace(SIGNALS, elements=(1,)).for_molecules(batch)


def test_derivatives_are_finite_and_right():
    batch = molecules(1, atoms=3, seed=3)
    numbers = batch.atomic_numbers[0]
    with jax.enable_x64(True):
        function = jax.jit(lambda x: SIGNALS.coefficients(numbers, x))
        x = jnp.asarray(batch.positions[0])
        slopes = jax.jit(jax.jacfwd(function))(x)
        step = jnp.zeros_like(x).at[0, 1].set(1e-5)
        differences = (function(x + step) - function(x - step)) / 2e-5
        assert jnp.isfinite(slopes).all()
        np.testing.assert_allclose(slopes[..., 0, 1], differences, rtol=0, atol=1e-6 * float(jnp.abs(slopes).max()))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"powers": ()}, InvalidArgumentError, "powers"),
        ({"bandlimit": 0}, InvalidArgumentError, "bandlimit"),
        *(({"elements": (z, 6, 8)}, InvalidArgumentError, f"elements holds {z}") for z in (1.5, -1)),
        *(({"powers": p}, InvalidTypeError, f"powers is {p!r}; expected numbers") for p in ("ab", 2.0)),
        ({"elements": ("H",)}, InvalidTypeError, r"elements is \('H',\); expected atomic numbers"),
        ({"elements": 6}, InvalidTypeError, "elements is 6; expected atomic numbers"),
    ],
)
def test_bad_settings(options, error, message):
    with pytest.raises(error, match=message):
        AtomSignals(**options)
