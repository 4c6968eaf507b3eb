"""What the studies feed to the ensembles: lattices, orbits, images, and networks whose kernels keep the symmetry."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import replace

import numpy as np
import pytest

import equitangents as et
from equitangents import actions, nn
from equitangents.ensembles import InfiniteEnsembleClassifier
from equitangents.errors import InvalidArgumentError
from equitangents.kernels import orbit_average
from equitangents_studies import ising, toy
from equitangents_studies import medical_kernels as medical
from equitangents_studies.common.images import load_images, standardise
from equitangents_studies.common.ising_lattice import energy, hot_spins, thermal_spins
from equitangents_studies.common.orbits import by_element, deviations, orbit_batch, relative_std, same_predictions
from equitangents_studies.comparison.study import ComparisonSettings, images_of
from equitangents_studies.medical_kernels import Tissue, element_kernels, elements_of, load_tissue
from equitangents_studies.rotated_images import histology
from equitangents_studies.rotated_images import study as rotated_images
from oracles.invariance import invariance_error


class TestLattice:
    def test_energy_literally(self):
        spins = hot_spins(5, 4, np.random.default_rng(0))
        for s, found in zip(spins, energy(spins, coupling=1.5), strict=True):
            total = 0.0
            for i, j in itertools.product(range(4), repeat=2):
                total -= 1.5 * s[i, j] * (s[(i + 1) % 4, j] + s[i, (j + 1) % 4])
            assert found == total

    def test_energy_is_invariant_and_scaled_to_unit_variance(self):
        spins = hot_spins(4000, 6, np.random.default_rng(0))
        np.testing.assert_array_equal(energy(np.rot90(spins, axes=(1, 2))), energy(spins))
        assert ising.targets(ising.IsingSettings(), spins[..., None]).std() == pytest.approx(1.0, abs=0.05)

    @pytest.mark.parametrize("temperature", [1.5, 3.0])
    def test_metropolis_against_enumeration(self, temperature):
        states = np.array(list(itertools.product([-1.0, 1.0], repeat=9))).reshape(-1, 3, 3)
        energies = energy(states)
        weights = np.exp(-(energies - energies.min()) / temperature)
        weights /= weights.sum()
        exact = weights @ energies
        spread = np.sqrt(weights @ (energies - exact) ** 2)
        found = energy(thermal_spins(2000, 3, temperature, np.random.default_rng(0), sweeps=60)).mean()
        assert abs(found - exact) < 4 * spread / np.sqrt(2000)


class TestOrbits:
    action = et.actions.image_rotations(4)

    def _function(self, outputs):
        weights = np.random.default_rng(1).normal(size=(16, outputs))
        return lambda x: np.asarray(x).reshape(len(x), -1) @ weights

    def test_same_predictions_agree_with_the_metric(self):
        x, f = np.random.default_rng(0).normal(size=(30, 4, 4, 1)), self._function(3)
        labels = by_element(self.action, f(orbit_batch(self.action, x))).argmax(-1)
        expected = et.metrics.orbit_same_predictions(f, self.action, x).values
        np.testing.assert_array_equal(same_predictions(self.action, labels), expected)
        assert 1 < expected.mean() < 4

    def test_relative_std_of_a_set_is_that_of_the_vector_of_its_predictions(self):
        y = np.random.default_rng(0).normal(size=(4, 7))
        expected = np.linalg.norm(y.std(axis=0)) / np.linalg.norm(y.mean(axis=0))
        assert relative_std(y) == pytest.approx(expected)
        left_out = deviations(self.action, np.arange(8.0).reshape(4, 2))
        np.testing.assert_array_equal(left_out, [[2, 2], [4, 4], [6, 6]], "all but the identity")


def test_the_toy_s_truth_is_invariant():
    x = np.random.default_rng(0).normal(size=(20, 2))
    action = toy.plane_rotations(6)
    values = np.stack([toy.ground_truth(np.asarray(action(g, x)), 6) for g in range(6)])
    np.testing.assert_allclose(values, np.broadcast_to(values[0], values.shape), atol=1e-12)


@pytest.mark.parametrize(
    ("net", "action", "shape"),
    [
        (toy.network(toy.ToySettings()), toy.plane_rotations(4), (2,)),
        (ising.network(ising.IsingSettings(), 64), et.actions.image_rotations(4), (6, 6, 1)),
        (rotated_images.network(rotated_images.RotatedSettings(), 10), et.actions.image_rotations(4), (8, 8, 1)),
    ],
)
def test_networks_keep_the_symmetry(net, action, shape):
    assert invariance_error(net, action, np.random.default_rng(0).normal(size=(3, *shape))) < 1e-12


class TestImages:
    def test_standardised(self):
        x = standardise(np.random.default_rng(0).random((5, 8, 8, 1)))
        np.testing.assert_allclose(x.mean(axis=(1, 2, 3)), 0, atol=1e-6)
        np.testing.assert_allclose(x.std(axis=(1, 2, 3)), 1, atol=1e-5)
        assert not standardise(np.ones((1, 8, 8, 1))).any()

    def test_what_rotation_brings_in_at_the_corners_is_the_border_of_images_that_are_zero_there(self):
        settings = ComparisonSettings(train_images=30, test_images=20, foreign_images=10, group="C8")
        means = images_of(settings, None)
        borders = images_of(replace(settings, zero="border"), None)
        for name, x in borders.sets.items():
            for image, other in zip(x, means.sets[name], strict=True):
                ring = [image[i, j, 0] for i, j in np.ndindex(8, 8) if {i, j} & {0, 7}]
                assert np.median(ring) == pytest.approx(0, abs=1e-6)
                np.testing.assert_allclose(image - other, (image - other)[0, 0, 0], atol=1e-6)
        dark = borders.train_x.min(axis=(1, 2, 3))
        assert np.mean(dark == 0) > 0.9  # digits are bright on black
        assert means.train_x.min(axis=(1, 2, 3)).max() < 0

    def test_sets_share_a_shape_and_test_comes_first(self):
        settings = rotated_images.RotatedSettings(train_images=30, test_images=20, foreign_images=10)
        images = load_images(settings, None)
        assert list(images.sets) == ["test", "photographs", "noise"]
        assert {x.shape[1:] for x in images.sets.values()} == {(8, 8, 1)}
        np.testing.assert_allclose(images.targets.sum(axis=1), 0, atol=1e-12)

    def test_foreign_files_are_fitted_to_the_training_images(self, tmp_path):
        colour = np.random.default_rng(0).integers(0, 256, (12, 10, 10, 3), dtype=np.uint8)
        labels = np.arange(12, dtype=np.uint8) % 3
        np.savez(tmp_path / "cifar10.npz", train_x=colour, train_y=labels, test_x=colour, test_y=labels)
        settings = rotated_images.RotatedSettings(train_images=30, foreign=("cifar10",), foreign_images=9)
        images = load_images(settings, tmp_path)
        assert images.sets["cifar10"].shape == (9, 8, 8, 1)
        assert images.titles["cifar10"] == "grey CIFAR-10"

    def test_missing_and_unknown_sets_and_temperatures(self, tmp_path):
        with pytest.raises(et.data.DataNotFoundError, match=r"mnist\.npz"):
            load_images(rotated_images.RotatedSettings(foreign=("mnist",)), tmp_path)
        with pytest.raises(InvalidArgumentError, match="foreign is 'photos'; expected 'photographs', 'noise'"):
            load_images(rotated_images.RotatedSettings(foreign=("photos",)), tmp_path)
        with pytest.raises(InvalidArgumentError, match="positive"):
            thermal_spins(1, 3, 0.0, np.random.default_rng(0))


@pytest.mark.parametrize(("name", "order"), [("none", 12), ("T", 12), ("O", 24), ("I", 60)])
def test_pairs_and_their_products_are_moved_by_the_group_that_is_named(name, order):
    from equitangents_studies import cross_product

    assert [action.group.order for action in cross_product._actions(name)] == [order, order]


NET = nn.Sequential(nn.Conv(1, (2, 2), stride=2, padding="circular"), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))


def tissue(rng, n=40, specimens=None):
    x, y = rng.normal(size=(n, 4, 4, 1)), np.arange(n) % 2
    specimen = np.arange(n) if specimens is None else specimens
    return Tissue(x, y, specimen, ("a", "b"))


class TestSplits:
    def test_every_image_is_tested_once_and_classes_are_alike_in_all_folds(self, rng):
        fold = tissue(rng).folds(5, seed=0)
        for label in (0, 1):
            assert np.bincount(fold[np.arange(40) % 2 == label]).tolist() == [4] * 5

    def test_specimens_stay_whole(self, rng):
        specimen = np.arange(40) % 2 * 100 + np.arange(40) // 8
        fold = tissue(rng, specimens=specimen).folds(5, seed=1)
        assert all(len(np.unique(fold[specimen == s])) == 1 for s in np.unique(specimen))

    def test_training_sets_are_disjoint_and_without_test_images(self, rng):
        fold = tissue(rng).folds(5, seed=0)
        sets = medical.training_sets(medical.MedicalSettings(), fold, 2, 6)
        joined = np.concatenate(sets)
        assert len(sets) == 5
        assert len(np.unique(joined)) == len(joined) == 30
        assert (fold[joined] != 2).all()

    def test_images_are_brought_to_one_size_and_scale(self):
        loaded = load_tissue("digits", None, count=50, pixels=4, seed=0)
        assert loaded.x.shape == (50, 4, 4, 1)
        assert loaded.x.min() >= -2
        assert loaded.x.max() <= 2
        assert np.bincount(loaded.y).min() >= 4


class TestOrbitKernels:
    def test_means_over_subgroups_are_the_orbit_averages(self, rng, monkeypatch):
        monkeypatch.setattr(medical, "_TILE", 2)
        x, D4 = rng.normal(size=(5, 4, 4, 1)), actions.image_dihedral(4)
        parts = element_kernels(NET, D4, x, lambda done, total: None)
        assert len(parts.matrices) == 7  # of 8: a quarter turn and its inverse share one
        for part in (actions.image_rotations(4), D4):
            mean = parts.mean(elements_of(part, D4, x))
            np.testing.assert_allclose(mean, orbit_average(NET, part).kernel(x).ntk, rtol=1e-12)

    def test_a_kernel_that_is_not_invariant_is_refused(self, rng):
        net = nn.Sequential(nn.Conv(1, (2, 2), padding="zero"), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))
        x = np.zeros((3, 6, 6, 1))
        x[:, 2:4, 2:4] = rng.normal(size=(3, 2, 2, 1))  # on a black ground moves change nothing
        with pytest.raises(ValueError, match="not known to be invariant under"):
            element_kernels(net, actions.image_dihedral(4), x, print)


class TestRidges:
    def test_the_residual_of_a_sample_left_out_is_that_of_training_without_it(self, rng):
        a = rng.normal(size=(30, 4))
        K, y = a @ a.T + 0.1 * np.eye(30), rng.integers(0, 3, 30)
        targets, unit = np.eye(3)[y] - 1 / 3, np.diagonal(K).mean()

        def right_without(i, ridge):
            rest = np.delete(np.arange(30), i)
            weights = np.linalg.solve(K[np.ix_(rest, rest)] + ridge * unit * np.eye(29), targets[rest])
            return np.argmax(K[i, rest] @ weights) == y[i]

        scores = [sum(right_without(i, ridge) for i in range(30)) for ridge in medical.RIDGES]
        chosen = medical.fit(K, y, 3).ridge
        assert chosen == medical.RIDGES[int(np.argmax(scores))]

    def test_predictions_are_those_of_the_classifier_of_infinite_width(self, rng):
        x, y, test = rng.normal(size=(12, 4, 4, 1)), rng.integers(0, 3, 12), rng.normal(size=(9, 4, 4, 1))
        ours = medical.fit(NET.kernel(x).ntk, y, 3, ridges=(1e-2,)).predict(NET.kernel(test, x).ntk)
        np.testing.assert_array_equal(ours, InfiniteEnsembleClassifier(NET, ridge=1e-2).fit(x, y).predict(test))


class TestMedicalKernels:
    settings = medical.MedicalSettings(sizes=(20, 40), images=None)

    def results(self, rng, leads):
        noise = 0.002 * rng.normal(size=(3, 5, 2))
        accuracy = {m: 0.6 + np.array(lead) + n for m, lead, n in zip(medical.TITLES, leads, noise, strict=True)}
        equal = {"augmented CNN, C4": 1e-15, "group convolutions, C4": 1e-15}
        return medical.MedicalResults(accuracy, {m: np.ones((5, 2)) for m in accuracy}, equal)

    @pytest.mark.parametrize(
        ("lead", "verdict"),
        [((0.1, 0.1), "holds"), ((0.0, 0.1), "holds"), ((-0.1, 0.0), "fails"), ((-0.1, 0.1), "undecided")],
    )
    def test_the_claim_follows_the_mean_of_the_accuracies_over_sizes(self, rng, lead, verdict):
        results = self.results(rng, [(0, 0), lead, (0.1, 0.1)])
        first = medical.claims(self.settings, results)[0]
        assert first.outcome == verdict
        assert first.number == pytest.approx(100 * np.mean(lead), abs=0.3)

    def test_a_difference_of_kernels_that_is_not_a_number_does_not_hold(self, rng):
        results = self.results(rng, [(0, 0), (0.1, 0.1), (0.1, 0.1)])
        broken = dataclasses.replace(results, equal={"augmented CNN, C4": np.nan, "group convolutions, C4": np.nan})
        assert all(claim.outcome != "holds" for claim in medical.claims(self.settings, broken)[3:])


class TestHistology:
    def test_the_numbers_that_the_source_states_for_clothes_are_not_those_of_tissue(self):
        assert rotated_images.stated_agreement(histology.PRESETS["quick"]) == ""
        assert "3.85" in rotated_images.stated_agreement(rotated_images.RotatedSettings())
