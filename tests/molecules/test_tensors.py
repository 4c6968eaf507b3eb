"""Vectors and matrices that turn with the molecule."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from equitangents import groups, nn, sphere
from equitangents.molecules import TensorRegressor
from equitangents.molecules.smooth_kernel import kernel_for_forces, kernel_for_tensors, steering_error
from equitangents.molecules.tensors import DEGREES, basis, components, tensor_kernels
from molecules.example_molecules import SIGNALS, molecules, network, turned

BATCH = molecules(3)
NET = network(resolution=7)


@pytest.mark.parametrize(("rank", "degree"), [(1, 1), (2, 0), (2, 2)])
def test_components_turn_as_harmonics(rank, degree):
    R = Rotation.random(random_state=1).as_matrix()
    frame = basis(rank, degree)
    np.testing.assert_allclose(frame @ frame.T, np.eye(2 * degree + 1), atol=1e-12)
    rng = np.random.default_rng(0)
    tensor = rng.normal(size=(1, *(3,) * rank))
    tensor = tensor if rank == 1 else tensor + tensor.swapaxes(1, 2)
    moved = tensor @ R.T if rank == 1 else R @ tensor @ R.T
    D = sphere.wigner(R, degree + 1)[degree]
    np.testing.assert_allclose(components(moved, degree)[0], D @ components(tensor, degree)[0], atol=1e-12)


def test_degrees_of_a_rank_hold_all_of_a_symmetric_matrix():
    matrix = np.random.default_rng(0).normal(size=(1, 3, 3))
    matrix += matrix.swapaxes(1, 2)
    whole = sum(components(matrix, degree) @ basis(2, degree) for degree in DEGREES[2])
    np.testing.assert_allclose(whole.reshape(1, 3, 3), matrix, atol=1e-12)


def test_kernel_is_a_sum_over_turned_signals():
    """One layer: Σ_Q w(Q) (2/π) arcsin(…) D(Q)ᵀ with signals turned one by one."""
    net = nn.Sequential(nn.SphereLift(groups.octahedral(), 2, W_std=0.2), nn.Erf(), nn.GroupPool(), nn.Dense(1))
    smooth = kernel_for_forces(net, BATCH, SIGNALS)
    c = SIGNALS(BATCH).signals[:2]
    expected = np.zeros((3, 3))
    for Q in groups.octahedral().matrices:
        inner = lambda a, b: 0.2**2 * (a * b).sum() / (4 * np.pi * c.shape[-1])
        moved = sphere.rotate(c[:1], Q)[0]
        size = np.sqrt((1 + 2 * inner(c[0], c[0])) * (1 + 2 * inner(c[1], c[1])))
        value = 2 / np.pi * np.arcsin(2 * inner(moved, c[1]) / size)
        expected += value * sphere.wigner(Q, 2)[1].T / 24
    np.testing.assert_allclose(smooth.steered(c[:1], c[1:], 1)[0, 0, 0], expected, rtol=1e-10, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("degree", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_resolution_is_measured_on_the_parts_that_turn(degree):
    """They are small beside the kernel: a resolution that is fine for energies may be far too coarse."""
    close = BATCH.with_positions(0.5 * BATCH.positions)
    net = network(tolerance=1e-4)
    smooth = kernel_for_tensors(net, close, (degree,), SIGNALS)
    fine = dataclasses.replace(smooth, resolution=16)
    assert smooth.error_estimate <= 1e-4
    found, expected = (tensor_kernels(k, close, turned(close)[0], degree) for k in (smooth, fine))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3 * np.abs(expected).max())
    values = np.linalg.eigvalsh(tensor_kernels(smooth, close, None, degree).reshape(2, *(3 * (2 * degree + 1),) * 2))
    assert (values[:, 0] > -1e-3 * values[:, -1]).all()
    # The first resolution that is tried is good enough for far smaller signals; its error is known.
    coarse = dataclasses.replace(smooth, resolution=2)
    error = np.abs(tensor_kernels(coarse, close, turned(close)[0], degree) - expected).max() / np.abs(expected).max()
    estimate = steering_error(smooth, close, (degree,), 2)
    assert error > 10 * smooth.error_estimate
    assert 0.1 * estimate < error < 10 * estimate


@pytest.fixture(scope="module")
def smooth():
    return kernel_for_forces(NET, BATCH, SIGNALS)


@pytest.mark.slow
@pytest.mark.parametrize("degree", [0, 1, 2])
def test_turning_a_molecule_turns_the_kernel(smooth, degree):
    moved, R = turned(BATCH)
    D = sphere.wigner(R, degree + 1)[degree]
    before = tensor_kernels(smooth, BATCH, BATCH, degree)
    after = tensor_kernels(smooth, moved, BATCH, degree)
    expected = np.einsum("nij,vnjmk->vnimk", D, before)
    np.testing.assert_allclose(after, expected, rtol=0, atol=1e-4 * np.abs(before).max())
    own = tensor_kernels(smooth, BATCH, None, degree)
    np.testing.assert_allclose(own, before, rtol=0, atol=1e-10 * np.abs(before).max())


@pytest.mark.slow
@pytest.mark.parametrize("rank", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_predictions_and_covariances_turn(rank):
    train, test = molecules(6, seed=3), molecules(2, seed=8)
    charges = np.where(train.atomic_numbers > 0, train.atomic_numbers - 4.0, 0)
    arm = train.positions - train.positions.mean(axis=1, keepdims=True)
    dipoles = np.einsum("na,nai->ni", charges, arm)
    y = dipoles if rank == 1 else dipoles[:, :, None] * dipoles[:, None]
    model = TensorRegressor(NET, signals=SIGNALS, ridge=1e-5).fit(train, y)
    np.testing.assert_allclose(model.predict(train).values, y, rtol=0, atol=0.15 * np.abs(y).max())
    moved, R = turned(test)
    before, after = (model.predict(m, return_cov=True) for m in (test, moved))
    T = R if rank == 1 else np.einsum("nij,nkl->nikjl", R, R).reshape(2, 9, 9)
    turn = lambda v: np.einsum("nij,nj->ni", T, v.reshape(2, -1)).reshape(v.shape)
    scale = np.abs(before.values).max()
    np.testing.assert_allclose(after.values, turn(before.values), rtol=0, atol=1e-2 * scale)
    expected = T @ before.covariance @ T.swapaxes(1, 2)
    np.testing.assert_allclose(after.covariance, expected, rtol=0, atol=1e-2 * np.abs(expected).max())
    assert np.linalg.eigvalsh(before.covariance).min() > -1e-8 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("degree", [0, 1, 2])
def test_atoms_turn_by_the_kernel_of_a_readout(degree):
    """What vectors and tensors of molecules are made of is the projection that `nn.Readout` takes."""
    smooth = dataclasses.replace(kernel_for_tensors(NET, BATCH, (0,), SIGNALS), resolution=7)
    atoms = smooth.signals(BATCH).signals[:4].astype(np.float64)
    layers = [layer for layer in NET.layers if not isinstance(layer, nn.GroupPool)]
    lift, last = layers[0], layers[-1]
    readout = nn.Readout(lift.onto.irreps(3)[degree], W_std=last.W_std, b_std=last.b_std)
    found = nn.Sequential(*layers[:-1], readout).kernel(atoms, atoms)
    expected = smooth.steered(atoms, atoms, degree)
    scale = np.abs(smooth.steered(atoms, atoms, 0)).max()
    np.testing.assert_allclose(found.nngp, expected[0], rtol=0, atol=1e-14 * scale)
    np.testing.assert_allclose(found.ntk, expected[1], rtol=0, atol=1e-14 * scale)
