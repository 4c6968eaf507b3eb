"""Sets of molecules: the G2 molecules of ASE, and archives in a folder."""

import numpy as np
import pytest

from equitangents import data
from equitangents.errors import InvalidArgumentError
from equitangents_studies.data.molecules import KCAL_PER_EV


def test_g2_energies_are_those_that_ase_tabulates():
    from ase.data.g2_1 import get_atomization_energy
    from ase.data.g2_1 import molecule_names as first_part

    whole = data.load_molecules("g2")
    expected = [-get_atomization_energy(name) for name in first_part]
    np.testing.assert_allclose(whole.energies[: len(first_part)] * KCAL_PER_EV, expected, rtol=1e-12)
    assert len(whole) == 148
    assert whole.molecules.elements == (1, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 16, 17)
    benzene = whole.energies[(whole.molecules.atomic_numbers == 6).sum(1) == 6]
    assert -1400 < benzene.min() * KCAL_PER_EV < -1350  # 1,367 kcal/mol, in no part of the expectation above


def test_chosen_molecules_depend_on_the_seed_alone():
    a, b, c = (data.load_molecules("g2", count=12, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(a.energies, b.energies)
    assert not np.array_equal(a.energies, c.energies)
    assert len(a[:5]) == 5
    with pytest.raises(InvalidArgumentError, match="expected 1 to 148; g2"):
        data.load_molecules("g2", count=149)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    z = np.array([[8, 1, 1], [1, 1, 0]], np.uint8)
    x = rng.normal(size=(2, 3, 3)).astype(np.float32)
    energy = np.array([-0.35, -0.17])
    np.savez(tmp_path / "qm9.npz", Z=z, pos=x, U0_atomization=energy, dipole=rng.normal(size=(2, 3)))
    np.savez(tmp_path / "qm7.npz", Z=z, pos=x, energy_pbe0=energy * 627.5095)
    frames = {
        f"ethanol_{part}_{what}": value
        for part in ("train", "test")
        for what, value in (("pos", x), ("forces", 23.060548 * x), ("energy", 23.060548 * energy))
    }
    np.savez(tmp_path / "rmd17.npz", ethanol_Z=z[0], **frames)
    tensors = {"Z": z[0], "pos": x, "energy": energy, "dipole": x[:, 0], "polarizability": np.zeros((2, 3, 3))}
    backwards = dict(reversed(tensors.items()))  # the order in a file is nobody's business
    np.savez(tmp_path / "water_tensors.npz", **{f"monomer_{key}": value for key, value in backwards.items()})
    return tmp_path


def test_files_are_read_in_one_system_of_units(folder, monkeypatch):
    monkeypatch.setenv("EQUITANGENTS_DATA", str(folder))
    qm9, qm7 = data.load_molecules("qm9", folder), data.load_molecules("qm7")
    np.testing.assert_allclose(qm9.energies, qm7.energies, rtol=1e-6)
    np.testing.assert_allclose(qm9.energies, [-0.35 * 27.211386, -0.17 * 27.211386])
    assert qm9.molecules.sizes.tolist() == [3, 2]
    train, test = data.load_trajectory("ethanol", folder)
    np.testing.assert_allclose(train.forces, train.molecules.positions, rtol=1e-6)
    np.testing.assert_allclose(test.energies, [-0.35, -0.17])
    water = data.load_water("monomer", folder)
    np.testing.assert_allclose(water.energies, [-0.35 * 27.211386, -0.17 * 27.211386])
    assert water.dipoles.shape == (2, 3)
    assert water.polarizabilities.shape == (2, 3, 3)
    assert data.available("qm9", folder)
    assert data.available("rmd17")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f: data.load_molecules("qm8", f), InvalidArgumentError, "expected 'g2'"),
        (lambda f: data.load_molecules("qm9", f / "empty"), data.DataNotFoundError, "qm9.npz was looked for"),
        (lambda f: data.load_trajectory("water", f), InvalidArgumentError, "expected 'aspirin'"),
        (lambda f: data.load_trajectory("toluene", f), InvalidArgumentError, "expected 'toluene_Z'"),
        (lambda f: data.load_water("ice", f), InvalidArgumentError, "expected 'monomer'"),
        (lambda f: data.available("qm8", f), InvalidArgumentError, "'qm9'"),
    ],
)
def test_errors_name_what_is_wrong(folder, call, error, message):
    with pytest.raises(error, match=message):
        call(folder)
    (folder / "qm9.npz").write_bytes(b"no archive")
    with pytest.raises(InvalidArgumentError, match=r"expected an \.npy or \.npz file"):
        data.load_molecules("qm9", folder)
