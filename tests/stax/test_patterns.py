"""`pattern=` of `stax.Aggregate`: edges from tails to heads, as neural-tangents documents them, by literal sums."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents import stax
from equitangents.errors import InvalidTypeError, ShapeError

RNG = np.random.default_rng(3)
SPARSE = stax.Aggregate(implementation="SPARSE")


def literal(x, pattern, along):
    """What heads receive of tails along some dimensions of the grid, (N, *grid, C)."""
    grid = x.shape[1:-1]
    y = np.zeros_like(x)
    for n, head, tail in itertools.product(range(len(x)), np.ndindex(*grid), np.ndindex(*grid)):
        if all(head[d] == tail[d] for d in range(len(grid)) if d not in along):
            at = (n, *(tail[d] for d in along), *(head[d] for d in along))
            y[(n, *head)] += pattern[at] * x[(n, *tail)]
    return y


def kernel(x, y):
    """NNGP and NTK of a flattened input and a dense layer."""
    return x.reshape((len(x), -1)) @ y.reshape((len(y), -1)).T / x[0].size


@pytest.mark.slow
@pytest.mark.parametrize("along", [(0, 1), (0,), (1,)])
def test_heads_receive_what_their_tails_have(along):
    """By kernel_fn and by apply_fn, whose last layer has a weight for each output."""
    x, z = RNG.standard_normal((2, 2, 3, 2, 2))
    sizes = tuple(x.shape[1 + d] for d in along)
    patterns = tuple(RNG.standard_normal((2, *sizes, *sizes)) for _ in range(2))
    axes = None if along == (0, 1) else tuple(1 + d for d in along)
    init_fn, apply_fn, kernel_fn = stax.serial(stax.Aggregate(axes), stax.Flatten(), stax.Dense(3))
    moved = [literal(v, p, along) for v, p in zip((x, z), patterns, strict=True)]
    np.testing.assert_allclose(kernel_fn(x, z, "ntk", pattern=patterns), kernel(*moved), rtol=1e-12, atol=1e-14)
    own = kernel_fn(x, None, "nngp", pattern=patterns[0])
    np.testing.assert_allclose(own, kernel(moved[0], moved[0]), rtol=1e-12, atol=1e-14)
    _, params = init_fn(jax.random.key(0), x.shape)
    plain = stax.serial(stax.Flatten(), stax.Dense(3)).apply_fn(params[1:], moved[0].astype(np.float32))
    found = apply_fn(params, x.astype(np.float32), pattern=patterns[0])
    np.testing.assert_allclose(found, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_lists_of_edges_are_counted():
    """Repeated edges have weight 2, edges with a negative end none."""
    x = RNG.standard_normal((2, 3, 2, 2))
    edges = RNG.integers(-1, 3, (2, 9, 2, 2))
    edges[..., 1, :] %= 2
    dense = np.zeros((2, 3, 2, 3, 2))
    for n, edge in np.ndindex(2, 9):
        tail, head = edges[n, edge].T
        if edges[n, edge].min() >= 0:
            dense[(n, *tail, *head)] += 1
    layers = stax.Flatten(), stax.Dense(1)
    sparse = stax.serial(SPARSE, *layers).kernel_fn
    found = sparse(x, None, "ntk", pattern=edges)
    expected = stax.serial(stax.Aggregate(), *layers).kernel_fn(x, None, "ntk", pattern=dense)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    decoded = stax.serial(stax.Aggregate(to_dense=lambda p: 2 * p), *layers).kernel_fn
    np.testing.assert_allclose(decoded(x, None, "ntk", pattern=dense), 4 * expected, rtol=1e-12, atol=1e-14)
    of_nodes = RNG.integers(0, 3, (2, 5, 2))
    short, long = (stax.serial(SPARSE, *layers).kernel_fn(
        x[:, :, 0], None, "ntk", pattern=p) for p in (of_nodes, of_nodes[:, :, None]))  # fmt: skip
    np.testing.assert_array_equal(short, long)


@pytest.mark.slow
def test_without_a_pattern_aggregation_changes_nothing():
    x = RNG.standard_normal((2, 4, 3))
    before, after = (stax.Dense(3), stax.Relu()), (stax.Dense(2), stax.GlobalAvgPool())
    with_it, without = stax.serial(*before, stax.Aggregate(), *after), stax.serial(*before, *after)
    np.testing.assert_allclose(with_it.kernel_fn(x).ntk, without.kernel_fn(x).ntk, rtol=1e-6)


@pytest.mark.slow
def test_kernels_of_kernels_read_patterns_alike():
    x, pattern = RNG.standard_normal((2, 4, 3)), RNG.standard_normal((2, 4, 4))
    before, after = stax.serial(stax.Dense(3), stax.Relu()), stax.serial(stax.Aggregate(), stax.GlobalAvgPool())
    whole = stax.serial(before, after).kernel_fn(x, None, "ntk", pattern=pattern)
    found = after.kernel_fn(before.kernel_fn(x, None), pattern=pattern).ntk
    np.testing.assert_allclose(found, whole, rtol=1e-6)


@pytest.mark.slow
def test_graphs_are_cut_with_the_inputs_of_networks_that_are_drawn():
    x, pattern = RNG.standard_normal((2, 3, 2)).astype(np.float32), RNG.standard_normal((2, 3, 3)).astype(np.float32)
    init_fn, apply_fn, _ = stax.serial(stax.Dense(3), stax.Aggregate(), stax.GlobalAvgPool())
    whole, blocks = (
        et.monte_carlo_kernel_fn(init_fn, apply_fn, jax.random.key(0), 2, batch_size=size)(x, None, pattern=pattern)
        for size in (0, 1)
    )
    np.testing.assert_allclose(whole.ntk, blocks.ntk, rtol=1e-5)


@pytest.mark.parametrize(
    ("layer", "pattern", "error", "message"),
    [
        (stax.Aggregate(), np.ones((2, 3, 3)), ShapeError, r"pattern has shape \(2, 3, 3\); expected \(N, 4, 4\)"),
        (stax.Aggregate(), np.ones((3, 4, 4)), ShapeError, "expected 2; give a graph for each input"),
        (stax.Aggregate(2), np.ones((2, 4, 4)), ShapeError, "aggregate_axis is"),
        (SPARSE, np.ones((2, 5, 2)), InvalidTypeError, "whole numbers"),
        (SPARSE, np.ones((2, 5, 3), int), ShapeError, r"pattern has shape \(2, 5, 3\); expected \(N, edges, 2\)"),
    ],
)
def test_patterns_of_another_shape_are_refused(layer, pattern, error, message):
    x = RNG.standard_normal((2, 4, 3))
    with pytest.raises(error, match=message):
        stax.serial(layer, stax.Dense(1), stax.GlobalAvgPool()).kernel_fn(x, None, "ntk", pattern=pattern)


def test_one_pattern_is_read_in_one_way():
    both = stax.serial(stax.Aggregate(), stax.Dense(1), stax.Aggregate(1), stax.GlobalAvgPool()).kernel_fn
    with pytest.raises(NotImplementedError, match="one pattern"):
        both(RNG.standard_normal((2, 4, 3)), None, "ntk", pattern=np.ones((2, 4, 4)))
