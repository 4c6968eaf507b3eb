"""Spectra by irrep, and what groups are worth in samples."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents import actions, groups, nn
from equitangents.errors import InvalidArgumentError
from equitangents.kernels import orbit_average
from equitangents.statistics import Estimate
from equitangents_studies import spectra
from equitangents_studies.spectra import moved_at_random, scrambled
from equitangents_studies.systems.sample_efficiency import log_factor
from examples import examples

NET = nn.Sequential(nn.Flatten(), nn.Dense(8, W_std=2**0.5, b_std=0.2), nn.Relu(), nn.Dense(1))
S3 = groups.symmetric(3)
CASES = {
    "C4": (actions.image_rotations(4), (4, 4, 1)),
    "D4": (actions.image_dihedral(4), (2, 2, 2)),
    "S3": (actions.permutations(S3, [S3.element(g) for g in range(6)]), (3, 2)),
    "C5 of rings": (actions.ring_rotations(5), (2, 5, 1)),
}


def inputs(name, n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, *CASES[name][1]))


def copies(action, x):
    """All ρ(g) x_i, g running slowest."""
    return np.concatenate([np.asarray(action(g, x)) for g in range(action.group.order)])


def explicit(K):
    """Eigenvalues of K / N in falling order."""
    return np.sort(np.linalg.eigvalsh(np.asarray(K)))[::-1] / len(K)


class TestSpectrum:
    @pytest.mark.parametrize("name", CASES)
    def test_is_that_of_the_kernel_on_all_copies_and_its_trivial_part_of_the_invariant_network(self, name):
        action, x = CASES[name][0], inputs(name, 5)
        found, invariant = spectra.spectrum(NET, action, x, lambda done, total: None)
        every = explicit(NET.kernel(copies(action, x)).ntk)
        assert len(found) == len(every)
        np.testing.assert_allclose(found, every, atol=1e-12 * every[0])
        np.testing.assert_allclose(invariant, explicit(orbit_average(NET, action).kernel(x).ntk), atol=1e-12 * every[0])

    def test_kernels_that_are_not_invariant_are_refused(self):
        net = nn.Sequential(nn.Conv(2, (1, 2), padding="circular"), nn.Relu(), nn.Flatten(), nn.Dense(1))
        with pytest.raises(InvalidArgumentError, match="a kernel known to be invariant"):
            spectra.spectrum(net, CASES["C4"][0], inputs("C4", 3), lambda done, total: None)


class TestFactorsOfSamples:
    @given(st.floats(0.2, 5.0), st.floats(0.1, 1.5))
    @examples(10, random=50)
    def test_of_shifted_power_laws_are_the_shift(self, factor, exponent):
        n = np.geomspace(10, 1000, 9)
        assert np.exp(log_factor(n, n**-exponent, (factor * n) ** -exponent)) == pytest.approx(factor, rel=1e-6)

    def test_of_curves_without_a_common_error_are_no_number(self):
        n = np.array([1.0, 2.0])
        assert np.isnan(log_factor(n, np.array([4.0, 3.0]), np.array([2.0, 1.0])))

    @pytest.mark.parametrize("name", ["D4", "S3"])
    def test_scrambled_groups_are_actions_of_the_same_group(self, name):
        action, shape = CASES[name]
        wrong = scrambled(action, shape, seed=1)
        wrong.verify(inputs(name, 2))
        assert wrong.group == action.group
        x = inputs("C4", 2)
        turns = CASES["C4"][0]
        assert not np.allclose(scrambled(turns, (4, 4, 1))(1, x), turns(1, x))

    def test_moving_at_random_uses_every_element(self):
        x = np.tile(inputs("C4", 1), (40, 1, 1, 1))
        moved = moved_at_random(CASES["C4"][0], x, seed=0)
        assert len(np.unique(moved.reshape(40, -1), axis=0)) == 4

    @pytest.mark.slow
    def test_the_right_group_saves_more_than_a_subgroup_and_a_wrong_one_costs(self, monkeypatch):
        x = np.zeros((150, 4, 4, 1))
        x[:, 1:3, 1:3] = np.random.default_rng(0).normal(size=(150, 2, 2, 1))
        y = np.tanh(x[:, 1, 1, 0] * x[:, 2, 2, 0] + x[:, 1, 2, 0] * x[:, 2, 1, 0])
        monkeypatch.setattr(spectra, "load", lambda *asked: (x, y))
        monkeypatch.setattr(spectra, "network", lambda settings: NET)
        settings = spectra.SpectraSettings(sizes=(10, 20, 40, 80, 120), ridge=1e-3, repetitions=8)
        found = spectra._rates(settings, "digits", "C4", None, SimpleNamespace(step=lambda done, total: None))
        measured, expected = (
            {k: Estimate(*found[f"{of}_{k}"]) for k in spectra.KINDS} for of in ("measured", "expected")
        )
        assert measured["subgroup"].low > 1
        assert measured["subgroup"].value < measured["right"].value
        assert measured["wrong"].high < 1
        for kind in spectra.KINDS:
            assert expected[kind].low < measured[kind].high
            assert measured[kind].low < expected[kind].high

    def test_kernels_are_those_of_orbit_averages(self):
        x = inputs("C4", 30)
        found = spectra.kernels_of(NET, CASES["C4"][0], x, 0, lambda done, total: None)
        right, wrong = CASES["C4"][0], scrambled(CASES["C4"][0], (4, 4, 1))
        for kind, action in (("right", right), ("wrong", wrong)):
            np.testing.assert_allclose(found[kind], orbit_average(NET, action).kernel(x).ntk, rtol=1e-8)
        assert spectra.largest_subgroup(right.group) == [0, 2]
