"""Costs are literal counts, and memory is what the engines plan."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents import nn
from equitangents.errors import InvalidArgumentError
from equitangents.kernels import cost, projected
from equitangents.kernels.engines.reference import tile
from oracles import finite_groups
from oracles.literal_kernels import grid_reads


@pytest.fixture(autouse=True)
def no_stopwatch(monkeypatch):
    """Counts need no timed block."""
    monkeypatch.setattr(cost, "pair_seconds", lambda *args: (1e-9, 1.0))


def literal(grid, layers, readout):
    """(offsets, element-layers) by going through every offset and every position, or None where offsets mix."""
    levels, torus = [(grid, True)], [True]
    for window, stride, padding, _ in layers:
        shape, wrap = levels[-1]
        out, _ = grid_reads(shape, window, stride, padding)
        alone = max(window) == 1 and out == shape  # reads no neighbour: padding does not matter
        if padding == "circular" and not wrap and not alone:
            return None
        closed = padding == "circular" and all(n % s == 0 for n, s in zip(shape, stride, strict=True))
        levels.append((out, wrap if alone else closed))
        torus.append(levels[-1][1])
    last, wrap = levels[-1]
    positions = list(np.ndindex(*last))
    if readout == "flatten":
        joined = [(p, p) for p in positions]
    elif readout == "pool":
        joined = list(itertools.product(positions, positions))
    else:
        block = lambda p: tuple(i // 2 for i in p)
        kept = [p for p in positions if all(i // 2 < n // 2 for i, n in zip(p, last, strict=True))]
        joined = [(p, o) for p in kept for o in kept if block(p) == block(o)]
    difference = lambda p, o: tuple((b - a) % n if wrap else b - a for a, b, n in zip(p, o, last, strict=True))
    offsets = {difference(p, o) for p, o in joined}
    total, step = 0, (1,) * len(grid)
    for (_, stride, *_), (shape, wraps) in zip(reversed(layers), reversed(levels[1:]), strict=True):
        for q in offsets:
            for p in np.ndindex(*shape):
                other = [a + m * b for a, m, b in zip(p, step, q, strict=True)]
                total += wraps or all(0 <= a < n for a, n in zip(other, shape, strict=True))
        step = tuple(m * s for m, s in zip(step, stride, strict=True))
    return len(offsets), total


@st.composite
def networks(draw):
    d = draw(st.integers(1, 2))
    grid = tuple(draw(st.integers(2, 6)) for _ in range(d))
    layers, shape = [], grid
    for _ in range(draw(st.integers(1, 3))):
        padding = draw(st.sampled_from(["circular", "zero", "valid"]))
        window = tuple(draw(st.integers(1, min(3, n))) for n in shape)
        stride = tuple(draw(st.sampled_from([1, 1, 2])) for _ in shape)
        layers.append((window, stride, padding, draw(st.booleans())))
        shape, _ = grid_reads(shape, window, stride, padding)
    readouts = ["flatten", "pool"] + (["blocks"] if min(shape) >= 2 else [])
    return grid, layers, draw(st.sampled_from(readouts))


def network(layers, readout):
    body = []
    for window, stride, padding, phi in layers:
        body += [nn.Conv(1, window, stride=stride, padding=padding), *([nn.Relu()] if phi else [])]
    end = {"flatten": [nn.Flatten()], "pool": [nn.GlobalAvgPool()], "blocks": [nn.AvgPool(2), nn.Flatten()]}[readout]
    return nn.Sequential(*body, *end, nn.Dense(1))


def counted(grid, layers):
    """Layers that count: of a window of one position only the nonlinearity does, with a window before that has none."""
    kept, shapes = [], itertools.pairwise([grid, *_shapes(grid, layers)])
    for (window, stride, padding, phi), (before, after) in zip(layers, shapes, strict=True):
        alone = max(window) == 1 and before == after
        if alone and phi and kept and not kept[-1][3]:
            kept[-1] = (*kept[-1][:3], True)
        elif phi or not alone:
            kept.append((window, stride, padding, phi))
    return kept


@given(networks(), st.integers(1, 9), st.one_of(st.none(), st.integers(1, 9)))
@settings(max_examples=60)
def test_counts_are_literal(case, n1, n2):
    grid, layers, readout = case
    found = network(layers, readout).kernel_cost((*grid, 2), n1, n2)
    pairs = n1 * (n1 + 1) // 2 if n2 is None else n1 * n2
    expected = literal(grid, counted(grid, layers), readout)
    assert (found.form == "pairs") == (expected is None)
    assert (found.pairs, found.layers) == (pairs, len(counted(grid, layers)))
    if expected is not None:
        offsets, elements = expected
        assert found.offsets == offsets
        assert found.element_layers == pairs * elements
        assert found.field_size == max(math.prod(s) for s in (grid, *_shapes(grid, layers)))


def _shapes(grid, layers):
    for window, stride, padding, _ in layers:
        grid, _ = grid_reads(grid, window, stride, padding)
        yield grid


def test_vectors_count_products_and_layers():
    net = nn.Sequential(nn.Dense(1), nn.Relu(), nn.Dense(1), nn.Erf(), nn.Residual(nn.Dense(1), nn.Relu()), nn.Dense(1))
    found = net.kernel_cost((784,), 20, 30)
    assert (found.offsets, found.field_size, found.layers) == (1, 1, 3)
    assert (found.pairs, found.element_layers, found.multiply_adds) == (600, 1800, 600 * 784)
    flattened = nn.Sequential(nn.Flatten(), nn.Dense(1), nn.Relu(), nn.Dense(1)).kernel_cost((28, 28, 1), 20)
    assert (flattened.pairs, flattened.multiply_adds) == (210, 210 * 784)


def test_pairs_of_positions_count_all_pairs():
    net = nn.Sequential(nn.Conv(1, 2, padding="zero"), nn.Relu(), nn.Conv(1, 2), nn.Relu(), nn.Flatten(), nn.Dense(1))
    found = net.kernel_cost((4, 4, 3), 2, 5)
    assert (found.form, found.offsets, found.engine) == ("pairs", 16, "reference")
    assert found.element_layers == 10 * (16**2 + 16**2)
    assert any("mixes pair offsets" in note for note in found.notes)


def test_features_at_points_count_all_pairs_of_points():
    """Two functions a pair of points in each of 6 pairs and 3 inputs alone, and K and Θ from either side in 2 rings."""
    conv, gate = nn.SteerableConv("1x0", radii=(0.0, 1.0)), nn.GatedNonlinearity(nn.Erf())
    net = nn.Sequential(nn.PointCloud("SO(2)", "1x0"), conv, gate, nn.SteerablePool(), nn.SteerableDense("1x0"))
    found = net.kernel_cost((4, 3), 3)
    assert (found.pairs, found.element_layers) == (6, (6 + 3) * 2 * 4**2)
    assert found.multiply_adds == (6 + 3) * 2 * 2 * 2 * 4**3


def roto_translations(reflections, window):
    group = et.groups.wallpaper(rotations=4, reflections=reflections, shape=(8, 8))
    hidden = [nn.Lift(group, 1, window=window), nn.Relu(), nn.GroupConv(1, window=window), nn.Relu()]
    return nn.Sequential(*hidden, nn.GroupPool(), nn.Dense(1)).kernel_cost((8, 8, 3), 5)


def test_rotations_multiply_the_cost_by_their_number_where_the_theorem_holds():
    cnn = nn.Sequential(*[nn.Conv(1, 3), nn.Relu()] * 2, nn.GlobalAvgPool(), nn.Dense(1)).kernel_cost((8, 8, 3), 5)
    assert roto_translations(False, (3, 3)).element_layers == 4 * cnn.element_layers
    assert roto_translations(True, (3, 3)).element_layers == 8 * cnn.element_layers
    assert roto_translations(False, (2, 2)).element_layers == 16 * cnn.element_layers


@pytest.mark.parametrize("name", ["S3", "D4", "Q8"])
def test_pooling_over_cosets_costs_the_offsets_within_a_coset(name):
    elements = finite_groups.SMALL[name]()
    table, group = finite_groups.multiplication_table(elements), et.groups.from_permutations(elements)
    inside = finite_groups.subgroup(table, [1])
    inverse = finite_groups.inverses(table)
    joined = {table[table[g, h], inverse[g]] for g in range(len(table)) for h in inside}  # g h and g lie in one coset
    lift = nn.Lift(et.actions.permutations(group, table), 1, window=[0, 1])
    cost_of = lambda pool: nn.Sequential(lift, nn.Relu(), pool, nn.Flatten(), nn.Dense(1)).kernel_cost(
        (len(table), 2), 1, 1
    )
    assert cost_of(nn.GroupPool(group.subgroup(inside))).offsets == len(joined)
    assert cost_of(nn.GroupPool(group.subgroup(inside))).element_layers == len(joined) * len(table)
    assert cost_of(nn.GroupPool()).offsets == len(table)


def test_full_windows_leave_one_position_per_offset():
    group = et.groups.wallpaper(rotations=4, reflections=False, shape=(4, 4))
    hidden = [nn.Lift(group, 1, window="full"), nn.Relu(), nn.GroupConv(1, window="full"), nn.Relu()]
    found = nn.Sequential(*hidden, nn.GroupPool(), nn.Dense(1)).kernel_cost((4, 4, 3), 1, 1)
    assert (found.offsets, found.element_layers, found.multiply_adds) == (64, 64 * 2, 64 * 16 * 3)


def test_memory_is_what_the_tiles_take(monkeypatch):
    net = nn.Sequential(nn.Conv(1, 3), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))
    few, many = (net.kernel_cost((8, 8, 3), n, engine="reference") for n in (1000, 100_000))
    assert few.output_bytes == 2 * 1000**2 * 4
    assert many.working_bytes < few.working_bytes * 100
    assert many.working_bytes <= 2 * tile.PANEL + (64 << 20)
    monkeypatch.setattr(tile, "TILE_ELEMENTS", 4 * tile.TILE_ELEMENTS)
    assert net.kernel_cost((8, 8, 3), 1000, engine="reference").working_bytes > few.working_bytes


def test_symmetric_orbit_terms_are_counted_once():
    turns = et.kernels.orbit_average(nn.Sequential(nn.Flatten(), nn.Dense(1)), et.actions.image_rotations(4))
    n = 4 * projected.BLOCK
    assert turns.kernel_cost((2, 2, 1), n).pairs == 4 * (n**2 / 16) * (4 + 3 + 2 + 1)


@pytest.mark.parametrize(("arguments", "message"), [((0,), "n1"), ((3, -1), "n2"), ((3, 3, "int8"), "dtype is 'int8'")])
def test_wrong_questions_are_refused(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        nn.Sequential(nn.Dense(1)).kernel_cost((3,), *arguments)


@pytest.mark.slow
def test_inputs_prepared_again_and_again_give_the_same_kernels(monkeypatch, rng):
    net = nn.Sequential(nn.Conv(1, 3), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))
    x = rng.standard_normal((7, 4, 4, 2))
    whole = net.kernel(x, engine="reference")
    monkeypatch.setattr(tile, "TILE_ELEMENTS", 16 * 4)
    monkeypatch.setattr(tile, "PANEL", 1)
    for other in (net.kernel(x, engine="reference"), net.kernel(x, x[::-1].copy(), engine="reference")):
        mirrored = other.ntk if np.allclose(other.ntk, whole.ntk) else other.ntk[:, ::-1]
        np.testing.assert_allclose(mirrored, whole.ntk, rtol=1e-13)
