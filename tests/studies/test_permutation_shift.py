"""The permutation shift, and the cross-product study's claims on numbers made for the purpose."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equitangents import actions, groups
from equitangents_studies import cross_product
from equitangents_studies.common.orbits import orbit_batch
from equitangents_studies.cross_product import FUNCTIONS, functions_of_kernels, largest_change, shifts


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
