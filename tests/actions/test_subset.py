import copy

import numpy as np
import pytest

from equitangents import actions, groups
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError

turn = actions.image_dihedral(4)
x = np.random.default_rng(0).normal(size=(2, 3, 3, 1))


def test_its_orbit_holds_the_chosen_elements_in_their_order():
    some = actions.subset(turn, [5, 0, 3])
    assert len(some) == 3
    np.testing.assert_array_equal(some.orbit(x), np.stack([turn(g, x) for g in (5, 0, 3)]))


def test_names():
    assert actions.subset(turn, [5, 0, 3]).name == "3 of 8 elements of D4"
    assert actions.subset(turn, [5, 0, 3], [1, 2, 1]).name == "3 of 8 elements of D4, weighted"
    assert "turns by 90°" in repr(actions.subset(turn, [1]))


@pytest.mark.parametrize(
    ("elements", "weights", "expected"),
    [
        ([0], None, True),
        ([2, 0], None, True),
        ([0, 4, 2, 6], [3.0] * 4, True),
        (range(8), None, True),
        ([0, 1], None, False),
        ([1, 3], None, False),
        ([0, 2, 2], None, False),
        ([0, 2], [1.0, 2.0], False),
    ],
)
def test_whether_it_is_a_subgroup(elements, weights, expected):
    assert actions.subset(turn, list(elements), weights).is_subgroup is expected


def test_it_is_a_value():
    some = actions.subset(turn, [1, 2])
    assert copy.deepcopy(some) is some
    with pytest.raises(ValueError, match="read-only"):
        some.elements[0] = 0


def test_bad_input():
    with pytest.raises(InvalidTypeError, match="action is"):
        actions.subset(groups.cyclic(3), [0])
    with pytest.raises(InvalidArgumentError, match="elements is 8; expected 0 to 7"):
        actions.subset(turn, [0, 8])
    with pytest.raises(InvalidArgumentError, match="non-empty list"):
        actions.subset(turn, [])
    with pytest.raises(ShapeError, match=r"weights has shape \(2,\); expected \(3,\)"):
        actions.subset(turn, [0, 1, 2], [1, 1])
    for bad in (0.0, -1.0, np.nan):
        with pytest.raises(InvalidArgumentError, match=r"weights holds .*; expected positive numbers"):
            actions.subset(turn, [0, 1], [1, bad])
