import numpy as np
import pytest

from equitangents import actions, groups
from equitangents.errors import ShapeError
from equitangents.inference import augment_inputs
from equitangents.inference.augmented import augment_targets, kinds, row_digests
from equitangents.inference.data_orbits import find_orbits

matrices = np.stack([np.eye(3)[:, list(p)] for p in [(0, 1, 2), (1, 2, 0), (2, 0, 1)]])
C3 = groups.cyclic(3)
shift = actions.linear(C3, matrices)
icosahedral = actions.rotations(groups.icosahedral())


class Opposite:
    """A map of a user's own that is no permutation, and does not say so."""

    group = groups.cyclic(2)

    def __call__(self, g, x):
        return -x if g else x


def test_samples_and_targets_run_over_the_group_in_the_same_order():
    x, y = np.random.default_rng(0).normal(size=(2, 3)), np.random.default_rng(1).normal(size=(2, 3))
    inputs, targets = augment_inputs(shift, x), augment_targets(shift, y, range(3))
    for g in range(3):
        for i in range(2):
            np.testing.assert_array_equal(inputs[2 * g + i], matrices[g] @ x[i])
            np.testing.assert_array_equal(targets[2 * g + i], matrices[g] @ y[i])
    np.testing.assert_array_equal(augment_targets(None, y, range(3)), np.concatenate([y, y, y]))


def test_targets_must_keep_their_shape():
    with pytest.raises(ShapeError, match="must keep the shape"):
        augment_targets(lambda g, y: y[:, :1], np.ones((2, 3)), range(3))


class TestEqualRows:
    def test_all_parts_must_be_equal(self):
        x, y = np.array([[0.0, 1.0], [2.0, 3.0], [-0.0, 1.0], [0.0, 1.0]]), np.array([[1.0], [1.0], [1.0], [2.0]])
        first, kind = kinds(row_digests(x), row_digests(y))
        assert (first.tolist(), kind.tolist()) == ([0, 1, 3], [0, 1, 0, 2])

    def test_rounding_is_forgiven_and_more_is_not(self):
        x = np.random.default_rng(0).normal(size=(20, 5))
        first, _ = kinds(row_digests(np.concatenate([x, x + 1e-16])))
        assert len(first) == 20
        first, _ = kinds(row_digests(np.concatenate([x, x + 1e-10])))
        assert len(first) == 40

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_inputs_on_an_axis_of_rotation(self, dtype):
        x = np.random.default_rng(2).normal(size=(1, 3)).astype(dtype)
        on_axis = sum(icosahedral(g, x) for g in subgroup_of(groups.icosahedral(), 1))
        stabiliser = len(subgroup_of(groups.icosahedral(), 1))
        assert stabiliser > 1
        first, kind = kinds(row_digests(augment_inputs(icosahedral, on_axis)))
        assert len(first) == 60 // stabiliser
        np.testing.assert_array_equal(np.bincount(kind), stabiliser)
        assert len(kinds(row_digests(augment_inputs(icosahedral, x)))[0]) == 60

    @pytest.mark.parametrize("factor", [1e6, 1e20])
    def test_one_large_row_does_not_make_small_ones_equal(self, factor):
        x = np.random.default_rng(0).uniform(1, 2, size=(50, 2)).astype(np.float32)
        x[7] *= factor
        first, _ = kinds(row_digests(np.concatenate([x, x * (1 + np.float32(1e-7))])))
        assert len(first) < 60
        assert len(set(row_digests(x))) == 50
        assert len(find_orbits(actions.trivial(groups.cyclic(2)), x).first) == 50

    def test_orbits_under_maps_that_are_no_permutations(self):
        x = np.random.default_rng(0).normal(size=(4, 3))
        x[2] = -x[0]
        assert find_orbits(Opposite(), x).orbit.tolist() == [0, 1, 0, 2]


def subgroup_of(group, generator):
    elements, g = [group.identity], generator
    while g != group.identity:
        elements.append(g)
        g = group.compose(generator, g)
    return elements
