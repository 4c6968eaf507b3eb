"""Transformations of data: orthogonal, invertible, seeded, from the law of their group."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import equitangents as et
from equitangents.errors import EquitangentsError, MemoryLimitError
from equitangents_studies.systems.transformations import data_group
from examples import examples

SYSTEMS = et.systems
GROUPS = ("I", "O(3)xI", "O(3)^d", "P(3d)", "O(3d)")
SHAPES = st.tuples(st.lists(st.integers(1, 4), min_size=0, max_size=3), st.integers(1, 5)).map(lambda s: (*s[0], s[1]))


@examples(25, random=200)
@given(group=st.sampled_from(GROUPS), shape=SHAPES, seed=st.integers(0, 99))
def test_every_element_is_orthogonal_and_its_inverse_undoes_it(group: str, shape: tuple[int, ...], seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((4, *shape))
    tau = SYSTEMS.transformation(group, shape, seed=seed)
    matrix, flat = tau.matrix(), x.reshape(4, -1)
    moved = tau(x)
    assert np.max(np.abs(matrix @ matrix.T - np.eye(len(matrix)))) <= 1e-13
    assert np.max(np.abs(moved.reshape(4, -1) - flat @ matrix.T)) <= 1e-13
    assert np.max(np.abs(tau.inverse(moved) - x)) <= 1e-12
    assert np.max(np.abs(tau.inverse.matrix() - matrix.T)) <= 1e-13
    assert np.array_equal(moved, et.systems.rotate(x, group, seed))
    assert np.max(np.abs(et.systems.rotate(moved, group, seed, inverse=True) - x)) <= 1e-12


@pytest.mark.parametrize(
    ("group", "dimension"), [("I", 0), ("O(3)xI", 3), ("O(3)^d", 48), ("P(3d)", 0), ("O(3d)", 48 * 47 // 2)]
)
def test_the_dimension_of_a_group_is_that_of_the_manifold(group: str, dimension: int) -> None:
    assert SYSTEMS.transformation(group, (4, 4, 3)).dimension == dimension


def test_shared_matrices_are_the_same_at_every_position_and_own_ones_differ() -> None:
    blocks = lambda tau: np.stack([tau.matrix()[3 * p : 3 * p + 3, 3 * p : 3 * p + 3] for p in range(6)])
    shared = blocks(SYSTEMS.transformation("O(3)xI", (2, 3, 3)))
    own = blocks(SYSTEMS.transformation("O(3)^d", (2, 3, 3)))
    assert np.ptp(shared, axis=0).max() == 0
    assert np.min(np.linalg.norm(own[1:] - own[:-1], axis=(1, 2))) > 0.1


def test_a_seed_gives_the_same_element_and_another_seed_another() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 3, 3))
    for group in GROUPS[1:]:
        assert np.array_equal(SYSTEMS.rotate(x, group, seed=4), SYSTEMS.rotate(x, group, seed=4))
        assert not np.allclose(SYSTEMS.rotate(x, group, seed=4), SYSTEMS.rotate(x, group, seed=5))


@pytest.mark.parametrize("group", ["O(3)^d", "O(3d)"])
def test_matrices_are_haar_distributed(group: str) -> None:
    """E Q = 0, E Q_ij² = 1/n, E (tr Q)² = 1, and det is ±1 equally often: without the signs of R, E Q_ii is not 0."""
    n = 3 if group == "O(3)^d" else 4
    if group == "O(3)^d":
        matrices = SYSTEMS.transformation(group, (4000, 3)).values
    else:
        matrices = np.stack([SYSTEMS.transformation(group, (2, 2), seed=s).values for s in range(2000)])
    root = len(matrices) ** 0.5
    assert np.max(np.abs(matrices.mean(axis=0))) < 5 / (n * root) ** 1 * n**0.5
    assert np.max(np.abs((matrices**2).mean(axis=0) - 1 / n)) < 5 / root
    assert abs((np.trace(matrices, axis1=1, axis2=2) ** 2).mean() - 1) < 10 / root
    assert abs(np.linalg.det(matrices).mean()) < 5 / root


@pytest.mark.parametrize("positions", [200, pytest.param(1024, marks=pytest.mark.slow)])
def test_an_element_of_all_rotations_holds_one_matrix_and_no_second_one(positions: int) -> None:
    one = (3 * positions) ** 2 * 8
    tracemalloc.start()
    try:
        tau = SYSTEMS.transformation("O(3d)", (positions, 3))
        y = tau(np.ones((2, positions, 3), np.float32))
        inverse = tau.inverse(y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.15 * one
    assert np.max(np.abs(inverse - 1)) < 1e-5


def test_moved_arrays_keep_their_type() -> None:
    import jax.numpy as jnp

    x = np.ones((2, 4, 3), np.float32)
    assert SYSTEMS.rotate(x, "O(3d)").dtype == np.float32
    assert SYSTEMS.rotate(x.astype(float), "O(3)^d").dtype == np.float64
    assert isinstance(SYSTEMS.rotate(jnp.asarray(x), "O(3)^d"), type(jnp.asarray(x)))


@pytest.mark.parametrize("name", ["O(3)xI", "O(5)xI"])
def test_names_stand_for_the_channels_there_are(name: str) -> None:
    assert data_group(name, (4, 4, 5)).name == "O(5)xI"


def test_inclusions_of_groups_are_a_partial_order() -> None:
    groups = {name: data_group(name, (4, 4, 3)) for name in GROUPS}
    chain = ("I", "O(3)xI", "O(3)^d", "O(3d)")
    for i, small in enumerate(chain):
        for j, large in enumerate(chain):
            assert groups[large].holds(groups[small]) == (i <= j)
    assert groups["O(3d)"].holds(groups["P(3d)"])
    assert not groups["O(3)^d"].holds(groups["P(3d)"])
    for a in groups.values():
        for b in groups.values():
            for c in groups.values():
                assert not (a.holds(b) and b.holds(c)) or a.holds(c)


@pytest.mark.parametrize("group", ["O(3)xI", "O(3)^d", "O(3d)"])
def test_a_path_is_a_one_parameter_group_from_the_identity(group: str) -> None:
    path = SYSTEMS.path(group, (2, 3, 3), seed=1)
    at = lambda t: path(t).matrix()
    assert np.max(np.abs(at(0.0) - np.eye(18))) <= 1e-15
    assert np.max(np.abs(at(0.3) @ at(0.5) - at(0.8))) <= 1e-13
    assert abs(np.linalg.det(at(0.7)) - 1) <= 1e-12
    assert np.max(np.abs(at(1.3) @ at(1.3).T - np.eye(18))) <= 1e-13


def test_a_signal_goes_along_a_path_at_unit_speed_on_average() -> None:
    path = SYSTEMS.path("O(3)^d", (4000, 3), seed=0)
    x = np.random.default_rng(0).standard_normal((1, 4000, 3))
    step = path(1e-4)(x) - x
    assert abs(np.linalg.norm(step) / np.linalg.norm(x) / 1e-4 - 1) < 0.05


ONES = np.ones((1, 2, 2, 3))
NO_GROUPS = ("O(4)^d", "SO(3)", "O(3)", "O(3d)xI", "P(3)^d", "", 3, None)
NO_SHAPES = ((), 8, ("a", 4, 3), (4.7, 4, 3), (4, 0, 3))
MAKERS = (
    lambda shape: SYSTEMS.transformation("O(3)xI", shape),
    lambda shape: SYSTEMS.path("O(3)xI", shape),
    lambda shape: SYSTEMS.textures(10, shape=shape),
)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        *((lambda name=name: SYSTEMS.rotate(ONES, name), EquitangentsError, "group is") for name in NO_GROUPS),
        *((lambda m=m, s=s: m(s), EquitangentsError, "shape is") for s in NO_SHAPES for m in MAKERS),
        *((lambda g=g: SYSTEMS.path(g, (2, 2, 3)), EquitangentsError, "paths that lead away") for g in ("I", "P(3d)")),
        (lambda: SYSTEMS.path("O(3)xI", (4, 4, 3))("a"), EquitangentsError, "t is 'a'"),
        (lambda: SYSTEMS.textures(10, tint="a"), EquitangentsError, "tint is 'a'"),
        (lambda: SYSTEMS.transformation("O(3)^d", (4, 4, 3))(ONES), EquitangentsError, r"x has shape"),
        (lambda: SYSTEMS.transformation("O(3d)", (512, 512, 3)), MemoryLimitError, r"O\(786,432\).*O\(3\)\^d"),
    ],
)
def test_groups_shapes_and_numbers_that_are_none_are_refused(call: Any, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        call()
