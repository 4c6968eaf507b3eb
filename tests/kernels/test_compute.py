"""Tiles, precision, types and derivatives of kernels; equal kernels by pair offset and over all pairs of positions."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents import nn
from equitangents.errors import MemoryLimitError
from equitangents.kernels.engines.reference import engine, tile
from equitangents.kernels.plans import over_all_pairs
from equitangents.kernels.runs.programs import compute
from equitangents.kernels.scales import Law, ordinary, scales_of
from equitangents.nn import Conv, Dense, Erf, GlobalAvgPool, Relu, Sequential
from laws.networks import network
from laws.test_grid_kernels import TABLE

NET = Sequential(Conv(2, 3, W_std=1.4, b_std=0.1), Relu(), Conv(2, 2), Erf(), GlobalAvgPool(), Dense(1))


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(tile, "TILE_ELEMENTS", 5 * 6)


@pytest.mark.slow
@pytest.mark.parametrize(("n1", "n2"), [(7, 5), (1, 3), (4, 2)])
def test_tiles_of_any_raggedness_give_one_matrix(n1, n2, rng, small_tiles):
    x1, x2 = rng.standard_normal((n1, 5, 2)), rng.standard_normal((n2, 5, 2))
    tiled = NET.kernel(x1, x2, engine="reference")
    for i in range(n1):
        single = NET.kernel(x1[i : i + 1], x2, engine="reference")
        np.testing.assert_allclose(tiled.ntk[i], single.ntk[0], rtol=1e-13)
        np.testing.assert_allclose(tiled.nngp[i], single.nngp[0], rtol=1e-13)


def test_only_half_of_the_tiles_run(rng, small_tiles, monkeypatch):
    ran = []
    run = engine._compiled

    def counted(rule, *args):
        ran.extend([rule] * (rule is tile.tile))
        return run(rule, *args)

    monkeypatch.setattr(engine, "_compiled", counted)
    x, net = rng.standard_normal((8, 5, 2)), Sequential(Conv(2, 3), GlobalAvgPool())
    net.kernel(x, engine="reference")
    half = len(ran)
    net.kernel(x, x, engine="reference")
    assert half == 4 * 5 // 2
    assert len(ran) - half >= 4 * 4 // 2


def test_whole_numbers_are_read_as_double_precision():
    assert Sequential(Dense(1)).kernel(np.array([[1, 2], [3, 4]])).nngp.dtype == np.float64


def test_derivatives_are_those_of_finite_differences(rng, small_tiles):
    x1, x2 = rng.standard_normal((3, 5, 2)), rng.standard_normal((2, 5, 2))
    weights, direction = rng.standard_normal((3, 2)), rng.standard_normal(x1.shape)

    net = Sequential(Conv(2, 3, W_std=1.4, b_std=0.1), Erf(), GlobalAvgPool(), Dense(1))

    def total(x):
        k = net.kernel(x, x2)
        return (weights * (k.ntk + 2 * k.nngp)).sum()

    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(total))(x1)
        _, forward = jax.jit(lambda x, v: jax.jvp(total, (x,), (v,)))(x1, direction)
    step = 1e-5
    difference = (total(x1 + step * direction) - total(x1 - step * direction)) / (2 * step)
    np.testing.assert_allclose((np.asarray(gradient) * direction).sum(), difference, rtol=1e-7)
    np.testing.assert_allclose(float(forward), difference, rtol=1e-7)


def test_pairs_too_large_for_memory_are_refused_with_a_remedy():
    net = Sequential(Conv(1, 3, padding="zero"), Relu(), Conv(1, 3), Relu(), GlobalAvgPool(), Dense(1))
    with pytest.raises(MemoryLimitError, match="strided"):
        net.kernel(np.zeros((1, 128, 128, 1)))


P4 = et.groups.wallpaper(rotations=4, reflections=False, shape=(3, 3))
Q8 = et.groups.quaternion()
W = {"W_std": 1.4, "b_std": 0.2}
ON_GRIDS = (
    "one dimension, even window", "strides then pooling, even grid", "valid and pooled", "zero and pooled",
    "locally connected, pooled", "pooling inside", "pooling at the readout", "pool, dense head", "residual of means",
)  # fmt: skip
BY_OFFSET = {name: (TABLE[name][0], network(TABLE[name][1]).layers) for name in ON_GRIDS} | {
    "roto-translations": (
        (3, 3),
        (nn.Lift(P4, 2, (2, 3), **W), nn.Relu(), nn.GroupConv(2, (3, 1), rotations=[0, 1], **W), nn.GroupPool()),
    ),
    "cosets": (
        (8,),
        (
            nn.Lift(et.actions.permutations(Q8, Q8.table), 2, [0, 3, 5], **W), nn.Relu(),
            nn.GroupConv(2, [1, 2], weights=[1, 3], **W), nn.Erf(), nn.GroupPool(Q8.generated_subgroup([1])),
            nn.Flatten(),
        ),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_OFFSET)
def test_offsets_agree_with_all_pairs(name, rng, monkeypatch):
    grid, layers = BY_OFFSET[name]
    x, net = rng.standard_normal((5, *grid, 2)), nn.Sequential(*layers, nn.Dense(1))
    by_offset, own = net.kernel(x[:3], x[3:]), net.kernel_diagonal(x[:3])
    given, program = net.lower(x.shape[1:])
    assert (by_offset.form, given) == ("offsets", 0)
    monkeypatch.setattr(engine, "plan_of", lambda program, part=None: over_all_pairs(program, "wanted"))
    pairs = compute(program, x, x, engine="reference")  # compiled once for all that follows
    for kind in ("nngp", "ntk"):
        whole = getattr(pairs, kind)
        np.testing.assert_allclose(getattr(by_offset, kind), whole[:3, 3:], rtol=1e-13)
        np.testing.assert_allclose(getattr(own, kind), np.diag(whole)[:3], rtol=1e-13)


@pytest.mark.parametrize(
    "readout",
    [
        pytest.param([nn.GlobalAvgPool()], id="offsets"),
        pytest.param([nn.Conv(1, 2, padding="zero"), nn.Conv(1, 2), nn.Flatten()], id="pairs", marks=pytest.mark.slow),
        pytest.param([nn.AvgPool(2), nn.Conv(1, 2), nn.Flatten()], id="stages", marks=pytest.mark.slow),
    ],
)
def test_diagonals_inside_jax_programs(readout, rng):
    net = nn.Sequential(nn.Conv(1, 3), nn.Relu(), *readout, nn.Dense(1))
    x = rng.standard_normal((3, 4, 4, 1)).astype(np.float32)
    own, traced = net.kernel_diagonal(x), jax.jit(net.kernel_diagonal)(x)
    np.testing.assert_allclose(traced.nngp, own.nngp, rtol=1e-6)
    np.testing.assert_allclose(traced.ntk, own.ntk, rtol=1e-6)
    assert (traced.engine, traced.form) == (own.engine, own.form)


ZERO = nn.Conv(2, 3, padding="zero")


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("shape", "layers", "why"),
    [
        ((6, 1), [ZERO, nn.AvgPool(3, 1, "circular"), nn.Relu(), nn.Flatten()], "circular padding"),
        ((4, 1), [ZERO, nn.Relu(), nn.Conv(2, 3), nn.Relu(), nn.GlobalAvgPool()], "circular padding"),
        ((3, 3, 1), [nn.Conv(2, 3), nn.Relu(), nn.Lift(P4, 2, (3, 3)), nn.Relu(), nn.GroupPool()], "before the lift"),
        (
            (3, 1),
            [nn.Parallel(nn.Conv(2, 3, 2, "zero"), nn.Conv(2, 2, padding="valid")), nn.Sum(), nn.GlobalAvgPool()],
            "branches of different strides",
        ),
    ],
)
def test_networks_that_mix_offsets_say_so(shape, layers, why):
    inputs = jax.ShapeDtypeStruct((2, *shape), "float32")
    kernels = jax.eval_shape(nn.Sequential(*layers, nn.Dense(1)).kernel, inputs)  # which compiles nothing
    assert kernels.form == "pairs"
    assert any(why in note for note in kernels.notes)


NUMBERS = st.sampled_from([0.0, 1e-30, 1e-9, 0.3, 1.0, 1.5, 14.0, 17.0, 3e4, 1e30, np.nan, np.inf])


NORMS = st.lists(NUMBERS, min_size=1, max_size=3)
LAWS = st.builds(
    lambda homogeneous, odd, signal, constant: Law(
        homogeneous, constant > 0, constant == 0, odd and constant == 0, signal, constant
    ),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.0, 1e-3, 1.0, 2.5]),
    st.sampled_from([0.0, 0.01, 3.0, 1e4]),
)


@given(LAWS, st.sampled_from([np.float32, np.float64]), NORMS, st.none() | NORMS)
@settings(max_examples=300)
def test_norms_that_count_as_ordinary_are_left_as_they_are(law, dtype, one, other):
    """By mean squares alone `ordinary` may only say what `scales_of` finds by logarithms."""
    with np.errstate(all="ignore"):
        x, y = (None if side is None else np.outer(side, [1.0, -1.0]).astype(dtype) for side in (one, other))
        if ordinary(law, *((x,) if y is None else (x, y))):
            found = scales_of(law, x.dtype, x, y)
            assert [found.far, found.moved, found.zero1.any(), found.zero2.any()] == [False] * 4
    assert not ordinary(law, np.zeros_like(x))


def test_inputs_of_size_one_are_ordinary():
    law = Law(False, True, False, False, 1.0, 0.1)
    assert ordinary(law, np.ones((3, 4)), 2 * np.ones((2, 4), np.float64))
    assert not ordinary(law, np.array([[1.0], [1e5]]))
