"""Copies of samples and targets in the group's order; which rows are equal but for rounding."""

import numpy as np
import pytest

from equitangents import actions, groups
from equitangents.errors import ShapeError
from equitangents.inference import augment_inputs
from equitangents.inference.augmented import augment_targets, find_orbits, kinds, row_digests

matrices = np.stack([np.eye(3)[:, list(p)] for p in [(0, 1, 2), (1, 2, 0), (2, 0, 1)]])
shift = actions.linear(groups.cyclic(3), matrices)
icosahedral = actions.rotations(groups.icosahedral())


def test_samples_and_targets_run_over_the_group_in_the_same_order(rng):
    x, y = rng.normal(size=(2, 2, 3))
    inputs, targets = augment_inputs(shift, x), augment_targets(shift, y, range(3))
    for found, given in ((inputs, x), (targets, y)):
        np.testing.assert_array_equal(found, np.concatenate([given @ m.T for m in matrices]))
    np.testing.assert_array_equal(augment_targets(None, y, range(3)), np.concatenate([y, y, y]))
    with pytest.raises(ShapeError, match="must keep the shape"):
        augment_targets(lambda g, y: y[:, :1], y, range(3))


class TestEqualRows:
    def test_all_parts_must_be_equal(self):
        x, y = np.array([[0.0, 1.0], [2.0, 3.0], [-0.0, 1.0], [0.0, 1.0]]), np.array([[1.0], [1.0], [1.0], [2.0]])
        first, kind = kinds(row_digests(x), row_digests(y))
        assert (first.tolist(), kind.tolist()) == ([0, 1, 3], [0, 1, 0, 2])

    def test_rounding_is_forgiven_and_more_is_not(self, rng):
        x = rng.normal(size=(20, 5))
        for change, expected in ((1e-16, 20), (1e-10, 40)):
            assert len(kinds(row_digests(np.concatenate([x, x + change])))[0]) == expected

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_inputs_on_an_axis_of_rotation(self, dtype):
        x = np.random.default_rng(2).normal(size=(1, 3)).astype(dtype)
        stabiliser = groups.icosahedral().generated_subgroup([1]).elements
        on_axis = sum(icosahedral(g, x) for g in stabiliser)
        first, kind = kinds(row_digests(augment_inputs(icosahedral, on_axis)))
        assert len(first) == 60 // len(stabiliser) < 60
        np.testing.assert_array_equal(np.bincount(kind), len(stabiliser))
        assert len(kinds(row_digests(augment_inputs(icosahedral, x)))[0]) == 60

    @pytest.mark.parametrize("factor", [1e6, 1e20])
    def test_one_large_row_does_not_make_small_ones_equal(self, factor):
        x = np.random.default_rng(0).uniform(1, 2, size=(50, 2)).astype(np.float32)
        x[7] *= factor
        first, _ = kinds(row_digests(np.concatenate([x, x * (1 + np.float32(1e-7))])))
        assert len(first) < 60
        assert len(set(row_digests(x))) == 50
        assert len(find_orbits(actions.trivial(groups.cyclic(2)), x).first) == 50
