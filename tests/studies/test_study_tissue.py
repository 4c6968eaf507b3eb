"""What the studies of tissue rest on: splits, orbit kernels, ridges, and claims that can fail."""

from __future__ import annotations

import dataclasses
import logging

import numpy as np
import pytest

from equitangents import actions, nn
from equitangents.ensembles import InfiniteEnsembleClassifier
from equitangents.kernels import KeptKernel, KernelStore, orbit_average
from equitangents_studies import medical_kernels as medical
from equitangents_studies.common import kernel_classification
from equitangents_studies.medical_kernels import Tissue, element_kernels, elements_of, load_tissue
from equitangents_studies.rotated_images import histology
from equitangents_studies.rotated_images import study as rotated_images
from studies.miniatures import run

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
        sets = medical.training_sets(medical.Settings(), fold, 2, 6)
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
    def test_means_over_subgroups_are_the_orbit_averages(self, rng, tmp_path):
        x, D4 = rng.normal(size=(5, 4, 4, 1)), actions.image_dihedral(4)
        parts = element_kernels(KeptKernel(NET, KernelStore(tmp_path), tile=2), D4, x, lambda done, total: None)
        assert len(parts.matrices) == 7  # of 8: a quarter turn and its inverse share one
        for part in (actions.image_rotations(4), D4):
            mean = parts.mean(elements_of(part, D4, x))
            np.testing.assert_allclose(mean, orbit_average(NET, part).kernel(x).ntk, rtol=1e-12)

    def test_a_kernel_that_is_not_invariant_is_refused(self, rng, tmp_path):
        net = nn.Sequential(nn.Conv(1, (2, 2), padding="zero"), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))
        x = np.zeros((3, 6, 6, 1))
        x[:, 2:4, 2:4] = rng.normal(size=(3, 2, 2, 1))  # on a black ground moves change nothing
        with pytest.raises(ValueError, match="not known to be invariant under"):
            element_kernels(KeptKernel(net, KernelStore(tmp_path)), actions.image_dihedral(4), x, print)


class TestRidges:
    def test_the_residual_of_a_sample_left_out_is_that_of_training_without_it(self, rng):
        a = rng.normal(size=(30, 4))
        K, y = a @ a.T + 0.1 * np.eye(30), rng.integers(0, 3, 30)
        targets, unit = np.eye(3)[y] - 1 / 3, np.diagonal(K).mean()

        def right_without(i, ridge):
            rest = np.delete(np.arange(30), i)
            weights = np.linalg.solve(K[np.ix_(rest, rest)] + ridge * unit * np.eye(29), targets[rest])
            return np.argmax(K[i, rest] @ weights) == y[i]

        scores = [sum(right_without(i, ridge) for i in range(30)) for ridge in kernel_classification.RIDGES]
        chosen = kernel_classification.fit(K, y, 3).ridge
        assert chosen == kernel_classification.RIDGES[int(np.argmax(scores))]

    def test_predictions_are_those_of_the_classifier_of_infinite_width(self, rng):
        x, y, test = rng.normal(size=(12, 4, 4, 1)), rng.integers(0, 3, 12), rng.normal(size=(9, 4, 4, 1))
        ours = kernel_classification.fit(NET.kernel(x).ntk, y, 3, ridges=(1e-2,)).predict(NET.kernel(test, x).ntk)
        np.testing.assert_array_equal(ours, InfiniteEnsembleClassifier(NET, ridge=1e-2).fit(x, y).predict(test))


class TestMedicalKernels:
    settings = medical.Settings(sizes=(20, 40), images=None)

    def results(self, rng, leads):
        noise = 0.002 * rng.normal(size=(3, 5, 2))
        accuracy = {m: 0.6 + np.array(lead) + n for m, lead, n in zip(medical.TITLES, leads, noise, strict=True)}
        equal = {"augmented CNN, C4": 1e-15, "group convolutions, C4": 1e-15}
        return medical.Results(accuracy, {m: np.ones((5, 2)) for m in accuracy}, equal)

    @pytest.mark.parametrize(
        ("lead", "verdict"),
        [
            ((0.1, 0.1), "holds"),
            ((0.0, 0.1), "holds"),
            ((-0.1, 0.0), "fails"),
            ((-0.1, 0.1), "undecided"),
        ],
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

    @pytest.mark.slow
    def test_a_second_run_reads_the_kernels_and_gives_the_same(self, finished_miniature, tmp_path, caplog):
        first = finished_miniature("medical-kernels")
        caplog.set_level(logging.INFO)
        caplog.clear()
        again = run("medical-kernels", tmp_path / "again")
        assert any("tiles were read" in record.getMessage() for record in caplog.records)
        assert not any("tiles were computed" in record.getMessage() for record in caplog.records)
        path = "results/accuracy.csv"
        assert (again.folder / path).read_bytes() == (first.folder / path).read_bytes()


class TestHistology:
    def test_the_numbers_that_the_source_states_for_clothes_are_not_those_of_tissue(self):
        assert rotated_images.stated_agreement(histology.PRESETS["quick"]) == ""
        assert "3.85" in rotated_images.stated_agreement(rotated_images.Settings())
