"""Tensors of water in the study of forces, on a made-up archive: what is measured, and how it is shown."""

import dataclasses

import numpy as np
import pytest

from equitangents.errors import InvalidArgumentError
from equitangents_studies import forces
from equitangents_studies.data import load_water
from equitangents_studies.forces import WaterTensors
from equitangents_studies.framework.folder import RunFolder
from equitangents_studies.framework.study import Task

SETTINGS = forces.Settings(water_sizes=(2, 12), water_test=4, tolerance=1e-4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """20 bent molecules: dipoles of charges that depend on the bond lengths, polarisabilities of the bonds."""
    root = tmp_path_factory.mktemp("water")
    rng = np.random.default_rng(0)
    still = np.array([[0, 0, 0], [0.6, 0.76, 0], [0.6, -0.76, 0]])
    x = still + rng.normal(size=(20, 3, 3)) * 0.06
    bonds = x[:, 1:] - x[:, :1]
    lengths = np.linalg.norm(bonds, axis=2)
    dipole = np.einsum("nb,nbi->ni", 0.7 * lengths, bonds)
    polarizability = 5 * np.eye(3) + np.einsum("nbi,nbj->nij", bonds, bonds)
    arrays = {
        "Z": np.array([8, 1, 1]), "pos": x, "energy": np.zeros(20), "dipole": dipole, "polarizability": polarizability,
    }  # fmt: skip
    np.savez(root / "water_tensors.npz", **{f"monomer_{key}": value for key, value in arrays.items()})
    return RunFolder(root / "run", {"study": "forces", "settings": {}}, data_dir=root)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dipoles", pytest.param("polarizabilities", marks=pytest.mark.slow)])
def test_tensors_are_learnt_and_turn(folder, kind):
    found = WaterTensors(**forces.learn_water(SETTINGS, folder.data_dir, kind, Task()))
    assert found.errors.shape == (2, 4)
    assert found.guess.shape == (4,)
    assert found.errors[1].mean() < found.errors[0].mean()
    assert found.ratio().value == pytest.approx(found.errors[1].mean() / found.guess.mean())
    assert found.ratio().value < 0.5
    assert found.turned.shape == (4,)
    assert 0 < found.turned.min() <= found.turned.max() < 0.01


def test_the_simplest_models_by_hand(folder):
    water = load_water("monomer", folder.data_dir)
    train, test = np.arange(12), np.arange(12, 20)
    guess = forces.simplest(water.molecules[train], water.dipoles[train], water.molecules[test])
    # One charge q for each H and -2q for the O: their sum over positions does not depend on the origin.
    x = water.molecules.positions
    arm = x[:, 1] + x[:, 2] - 2 * x[:, 0]
    charge = (arm[train] * water.dipoles[train]).sum() / (arm[train] ** 2).sum()
    np.testing.assert_allclose(guess, charge * arm[test], atol=1e-12)
    guess = forces.simplest(water.molecules[train], water.polarizabilities[train], water.molecules[test])
    mean = np.mean([np.trace(a) / 3 for a in water.polarizabilities[train]])
    np.testing.assert_allclose(guess, np.tile(mean * np.eye(3), (8, 1, 1)), atol=1e-12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"water": "ice"}, "water was 'ice'; expected one of monomer"),
        ({"water_sizes": (4,)}, "water_sizes was"),
        ({"water_sizes": (4, 17)}, "at most 16"),
        ({"water_test": 1}, "water_test was 1"),
    ],
)
def test_bad_settings(folder, change, words):
    with pytest.raises(InvalidArgumentError, match=words):
        forces.check_water(dataclasses.replace(SETTINGS, **change), folder.data_dir)


@pytest.mark.slow
def test_page_and_claims_show_tensors(tmp_path):
    settings = forces.Settings(sizes=(2, 4), test=3, water_sizes=(2, 4), water_test=20)
    rng = np.random.default_rng(0)
    errors = lambda: {target: rng.uniform(0.1, 1, (2, 3)) for target in forces.TARGETS}
    off = lambda *shape: rng.uniform(0.95, 1.05, shape)
    water = {
        "dipoles": WaterTensors(0.1 * off(2, 20), 0.2 * off(20), np.array([1e-5, 2e-5])),
        "polarizabilities": WaterTensors(0.4 * off(2, 20), 0.2 * off(20), 0.4 * off(20)),
    }
    turned = np.array([1e-4, 2e-4, 1e-4])
    results = forces.Results(errors(), errors(), 0.0, 0.0, turned, turned, (1.0, 1.0), water)
    verdicts = forces.claims(settings, results)
    assert [v.outcome for v in verdicts[5:]] == ["fails", "fails"]
    assert verdicts[6].number == pytest.approx(2, rel=0.05)
    folder = RunFolder(tmp_path / "run", {"study": "forces", "settings": {}})
    forces.present(settings, results, folder)
    assert {p.name for p in folder.figures.glob("*.png")} == {"learning-curves.png", "tensors.png"}
    without = dataclasses.replace(results, water={})
    assert len(forces.claims(settings, without)) == 6
