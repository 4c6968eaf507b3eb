"""Claims of cross-product, forces and molecules on made-up numbers; what random draws enter is never called exact."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equitangents import actions, groups, studies
from equitangents.errors import InvalidArgumentError
from equitangents.molecules import Molecules
from equitangents_studies import cross_product, forces, molecules
from equitangents_studies.common import molecule_kernels
from equitangents_studies.common.orbits import orbit_batch
from equitangents_studies.common.scores import largest
from equitangents_studies.cross_product import FUNCTIONS, functions_of_kernels, largest_change, shifts
from equitangents_studies.cross_product import claims as cross_product_claims
from equitangents_studies.data import DataNotFoundError, load_molecules, load_water
from equitangents_studies.forces import WaterTensors
from equitangents_studies.framework.claims import EXACT
from equitangents_studies.framework.folder import RunFolder
from equitangents_studies.framework.progress import Task
from equitangents_studies.molecules import fits
from studies.miniatures import TINY
from studies.small import follow


class TestLargestOfAFew:
    def test_a_further_value_lies_below_the_upper_end_as_often_as_promised(self):
        values = np.exp(np.random.default_rng(0).normal(size=(2000, 9)))
        below = [further <= largest(np.array(seen), level=0.9).high for *seen, further in values]
        assert np.mean(below) > 0.9

    def test_it_is_the_largest_that_was_seen_and_its_own_lower_end(self):
        found = largest(np.array([0.1, 0.4, 0.2]))
        assert found.value == found.low == 0.4 < found.high < np.inf
        for values in ([0.1], [0.0, 0.1], [np.nan, 0.1]):
            assert np.isnan(largest(np.array(values)).high)


class TestCrossProduct:
    settings = cross_product.ProductSettings(groups=("T",), trained_groups=("T",), members=200, test_pairs=6)

    def results(
        self, *, common=0.0, spread=1.0, infinite=0.0, worst=0.1, between=0.1, plain=0.5, shift=0.0, shuffled=0.3
    ):
        rng = np.random.default_rng(0)
        times, pairs, order = 2, 6, 3
        outputs = rng.normal(size=(times, 200, 1, pairs, 3)) + spread * rng.normal(size=(times, 200, order, pairs, 3))
        outputs[:, :, 1:] += common * rng.normal(size=(times, 1, order - 1, pairs, 3))
        some = rng.uniform(1, 1.2, (times, pairs))
        table = {"none": np.zeros((times, 3)), "T": np.full((times, 3), infinite)}
        share = worst * some
        share[-1, 0] *= 1.2
        return cross_product.ProductResults(
            times=np.array([0, 1]), outputs={("T", key): outputs for key in cross_product.SETS}, mean_error=table,
            covariance_error=table | {"none": np.full((times, 3), plain)},
            between={"none": some, "T": between * some[::-1]},
            worst={"T": share, "none": some}, bound={"T": np.ones((times, pairs)), "none": some},
            shift={"T": np.full(6, shift)}, shuffled={"T": np.full(6, shuffled)},
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("change", "expected"),
        [({}, ["holds"] * 10), ({"infinite": 1e-6}, {0: "fails", 1: "fails"}), ({"spread": 1e-4}, {3: "fails"}),
         ({"common": 1.0}, {4: "fails"}), ({"common": 2.0}, {5: "fails"}), ({"between": 10.0}, {7: "fails"}),
         ({"worst": 0.9}, {6: "fails"}), ({"shift": 1e-6}, {2: "fails"}), ({"plain": 1e-6}, {8: "fails"}),
         ({"shuffled": 1e-6}, {9: "fails"}), ({"plain": 1.01e-3, "shuffled": 1.01e-3}, ["holds"] * 10)],
    )  # fmt: skip
    def test_claims_follow_their_numbers(self, change, expected):
        found = cross_product_claims(self.settings, self.results(**change))
        follow(found, expected)
        assert [c.covers == EXACT for c in found] == [True] * 3 + [False] * 5 + [True] * 2

    def test_pairs_that_come_near_the_bound_decide_nothing_about_further_ones(self):
        near = {"T": np.tile([0.2, 0.4, 0.5, 0.6, 0.8, 0.95], (2, 1))}
        follow(cross_product_claims(self.settings, dataclasses.replace(self.results(), worst=near)), {6: "undecided"})


class TestForces:
    settings = forces.ForcesSettings(sizes=(2, 4), test=6)

    def results(self, *, ratio=0.5, rotated=(1e-4, 2e-4, 1e-4), law=1e-9):
        error = np.random.default_rng(0).uniform(0.5, 1, (2, 6))
        errors = {"energies": error, "forces": error, "both": ratio * error * np.linspace(0.9, 1.1, 6)}
        rotated = np.array(rotated)
        return forces.ForcesResults(errors, errors, law, law, rotated, rotated, (1.0, 1.0), {})

    @pytest.mark.parametrize(("change", "expected"), [
        ({}, ["holds"] * 6), ({"ratio": 3.0, "law": 1e-3, "rotated": (0.02,) * 3}, ["fails"] * 6),
        ({"rotated": (1e-4,)}, {5: "undecided"}),
    ])  # fmt: skip
    def test_claims_follow_their_numbers(self, change, expected):
        found = forces.claims(self.settings, self.results(**change))
        follow(found, expected)
        assert [c.covers == EXACT for c in found] == [False, False, False, True, True, False]


class TestMolecules:
    settings = molecules.MoleculesSettings(sizes=(20, 40), splits=5, test=6, moved=6)

    def results(self, *, ratio=0.5, rotated=1e-4, relabelled=1e-13):
        rng = np.random.default_rng(0)
        error = rng.uniform(0.5, 1, (5, 2, 6))
        errors = dict.fromkeys(("mlp", "coulomb", "soap", "elements"), error)
        errors["so3"] = ratio * error * rng.uniform(0.9, 1.1, (5, 1, 1))
        moved = {"so3": rotated * rng.uniform(0.5, 1, (6, 3))}, {"so3": np.full((6, 3), relabelled)}
        return molecules.MoleculesResults(errors, *moved)

    def test_claims_follow_their_numbers(self):
        found = molecules.claims(self.settings, self.results())
        follow(found, ["holds"] * 5)
        assert found[0].shown == "the geometric mean over training sizes"
        assert 0.45 < found[0].number < 0.55
        assert [c.covers == EXACT for c in found] == [False] * 4 + [True]
        broken = self.results(ratio=2.0, rotated=1.0, relabelled=1e-3)
        follow(molecules.claims(self.settings, broken), ["fails"] * 5)

    def test_without_soap_there_is_no_claim_about_it(self):
        results = self.results()
        fewer = {name: e for name, e in results.errors.items() if name != "soap"}
        found = molecules.claims(self.settings, dataclasses.replace(results, errors=fewer))
        assert not any("SOAP" in c.statement for c in found)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [("molecules", {"data": "qm9"}, r"qm9\.npz is needed"), ("forces", {"molecule": "ethanol"}, "npz is needed")],
)
def test_data_that_are_not_there_are_missed_before_the_folder_is_touched(name, change, said, tmp_path, monkeypatch):
    monkeypatch.delenv("EQUITANGENTS_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match=said):
        studies.run(name, out=tmp_path / "run", settings={**TINY[name], **change}, progress=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("group", [groups.cyclic(5), groups.tetrahedral(), groups.dihedral(3)])
def test_shifts_are_the_groups_regular_permutations(group):
    found, table = shifts(group, 3), np.asarray(group.table)
    for a in group:
        assert sorted(found[a]) == list(range(3 * group.order))
        for b in group:
            assert np.array_equal(found[b][found[a]], found[table[b, a]])


def test_they_are_what_turning_the_inputs_does_to_their_orbits(rng):
    action = cross_product.pair_action(groups.tetrahedral())
    copies = orbit_batch(action, rng.normal(size=(2, 6)))
    for g, permutation in enumerate(shifts(action.group, 2)):
        np.testing.assert_allclose(np.asarray(action(g, copies)), copies[permutation], atol=1e-12)


def _kernels(seed, inputs=2):
    """Two kernels of vectors that rotations leave as they are, on whole orbits of the octahedral group."""
    x = np.random.default_rng(seed).normal(size=(inputs, 3))
    copies = orbit_batch(actions.rotations(groups.octahedral()), x)
    products = copies @ copies.T
    return np.exp(products / 4) + np.eye(len(copies)), np.exp(products / 8) + 0.5 * np.eye(len(copies))


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**20), step=st.integers(0, 50))
def test_functions_of_invariant_kernels_commute_with_the_group_and_with_nothing_else(seed, step):
    ntk, nngp = _kernels(seed)
    matrices = functions_of_kernels(ntk, nngp, 0.5, step)
    assert tuple(matrices) == FUNCTIONS
    assert np.max(largest_change(matrices, shifts(groups.octahedral(), 2))) < 1e-8
    others = np.random.default_rng(seed).permutation(len(ntk))[None]
    assert np.max(largest_change({"Θ": ntk}, others)) > 1e-3


def test_a_kernel_that_one_entry_breaks_and_one_that_is_no_number_are_seen():
    ntk, _ = _kernels(0)
    moved = shifts(groups.octahedral(), 2)
    broken = ntk.copy()
    broken[3, 5] *= 1.01
    assert largest_change({"Θ": broken}, moved)[0] > 1e-4
    broken[3, 5] = np.nan
    assert not largest_change({"Θ": broken}, moved)[0] <= 1


WATER = forces.ForcesSettings(water_sizes=(2, 12), water_test=4, tolerance=1e-4)


@pytest.fixture(scope="module")
def water_folder(tmp_path_factory):
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
def test_tensors_are_learnt_and_rotate(water_folder, kind):
    found = WaterTensors(**forces.learn_water(WATER, water_folder.data_dir, kind, Task()))
    assert found.errors.shape == (2, 4)
    assert found.guess.shape == (4,)
    assert found.errors[1].mean() < found.errors[0].mean()
    assert found.ratio().value == pytest.approx(found.errors[1].mean() / found.guess.mean())
    assert found.ratio().value < 0.5
    assert found.rotated.shape == (4,)
    assert 0 < found.rotated.min() <= found.rotated.max() < 0.01


def test_the_simplest_models_by_hand(water_folder):
    water = load_water("monomer", water_folder.data_dir)
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


@pytest.mark.parametrize(("change", "words"), [
    ({"water": "ice"}, "water was 'ice'; expected one of monomer"), ({"water_sizes": (4,)}, "water_sizes was"),
    ({"water_sizes": (4, 17)}, "at most 16"), ({"water_test": 1}, "water_test was 1"),
])  # fmt: skip
def test_bad_settings(water_folder, change, words):
    with pytest.raises(InvalidArgumentError, match=words):
        forces.check_water(dataclasses.replace(WATER, **change), water_folder.data_dir)


@pytest.mark.slow
def test_page_and_claims_show_tensors(tmp_path):
    settings = forces.ForcesSettings(sizes=(2, 4), test=3, water_sizes=(2, 4), water_test=20)
    rng = np.random.default_rng(0)
    errors = lambda: {target: rng.uniform(0.1, 1, (2, 3)) for target in forces.TARGETS}
    off = lambda *shape: rng.uniform(0.95, 1.05, shape)
    water = {
        "dipoles": WaterTensors(0.1 * off(2, 20), 0.2 * off(20), np.array([1e-5, 2e-5])),
        "polarizabilities": WaterTensors(0.4 * off(2, 20), 0.2 * off(20), 0.4 * off(20)),
    }
    rotated = np.array([1e-4, 2e-4, 1e-4])
    results = forces.ForcesResults(errors(), errors(), 0.0, 0.0, rotated, rotated, (1.0, 1.0), water)
    verdicts = forces.claims(settings, results)
    assert [v.outcome for v in verdicts[5:]] == ["fails", "fails"]
    assert verdicts[6].number == pytest.approx(2, rel=0.05)
    water_folder = RunFolder(tmp_path / "run", {"study": "forces", "settings": {}})
    forces.present(settings, results, water_folder)
    assert {p.name for p in water_folder.figures.glob("*.png")} == {"learning-curves.png", "tensors.png"}
    without = dataclasses.replace(results, water={})
    assert len(forces.claims(settings, without)) == 6


def test_interrupted_kernel_is_completed_to_the_same_bits(tmp_path):
    molecules = load_molecules("g2", count=9).molecules
    kernel = molecule_kernels.vector_kernel(
        lambda m: molecule_kernels.coulomb_vectors(m, molecules.atomic_numbers.shape[1]), "cityblock", 100.0
    )
    calls = []

    def failing(*molecules):
        calls.append(molecules)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return kernel(*molecules)

    whole = molecule_kernels.blockwise(kernel, molecules, 4, tmp_path / "whole", Task())
    np.testing.assert_allclose(whole, kernel(molecules), rtol=1e-12)
    with pytest.raises(KeyboardInterrupt):
        molecule_kernels.blockwise(failing, molecules, 4, tmp_path / "parts", Task())
    assert len(list((tmp_path / "parts").iterdir())) == 1
    resumed = molecule_kernels.blockwise(failing, molecules, 4, tmp_path / "parts", Task())
    np.testing.assert_array_equal(resumed, whole)
    assert len(calls) == 4 + 3


def test_coulomb_matrix_of_water_by_hand():
    x = np.array([[0.0, 0, 1], [0, 0, 0], [2, 0, 0]])
    found = molecule_kernels.coulomb_vectors(Molecules(np.array([[1, 8, 1]]), x[None]), 3)
    expected = [0.5 * 8**2.4, 8.0, 4.0, 0.5, 1 / 5**0.5, 0.5]
    np.testing.assert_allclose(found[0], expected)


def test_ridge_regression_is_the_textbook_formula():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(12, 5))
    K, counts, y = a @ a.T + np.eye(12), rng.integers(0, 4, (12, 2)).astype(float), rng.normal(size=12)
    (fit,) = fits(K, counts, y, (0.1,))
    base = np.linalg.pinv(counts) @ y
    weights = np.linalg.inv(K + 0.1 * np.trace(K) / 12 * np.eye(12)) @ (y - counts @ base)
    np.testing.assert_allclose(fit.elements, base)
    np.testing.assert_allclose(fit.weights, weights, rtol=1e-9)
