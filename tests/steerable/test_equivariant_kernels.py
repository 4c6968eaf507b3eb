"""Irreps, features and equivariant kernels on directions."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents import errors
from equitangents.steerable import Features, irrep
from equitangents.steerable.angular import angular_kernels
from equitangents.steerable.features import SPACES
from equitangents.steerable.harmonics import direction_harmonics, directions_and_lengths, samples
from examples import examples
from oracles.group_elements import IRREPS, element

GROUPS = st.sampled_from(sorted(IRREPS))


@examples(6, random=15)
@given(GROUPS, st.integers(0, 100), st.integers(0, 100))
def test_irreps_are_orthogonal_representations(group, a, b):
    g, h = element(group, a), element(group, b)
    for text in IRREPS[group]:
        rho = irrep(text, group)
        np.testing.assert_allclose(rho.matrix(g @ h), rho.matrix(g) @ rho.matrix(h), atol=1e-13)
        np.testing.assert_allclose(rho.matrix(g) @ rho.matrix(g).T, np.eye(rho.dimension), atol=1e-13)


def test_the_vector_of_space_turns_as_the_matrix_in_the_order_y_z_x():
    g = element("O(3)", 1)
    order = [1, 2, 0]
    np.testing.assert_allclose(irrep("1o", "O(3)").matrix(g), g[np.ix_(order, order)], atol=1e-14)
    np.testing.assert_allclose(irrep("1e", "O(3)").matrix(g), -g[np.ix_(order, order)], atol=1e-14)
    turn = element("O(2)", 3)
    np.testing.assert_allclose(irrep("1", "O(2)").matrix(turn), turn, atol=1e-14)


@examples(6, random=15)
@given(GROUPS, st.integers(0, 100))
def test_kernels_move_with_the_group(group, seed):
    g, n = element(group, seed), SPACES[group]
    x = np.random.default_rng(seed).normal(size=(4, n))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for out, into in itertools.product(IRREPS[group], repeat=2):
        a, b = irrep(out, group), irrep(into, group)
        for kernel in angular_kernels(a, b):
            there = np.einsum("ab,pbc,dc->pad", a.matrix(g), kernel(x), b.matrix(g))
            np.testing.assert_allclose(kernel(x @ g.T), there, atol=1e-12)
            np.testing.assert_allclose((kernel(x) ** 2).sum((-1, -2)), a.dimension, rtol=1e-12)


def test_kernels_are_complete_and_orthogonal():
    # As many as matrices that commute with what keeps one direction: all in the plane for SO(2), half for O(2),
    # one for every |m| <= min(l, l') and its sign in space.
    for group, expected in (
        ("SO(2)", lambda a, b: a.dimension * b.dimension),
        ("SO(3)", lambda a, b: 2 * min(a.degree, b.degree) + 1),
    ):
        for out, into in itertools.product(IRREPS[group], repeat=2):
            a, b = irrep(out, group), irrep(into, group)
            kernels = angular_kernels(a, b)
            assert len(kernels) == expected(a, b)
            grid = samples(SPACES[group], 8, 0)
            values = np.stack([k(grid.points) for k in kernels])
            gram = np.einsum("kpab,lpab,p->kl", values, values, grid.weights)
            np.testing.assert_allclose(gram, a.dimension * np.eye(len(kernels)), atol=1e-12)
    pairs = itertools.product(IRREPS["O(2)"], repeat=2)
    count = [len(angular_kernels(irrep(a, "O(2)"), irrep(b, "O(2)"))) for a, b in pairs]
    assert count == [1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 2, 2, 1, 1, 2, 2]
    assert [k.frequency for k in angular_kernels(irrep("1o", "O(3)"), irrep("1e", "O(3)"))] == [1]
    assert [k.frequency for k in angular_kernels(irrep("1o", "O(3)"), irrep("1o", "O(3)"))] == [0, 2]
    assert angular_kernels(irrep("0e", "O(3)"), irrep("0o", "O(3)")) == ()


@pytest.mark.parametrize(("space", "group"), [(2, "O(2)"), (3, "O(3)")])
def test_harmonics_turn_as_irreps_and_have_mean_square_one(space, group):
    grid, g = samples(space, 9, 3), element(group, 1)
    turned = direction_harmonics(grid.points @ g.T, 3)
    for degree, h in enumerate(grid.harmonics):
        parity = "" if space == 2 and degree else "eo"[degree % 2]
        rho = irrep(f"{degree}{parity}", group).matrix(g)
        np.testing.assert_allclose(turned[degree], h @ rho.T, atol=1e-12)
        np.testing.assert_allclose(grid.analysis[degree] @ h, np.eye(h.shape[1]), atol=1e-12)


def test_features_are_read_as_copies_of_irreps():
    features = Features("3x0e + 1o+2x2e", "O(3)")
    assert str(features) == "3x0e+1x1o+2x2e"
    assert features.dimension == 16
    assert Features(features) == features
    g = element("O(3)", 1)
    x = np.random.default_rng(0).normal(size=(2, 19))
    y = features.move(x, g)
    np.testing.assert_allclose(y[:, :3], x[:, :3] @ g.T)
    np.testing.assert_allclose(y[:, 3:6], x[:, 3:6])
    np.testing.assert_allclose(y[:, 9:14], x[:, 9:14] @ irrep("2e", "O(3)").matrix(g).T)


def test_whole_numbers_are_moved_as_the_real_numbers_they_are():
    features, g = Features("1x0+1x1", "SO(3)"), element("SO(3)", 1)
    np.testing.assert_array_equal(features.move(np.ones((2, 7), int), g), features.move(np.ones((2, 7)), g))
    assert features.move(np.ones((2, 7), np.float32), g).dtype == np.float32


@pytest.mark.parametrize(("dtype", "lengths"), [(np.float64, (1e-170, 1e160)), (np.float32, (1e-24, 1e30))])
def test_directions_and_lengths_of_short_and_long_vectors(dtype, lengths):
    x = np.array([[3.0, 4.0], [0.0, -2.0], [0.0, 0.0]], dtype)
    unit, length = directions_and_lengths(x)
    np.testing.assert_allclose(length, [5.0, 2.0, 0.0])
    for scale in lengths:
        found = directions_and_lengths(x * dtype(scale))
        np.testing.assert_allclose(found[0], unit, rtol=1e-6)
        np.testing.assert_allclose(found[1], length * dtype(scale), rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: Features("4x1", "SO(4)"), errors.InvalidArgumentError, "group is 'SO\\(4\\)'; expected '"),
        (lambda: Features("4x1o", "SO(3)"), errors.InvalidArgumentError, "irrep is '1o'; expected "),
        (lambda: Features("4x1", "O(3)"), errors.InvalidArgumentError, "2e or 2o"),
        (lambda: Features("2x1+3x1", "SO(2)"), errors.InvalidArgumentError, "name twice the irrep 1"),
        (lambda: Features("0x1", "SO(2)"), errors.InvalidArgumentError, "features hold '0x1'"),
        (lambda: Features(3, "SO(2)"), errors.InvalidTypeError, "expected a text such as '8x0\\+4x1'"),
        (lambda: Features("1", "SO(2)").matrix(np.eye(3)), errors.ShapeError, "orthogonal matrices"),
        (
            lambda: Features("1", "SO(2)").matrix(2 * np.eye(2)),
            errors.InvalidArgumentError,
            "expected orthogonal matrices",
        ),
        (lambda: Features("1", "SO(2)").matrix(np.diag([1, -1])), errors.InvalidArgumentError, "holds 'a reflection'"),
        (lambda: Features("1", "SO(2)").move(np.ones((3, 5)), np.eye(2)), errors.ShapeError, "x has shape \\(3, 5\\)"),
        (lambda: Features("1", "SO(2)").move(3.0, np.eye(2)), errors.ShapeError, "x has rank 0"),
        (lambda: Features("1", "SO(2)").matrix("a"), errors.InvalidTypeError, "g has dtype"),
        (lambda: Features("1", "SO(2)").matrix([[1], [0, 1]]), errors.ShapeError, "g is not a rectangular array"),
        (lambda: irrep(1, "SO(3)"), errors.InvalidTypeError, "irrep is 1; expected "),
    ],
)
def test_features_that_are_none_are_refused(call, kind, says):
    with pytest.raises(kind, match=says):
        call()
