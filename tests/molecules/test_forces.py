"""Energies and forces: against differences, and what follows from one energy function."""

from functools import partial

import numpy as np
import pytest

from equitangents import groups, nn, precision
from equitangents.errors import InvalidArgumentError, NetworkError
from equitangents.molecules import MoleculeRegressor, kernels
from equitangents.molecules.joint import TargetLayout, joint_kernels
from equitangents.molecules.smooth_kernel import kernel_for_forces
from molecules.example_molecules import SIGNALS, molecules, network, turned

BATCH = molecules(3)
SLOW = pytest.mark.slow
STEP = 1e-3


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=SLOW)], ids=["one layer", "two layers"])
def net(request):
    return network(resolution=7, layers=request.param)


@pytest.fixture(scope="module")
def ridge(net):
    """The smoother network of one layer learns the same energies to the same error at a smaller ridge."""
    return {1: 1e-7, 2: 1e-6}[sum(layer == nn.Erf() for layer in net.layers)]


@pytest.fixture(scope="module")
def smooth(net):
    return kernel_for_forces(net, BATCH, SIGNALS)


def value(smooth, x1, x2, i=0, j=1):
    """NNGP and NTK of two molecules at given positions."""
    a, b = BATCH[[i]].with_positions(x1[None]), BATCH[[j]].with_positions(x2[None])
    found = kernels(smooth, a, b, signals=smooth.signals)
    return np.array([found.nngp[0, 0], found.ntk[0, 0]])


def displaced(i, coordinate, sign):
    x = BATCH.positions[i].copy()
    x.flat[coordinate] += sign * STEP
    return x


@pytest.mark.slow
def test_covariances_are_derivatives_of_the_kernel(smooth):
    joint = joint_kernels(smooth, BATCH)
    value_at = partial(value, smooth)
    layout = TargetLayout.of(BATCH)
    rows, columns = layout.of_molecule(0), layout.of_molecule(1)
    blocks = joint[:, rows[:, None], columns]
    x, y = BATCH.positions[0], BATCH.positions[1]
    scale = np.abs(blocks).max(axis=(1, 2))
    np.testing.assert_allclose(blocks[:, 0, 0], value_at(x, y), rtol=1e-10)
    for a, b in ((0, 4), (5, 2), (7, 8)):
        slope = -(value_at(displaced(0, a, 1), y) - value_at(displaced(0, a, -1), y)) / (2 * STEP)
        np.testing.assert_allclose(blocks[:, 1 + a, 0] / scale, slope / scale, rtol=0, atol=1e-4)
        both = sum(s * t * value_at(displaced(0, a, s), displaced(1, b, t)) for s in (1, -1) for t in (1, -1)) / (
            4 * STEP**2
        )
        np.testing.assert_allclose(blocks[:, 1 + a, 1 + b] / scale, both / scale, rtol=0, atol=1e-4)


def test_derivatives_along_directions_are_differences_of_the_kernel_of_two_atoms(rng):
    net = nn.Sequential(nn.SphereLift(groups.octahedral(), 2), nn.Erf(), nn.GroupPool(), nn.Dense(1, b_std=0.2))
    smooth, pair = kernel_for_forces(net, BATCH, SIGNALS), (np.zeros(1, int), np.zeros(1, int), np.ones(1))
    (c, d), (t, u) = rng.normal(size=(2, 2, 1, *SIGNALS(BATCH).signals.shape[1:]))

    def block(s, r):
        with precision.scope(np.float64):
            return np.asarray(smooth.blocks(c + s * t, t[None], d + r * u, u[None], pair))

    along = (block(STEP, 0)[:, :1] - block(-STEP, 0)[:, :1]) / (2 * STEP)  # of the value and of its slope in d
    np.testing.assert_allclose(block(0, 0)[:, 1:], along, rtol=1e-4)
    slope = (block(0, STEP)[:, 0, 0] - block(0, -STEP)[:, 0, 0]) / (2 * STEP)
    np.testing.assert_allclose(block(0, 0)[:, 0, 1], slope, rtol=1e-4)


def test_energies_of_all_molecules_come_first_and_then_the_forces_of_each(monkeypatch, rng):
    padded = rng.normal(size=(3, 10))
    monkeypatch.setattr("equitangents.molecules.joint._sides", lambda smooth, molecules: padded)
    monkeypatch.setattr("equitangents.molecules.joint._blocks", lambda smooth, a, b: np.outer(a, b) * [[[1]], [[2]]])
    forces = [row[1 : 1 + 3 * atoms] for row, atoms in zip(padded, BATCH.sizes, strict=True)]
    targets = np.concatenate([padded[:, 0], *forces])
    for other in (None, BATCH):
        np.testing.assert_allclose(joint_kernels(None, BATCH, other), np.outer(targets, targets) * [[[1]], [[2]]])


@pytest.mark.slow
def test_joint_covariances_are_symmetric_and_nearly_positive(net, smooth):
    joint = joint_kernels(smooth, BATCH)
    for matrix in joint:
        np.testing.assert_array_equal(matrix, matrix.T)
        scale = 1 / np.sqrt(np.diag(matrix))
        assert np.linalg.eigvalsh(matrix * scale * scale[:, None])[0] > -1e-5
    cross = joint_kernels(smooth, BATCH, BATCH)
    np.testing.assert_allclose(cross[1], joint[1], rtol=0, atol=1e-9 * np.abs(joint[1]).max())
    # The kernel with the nodes of the network's own quadrature is the same, to the tolerance.
    other = kernels(net, BATCH, signals=SIGNALS)
    np.testing.assert_allclose(joint[1, :3, :3], other.ntk, rtol=1e-4)


@pytest.fixture(scope="module")
def trained(net, ridge):
    """Trained on both, with the data it saw: a made-up energy, harmonic in all distances."""
    train = molecules(5, seed=4)
    energies, forces = springs(train)
    return MoleculeRegressor(net, signals=SIGNALS, ridge=ridge).fit(train, energies, forces), train


def springs(batch):
    r = batch.positions[:, :, None] - batch.positions[:, None]
    both = (batch.atomic_numbers[:, :, None] > 0) & (batch.atomic_numbers[:, None] > 0) & ~np.eye(3, dtype=bool)
    distance = np.sqrt((r**2).sum(-1) + ~both)
    stretch = np.where(both, distance - 1, 0)
    return (stretch**2).sum((1, 2)) / 4 + 2.0, -(r * (stretch / distance)[..., None]).sum(2)


@pytest.mark.slow
def test_training_data_are_learnt(trained):
    model, train = trained
    energies, forces = springs(train)
    found = model.predict(train)
    np.testing.assert_allclose(found.energies, energies, atol=5e-3)
    np.testing.assert_allclose(found.forces, forces, atol=2e-2)


@pytest.mark.slow
def test_forces_are_minus_the_gradient_of_the_energy(trained):
    model, _ = trained
    batch = molecules(1, seed=9)
    forces = model.predict(batch).forces[0]
    energy = lambda x: model.predict(batch.with_positions(x)).energies[0]
    for atom, axis in ((0, 1), (2, 0)):
        step = np.zeros_like(batch.positions)
        step[0, atom, axis] = STEP
        slope = (energy(batch.positions + step) - energy(batch.positions - step)) / (2 * STEP)
        assert forces[atom, axis] == pytest.approx(-slope, abs=1e-6 * np.abs(forces).max() + 1e-6)


@pytest.mark.slow
def test_predictions_turn_with_the_molecule(trained):
    model, train = trained
    batch = molecules(2, seed=11)
    moved, R = turned(batch)
    before, after = (model.predict(m, return_std=True) for m in (batch, moved))
    np.testing.assert_allclose(after.energies, before.energies, atol=1e-4)
    np.testing.assert_allclose(after.forces, np.einsum("nij,naj->nai", R, before.forces), atol=1e-3)
    np.testing.assert_allclose(after.energy_std, before.energy_std, rtol=1e-2)
    stretched = model.predict(batch.with_positions(1.5 * batch.positions), return_std=True)
    assert stretched.energy_std.min() > 10 * model.predict(train, return_std=True).energy_std.max()


@pytest.mark.slow
@pytest.mark.parametrize("given", [pytest.param("energies", marks=pytest.mark.slow), "forces"])
def test_one_kind_of_data_is_enough(net, ridge, given):
    train = molecules(4, seed=4)
    energies, forces = springs(train)
    data = {"energies": energies} if given == "energies" else {"forces": forces}
    model = MoleculeRegressor(net, signals=SIGNALS, kernel="nngp", ridge=ridge).fit(train, **data)
    found = model.predict(train)
    if given == "energies":
        np.testing.assert_allclose(found.energies, energies, atol=1e-2)
    else:
        np.testing.assert_allclose(found.forces, forces, atol=2e-2)


def test_energies_at_float32_positions_are_trained_on_in_float64(net):
    """Predictions are computed in float64: a kernel rounded to float32 would leave energies off by rounding / ridge."""
    train, energies = molecules(4, seed=4), np.arange(4.0)
    short = train.with_positions(train.positions.astype(np.float32))
    long = short.with_positions(short.positions.astype(np.float64))
    fitted = (MoleculeRegressor(net, signals=SIGNALS, ridge=1e-7).fit(each, energies) for each in (short, long))
    one, other = (model.predict(long).energies for model in fitted)
    np.testing.assert_allclose(one, other, rtol=1e-9)


def test_what_cannot_be_differentiated_is_refused(monkeypatch):
    monkeypatch.setattr("equitangents.molecules.smooth_kernel._FINEST", 4)
    rough = nn.Sequential(nn.SphereLift(groups.so3(3), 2), nn.Relu(), nn.GroupPool(), nn.Dense(1))
    with pytest.raises(NetworkError, match="second derivatives"):
        kernel_for_forces(rough, BATCH, SIGNALS)
    large = nn.Sequential(nn.SphereLift(groups.so3(3), 2, W_std=30.0), nn.Erf(), nn.GroupPool(), nn.Dense(1))
    with pytest.raises(InvalidArgumentError, match="lower SphereLift's W_std"):
        kernel_for_forces(large, BATCH, SIGNALS)
    with pytest.raises(NetworkError, match="SphereLift"):
        kernel_for_forces(nn.Sequential(nn.Flatten(), nn.Dense(1)), BATCH, SIGNALS)


@SLOW
def test_no_prediction_depends_on_the_molecules_beside_it():
    model = MoleculeRegressor(network(1e-3, layers=1), signals=SIGNALS, ridge=1e-2).fit(BATCH, np.arange(3.0))
    asked = molecules(3, seed=5)
    together = model.predict(asked, return_std=True)
    for i in range(3):
        alone = model.predict(asked[[i]], return_std=True)
        for name in ("energies", "forces", "energy_std", "force_std"):
            np.testing.assert_allclose(getattr(alone, name)[0], getattr(together, name)[i], rtol=1e-9, atol=1e-12)
