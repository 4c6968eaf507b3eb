"""Molecules of one atom, which sees nothing: kernels, energies, forces and tensors, alone and among others."""

import dataclasses
import logging

import numpy as np
import pytest

from equitangents import groups, nn
from equitangents.errors import InvalidArgumentError
from equitangents.molecules import MoleculeRegressor, Molecules, TensorRegressor, kernel
from equitangents.molecules.joint import joint_kernels
from equitangents.molecules.smooth_kernel import kernel_for_forces, kernel_for_tensors
from molecules.example_molecules import SIGNALS, molecules, network, turned

NET = network(resolution=7, layers=1)
UNBIASED = nn.Sequential(
    nn.SphereLift(groups.so3(2), 4, W_std=0.03, resolution=5), nn.Erf(), nn.GroupPool(), nn.Dense(1)
)
LONE = Molecules([[8, 0, 0], [0, 1, 0], [0, 0, 8]], np.arange(27.0).reshape(3, 3, 3))
ELEMENTS = LONE.atomic_numbers.max(axis=1)


def mixed(seed=4):
    """Four molecules, then a lone O and a lone H, which are not the first in their rows."""
    some = molecules(5, seed=seed)[:4]
    numbers, positions = np.zeros((6, 3), int), np.zeros((6, 3, 3))
    numbers[:4], positions[:4] = some.atomic_numbers, some.positions
    numbers[4, 2], numbers[5, 1] = 8, 1
    return Molecules(numbers, positions)


@pytest.mark.parametrize("pairs", ["same element", "all"])
def test_kernel_of_lone_atoms_is_that_of_no_signal(pairs):
    nothing = NET.kernel(np.zeros((2, 4, SIGNALS.channels))).ntk[0, 0]
    same = ELEMENTS[:, None] == ELEMENTS
    expected = nothing * (same if pairs == "same element" else np.ones((3, 3)))
    np.testing.assert_allclose(kernel(NET, LONE, signals=SIGNALS, pairs=pairs), expected, rtol=1e-12)


@pytest.mark.slow
def test_resolution_of_lone_atoms_has_no_error():
    smooth = kernel_for_forces(network(tolerance=1e-6, layers=1), LONE, SIGNALS)
    assert smooth.error_estimate == 0
    joint = joint_kernels(dataclasses.replace(smooth, resolution=7), LONE)
    assert (joint[1, 3:] == 0).all()
    assert (joint[1, :, 3:] == 0).all()
    np.testing.assert_allclose(joint[1, :3, :3], kernel(NET, LONE, signals=SIGNALS), rtol=1e-10)
    assert kernel_for_tensors(network(tolerance=1e-6), LONE, (0, 1, 2), SIGNALS).error_estimate == 0


@pytest.mark.slow
@pytest.mark.parametrize("which", ["energies", "forces", "both"])
def test_energies_and_forces_of_lone_atoms(which):
    energies, forces = np.array([3.0, -1.0, 3.0]), np.zeros((3, 3, 3))
    data = {"energies": {"energies": energies}, "forces": {"forces": forces}}
    model = MoleculeRegressor(NET, signals=SIGNALS)
    model.fit(LONE, **(data[which] if which != "both" else data["energies"] | data["forces"]))
    found = model.predict(LONE, return_std=True)
    np.testing.assert_allclose(found.energies, 0 if which == "forces" else energies, atol=1e-5)
    assert (found.forces == 0).all()
    assert (found.force_std == 0).all()
    if which == "forces":  # which say nothing: networks are as they were
        prior = np.sqrt(np.diag(joint_kernels(model.smooth_, LONE)[0])[:3])
        np.testing.assert_allclose(found.energy_std, prior, rtol=1e-12)
    else:
        assert found.energy_std.max() < 1e-2


@pytest.mark.slow
def test_lone_atoms_among_molecules():
    batch = mixed()
    rng = np.random.default_rng(0)
    truth = MoleculeRegressor(NET, signals=SIGNALS).fit(batch[:4], rng.normal(size=4)).predict(batch)
    energies = truth.energies - truth.energies.mean()
    model = MoleculeRegressor(NET, signals=SIGNALS).fit(batch, energies, truth.forces)
    found = model.predict(batch, return_std=True)
    np.testing.assert_allclose(found.energies, energies, atol=0.02 * np.ptp(energies))
    np.testing.assert_allclose(found.forces, truth.forces, atol=0.02 * np.abs(truth.forces).max())
    assert (found.forces[4:] == 0).all()
    elsewhere = Molecules(batch.atomic_numbers[4:, ::-1], 5 + batch.positions[4:])
    np.testing.assert_allclose(model.predict(elsewhere).energies, found.energies[4:], rtol=1e-12)


def test_forces_on_lone_atoms_must_be_zero():
    batch = mixed()
    forces = np.ones(batch.positions.shape)
    with pytest.raises(InvalidArgumentError, match=r"forces\[4\] is .*; expected zero; of a lone atom"):
        MoleculeRegressor(NET, signals=SIGNALS).fit(batch, forces=forces)


def test_what_cannot_be_learnt_is_logged(caplog):
    with caplog.at_level(logging.WARNING, logger="equitangents"):
        model = MoleculeRegressor(UNBIASED, signals=SIGNALS).fit(LONE, np.array([3.0, -1.0, 3.0]))
    assert "nothing is learnt" in caplog.text
    assert model.element_energies_ == pytest.approx({1: -1.0, 8: 3.0})
    assert model.max_learning_rate_ == np.inf


def test_tensors_of_lone_atoms():
    vectors = TensorRegressor(NET, signals=SIGNALS).fit(LONE, np.zeros((3, 3)))
    found = vectors.predict(LONE, return_cov=True)
    assert (found.values == 0).all()
    assert (found.covariance == 0).all()
    isotropic = np.array([2.0, 1.0, 2.0])[:, None, None] * np.eye(3)
    matrices = TensorRegressor(NET, signals=SIGNALS).fit(LONE, isotropic)
    np.testing.assert_allclose(matrices.predict(LONE).values, isotropic, atol=1e-4)
    with pytest.raises(InvalidArgumentError, match=r"tensors\[0\] is .*; expected zero"):
        vectors.fit(LONE, np.ones((3, 3)))
    with pytest.raises(InvalidArgumentError, match="expected a multiple of the identity"):
        matrices.fit(LONE, np.tile(np.diag([1.0, 2, 3]), (3, 1, 1)))


@pytest.mark.slow
def test_tensors_of_lone_atoms_among_molecules():
    batch = mixed()
    charges = np.where((batch.atomic_numbers > 0) & (batch.sizes > 1)[:, None], batch.atomic_numbers - 4.0, 0)
    dipoles = np.einsum("na,nai->ni", charges, batch.positions - batch.positions[:, :1])
    model = TensorRegressor(NET, signals=SIGNALS, ridge=1e-5).fit(batch, dipoles)
    found = model.predict(batch, return_cov=True)
    assert (found.values[4:] == 0).all()
    assert (found.covariance[4:] == 0).all()
    # Lone atoms teach nothing: the same is learnt without them, but for the ridge's unit and the loss's N.
    plain = TensorRegressor(NET, signals=SIGNALS, ridge=1e-5).fit(batch[:4], dipoles[:4]).predict(batch)
    np.testing.assert_allclose(found.values, plain.values, atol=1e-9 * np.abs(dipoles).max())
    moved, R = turned(batch)
    after = model.predict(moved).values
    np.testing.assert_allclose(after, np.einsum("nij,nj->ni", R, found.values), atol=1e-2 * np.abs(dipoles).max())
