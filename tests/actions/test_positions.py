"""Permutations of positions, motions of grids, and some elements of a group."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents import actions, groups
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotAnActionError, ShapeError


class TestPermutations:
    @given(st.lists(st.permutations(range(5)), min_size=1, max_size=2), st.integers(0, 99), st.data())
    def test_values_travel_with_their_positions(self, generators, seed, data):
        G = groups.generated_by_permutations(generators)
        action = actions.permutations(G, [G.element(g) for g in G])
        f = np.random.default_rng(seed).normal(size=(2, 5, 3))
        g = data.draw(st.integers(0, G.order - 1))
        moved = action(g, f)
        for x in range(5):
            assert np.array_equal(moved[:, G.element(g)[x]], f[:, x])

    def test_refuses_what_is_no_action(self):
        S3 = groups.symmetric(3)
        backwards = [np.argsort(S3.element(g)) for g in S3]
        with pytest.raises(NotAnActionError, match="table") as error:
            actions.permutations(S3, backwards)
        g, h, _ = error.value.at
        assert not np.array_equal(backwards[g][backwards[h]], backwards[S3.compose(g, h)])


class TestGrid:
    @given(st.sampled_from([(1, False), (2, False), (4, False), (2, True), (4, True)]), st.integers(1, 5), st.data())
    def test_reads_at_the_inverse_motion(self, kind, H, data):
        rotations, reflections = kind
        W = H if rotations == 4 else data.draw(st.integers(1, 5))
        G = groups.wallpaper(rotations, reflections, (H, W))
        g = data.draw(st.integers(0, G.order - 1))
        rotation, reflection, t = G.element(g)
        f = np.random.default_rng(0).normal(size=(1, H, W, 2))
        moved = actions.grid(G)(g, f)
        turn = np.linalg.matrix_power(np.array([[0, -1], [1, 0]]), rotation * 4 // rotations)
        P = turn @ np.linalg.matrix_power(np.diag([1, -1]), reflection)
        for x in np.ndindex(H, W):
            u, v = (P @ x + t) % (H, W)
            assert np.array_equal(moved[0, u, v], f[0, x[0], x[1]])

    @given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
    def test_translations_roll(self, shape, data):
        action = actions.translations(shape)
        g = data.draw(st.integers(0, action.group.order - 1))
        f = np.random.default_rng(0).normal(size=(2, *shape, 1))
        rolled = np.roll(f, action.group.element(g), axis=tuple(range(1, len(shape) + 1)))
        assert np.array_equal(action(g, f), rolled)

    def test_large_groups_act_without_their_tables(self):
        action = actions.grid(groups.wallpaper(4, False, (50, 50)))
        f = np.random.default_rng(0).normal(size=(1, 50, 50, 1))
        assert np.array_equal(action(7504, action(7503, f)), action(action.group.compose(7504, 7503), f))
        assert not {"table", "grid_table"} & set(vars(action.group))


class TestPositionTable:
    CASES = (
        (actions.image_rotations(4), (3, 3)),
        (actions.image_rotations(2), (2, 3)),
        (actions.image_dihedral(4), (4, 4)),
        (actions.grid(groups.wallpaper(2, True, (2, 3))), (2, 3)),
        (actions.translations((2, 2, 3)), (2, 2, 3)),
        (actions.permutations(groups.symmetric(3), groups.symmetric(3).table), (6,)),
        (actions.restrict(actions.image_rotations(4), groups.cyclic(4).subgroup([0, 2])), (3, 3)),
    )

    @pytest.mark.parametrize(("action", "positions"), CASES)
    def test_says_where_positions_go(self, action, positions):
        table = action.position_table(positions)
        P = int(np.prod(positions))
        assert table.shape == (action.group.order, P)
        assert np.array_equal(action.position_table((*positions, 5)), table)
        f = np.random.default_rng(0).normal(size=(1, *positions, 1))
        for g in action.group:
            moved = action(g, f).reshape(P)
            for x in range(P):
                assert moved[table[g, x]] == f.reshape(P)[x]
            for h in action.group:
                assert np.array_equal(table[g][table[h]], table[action.group.compose(g, h)])

    def test_none_for_other_actions(self):
        assert actions.image_rotations(8).position_table((3, 3)) is None
        assert actions.image_rotations(4, mask="circle").position_table((3, 3)) is None
        assert actions.rotations(groups.octahedral()).position_table((3,)) is None
        assert actions.trivial(groups.cyclic(2)).position_table((3,)) is None


turn = actions.image_dihedral(4)
x = np.random.default_rng(0).normal(size=(2, 3, 3, 1))


def test_its_orbit_holds_the_chosen_elements_in_their_order():
    some = actions.subset(turn, [5, 0, 3])
    assert len(some) == 3
    np.testing.assert_array_equal(some.orbit(x), np.stack([turn(g, x) for g in (5, 0, 3)]))


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


C2, SWAP = groups.cyclic(2), actions.permutations(groups.cyclic(2), [[0, 1], [1, 0]])
P4, ROTATIONS = actions.grid(groups.wallpaper(4, False, (3, 3))), actions.image_rotations(4)
WEIGHTS = r"weights holds .*; expected positive numbers"


@pytest.mark.parametrize(
    ("make", "given", "error", "message"),
    [
        (actions.permutations, (C2, [[1, 0], [0, 1]]), NotAnActionError, r"table\[0\] is \[1, 0\]; .* the identity"),
        (actions.permutations, (C2, [[0, 1], [1, 1]]), InvalidArgumentError, r"table\[1\] is \[1, 1\]"),
        (actions.permutations, (C2, [[0, 1]]), ShapeError, "table has length 1; expected 2"),
        (actions.permutations, ([], [[0, 1]]), InvalidTypeError, "group is of type list"),
        (SWAP, (0, np.zeros((1, 3, 1))), ShapeError, r"x has positions of shape \(3,\); expected \(2,\)"),
        (SWAP, (0, np.zeros((2, 1))), ShapeError, "x has rank 2"),
        (actions.grid, (groups.cyclic(4),), InvalidTypeError, "group is of type TableGroup"),
        (P4, (0, np.zeros((1, 3, 4, 1))), ShapeError, r"x has positions of shape \(3, 4\)"),
        (ROTATIONS.position_table, ((3, 4),), ShapeError, "shape has images of shape"),
        (ROTATIONS.position_table, ((3,),), InvalidArgumentError, "the position axes"),
        (actions.subset, (groups.cyclic(3), [0]), InvalidTypeError, "action is"),
        (actions.subset, (turn, [0, 8]), InvalidArgumentError, "elements is 8; expected 0 to 7"),
        (actions.subset, (turn, []), InvalidArgumentError, "non-empty list"),
        (actions.subset, (turn, [0, 1, 2], [1, 1]), ShapeError, r"weights has shape \(2,\); expected \(3,\)"),
        *((actions.subset, (turn, [0, 1], [1, bad]), InvalidArgumentError, WEIGHTS) for bad in (0.0, -1.0, np.nan)),
    ],
)
def test_bad_input(make, given, error, message):
    with pytest.raises(error, match=message):
        make(*given)
