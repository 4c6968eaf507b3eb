"""Branches, missing positions, graphs, attention and dropout in the CPU engine.

Literal sums judge random networks on short lines at little cost, the reference engine those on grids.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import equitangents as et
from equitangents import nn
from equitangents.errors import InvalidArgumentError, MemoryLimitError, NotFiniteError
from equitangents.kernels.duals import Quadrature
from equitangents.kernels.engines.cpu import run
from equitangents.kernels.engines.cpu.structured import CompiledStructured
from equitangents.kernels.operations import Dual
from equitangents.kernels.program import Program
from equitangents.kernels.structured import Mix, StructuredPositions, batch_of
from kernels.comparison import TOLERANCES, largest
from kernels.random_structured import grids, lines

ENGINE = CompiledStructured()


def rounded(x, dtype):
    """The same inputs in another precision."""
    parts = jax.tree.map(lambda v: v.astype(dtype) if v.dtype.kind == "f" else v, x)
    return parts


def close(found, expected, own, tolerance):
    """NNGP and NTK, in units of the inputs' own kernels."""
    for ours, exact, units in zip(found, expected, own, strict=True):
        assert largest(ours, exact, *units) <= tolerance


def exact_of(literal):
    """NNGP and NTK, and of each the inputs' own."""
    exact = [values[:, 0, :, 0] for values in (literal.K, literal.T)]
    return exact, [(np.diag(v), np.diag(v)) for v in exact]


def check_lines(net, x, literal):
    exact, own = exact_of(literal)
    k = net.kernel(x, engine="cpu")
    assert k.engine == "cpu"
    close((k.nngp, k.ntk), exact, own, 1e-12)
    np.testing.assert_array_equal(k.ntk, k.ntk.T)
    single = rounded(x, np.float32)
    found, judge = net.kernel(single, engine="cpu"), net.kernel(rounded(single, np.float64), engine="cpu")
    assert found.ntk.dtype == np.float32
    close((found.nngp, found.ntk), (judge.nngp, judge.ntk), own, 2e-6)
    alone = net.kernel_diagonal(x, engine="cpu")
    np.testing.assert_allclose(alone.nngp, np.diag(k.nngp), rtol=1e-13)
    np.testing.assert_allclose(alone.ntk, np.diag(k.ntk), rtol=1e-13)
    # Between two sets no input meets its own draw of a dropout.
    if not any(isinstance(layer, nn.Dropout) for layer in net.layers):
        between = net.kernel(x[:2], x[1:], engine="cpu")
        units = [(first[:2], second[1:]) for first, second in own]
        close((between.nngp, between.ntk), [v[:2, 1:] for v in exact], units, 1e-12)


@given(lines())
def test_random_networks_have_the_kernels_of_literal_sums(case):
    check_lines(*case)


@pytest.mark.slow
@settings(max_examples=15)
@given(lines())
def test_random_networks_have_the_kernels_of_literal_sums_by_the_reference_engine(case):
    net, x, literal = case
    k = net.kernel(x, engine="reference")
    close((k.nngp, k.ntk), *exact_of(literal), 1e-12)


@pytest.mark.slow
@settings(max_examples=15)
@given(grids())
def test_random_networks_on_grids_have_the_kernels_of_the_reference_engine(case):
    net, x1, x2 = case
    values, missing = (np.concatenate(parts) for parts in ((x1.x, x2.x), (x1.mask, x2.mask)))
    both = et.Masked(values, missing, x1.convention)
    k, n = net.kernel(both, engine="reference"), len(x1)
    exact, own = (k.nngp, k.ntk), (np.diag(k.nngp), np.diag(k.ntk))
    between, alone = net.kernel(x1, x2, engine="cpu"), net.kernel(x1, engine="cpu")
    close((between.nngp, between.ntk), [v[:n, n:] for v in exact], [(v[:n], v[n:]) for v in own], 1e-12)
    close((alone.nngp, alone.ntk), [v[:n, :n] for v in exact], [(v[:n], v[:n]) for v in own], 1e-12)


@pytest.fixture(scope="module")
def mixed():
    """A network with every kind of step, and inputs of unequal size with graphs."""
    rng = np.random.default_rng(3)
    n, p = 19, 6
    mask = np.arange(p) < rng.integers(1, p + 1, (n, 1))
    graphs = rng.integers(0, 2, (n, p, p)) * 0.7
    net = nn.Sequential(
        nn.Aggregate(), nn.Dense(4, b_std=0.2), nn.Relu(), nn.Residual(nn.Conv(4, 3, padding="zero"), nn.Cos()),
        nn.Attention(4, W_key_std=0.5), nn.LayerNorm(positions=True), nn.Erf(), nn.Dropout(0.2), nn.AvgPool(2),
        nn.Dense(4), nn.GlobalAvgPool(), nn.Dense(1), nn.Relu(), nn.Dense(1),
    )  # fmt: skip
    return net, et.Graphs(rng.standard_normal((n, p, 3)), graphs, mask)


GROUP = et.groups.wallpaper(rotations=4, reflections=False, shape=(3, 3))
DROPPED = {
    "windows on a group": (
        nn.Lift(GROUP, 4, window=(2, 1), b_std=0.2), nn.Relu(), nn.Dropout(0.3), nn.GroupConv(4, window=(2, 1)),
        nn.Erf(), nn.GroupPool(), nn.Dense(1),
    ),
    "own weights at every position, even windows, and pools that overlap": (
        nn.LocallyConnected(3, 3, padding="zero", b_std=0.1), nn.Hermite(3), nn.Dropout(0.2),
        nn.AvgPool(3, 2, "zero"), nn.Conv(4, 4, padding="zero", parametrisation="standard", b_std=0.3), nn.Gelu(),
        nn.GlobalAvgPool(), nn.Dense(1),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", DROPPED)
def test_networks_with_dropout_have_the_kernels_of_the_reference_engine(rng, name):
    x = rng.standard_normal((5, 3, 3, 2) if "group" in name else (5, 9, 2))
    found, exact = (nn.Sequential(*DROPPED[name]).kernel(x, engine=engine) for engine in ("cpu", "reference"))
    for ours, theirs in ((found.nngp, exact.nngp), (found.ntk, exact.ntk)):
        assert largest(ours, theirs, np.diag(theirs), np.diag(theirs)) <= 1e-12


def test_instruction_sets_and_threads_agree_on_fields_of_all_pairs(mixed, monkeypatch):
    net, x = mixed
    program = net.lowered(x)[1]
    for one, other in ((x, None), (x[:3], x)):
        batches = [None if v is None else batch_of(program, v) for v in (one, other)]
        best = ENGINE.kernels(program, *batches)
        for number in range(len(run.instruction_sets())):
            for a, b in zip(ENGINE.kernels(program, *batches, instruction_set=number), best, strict=True):
                np.testing.assert_allclose(a, b, rtol=TOLERANCES[np.dtype("float64")])
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        for a, b in zip(ENGINE.kernels(program, *batches), best, strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_input_without_positions_has_a_kernel_of_zero(mixed):
    net, x = mixed
    mask = np.array(x.mask)
    mask[2] = False
    k = net.kernel(et.Graphs(x.x, x.adjacency, mask))
    kept = np.arange(len(mask)) != 2
    whole = net.kernel(x)
    np.testing.assert_array_equal(k.nngp[kept][:, kept], whole.nngp[kept][:, kept])
    bare = nn.Sequential(nn.Conv(4, 3, padding="zero", b_std=0.3), nn.Relu(), nn.GlobalAvgPool())
    k = bare.kernel(et.Masked(x.x, mask))
    assert k.engine == "cpu"
    assert not k.ntk[2].any()
    assert not k.ntk[:, 2].any()
    assert (np.diag(k.ntk)[kept] > 0).all()


def test_strides_are_a_choice_among_positions(mixed):
    """A strided window is there where the position that it is centred on is."""
    x = et.Masked(mixed[1].x[:, :5], mixed[1].mask[:, ::-1][:, :5], convention="neural-tangents")
    end = nn.Relu(), nn.Flatten(), nn.Dense(1)
    strided, every = (nn.Conv(4, 3, stride=s, padding="zero", b_std=0.3) for s in (2, 1))
    found = nn.Sequential(nn.Dense(4), strided, *end).kernel(x)
    chosen = nn.Sequential(nn.Dense(4), every, end[0], nn.Aggregate(np.eye(5)[::2]), *end[1:]).kernel(x)
    np.testing.assert_allclose(found.nngp, chosen.nngp, rtol=1e-13)
    np.testing.assert_allclose(found.ntk, chosen.ntk, rtol=1e-13)


def test_inputs_that_are_equal_where_they_exist_have_equal_kernels(mixed):
    """What stands at missing positions, and how inputs are padded, has no effect; the angle of equal inputs is 0."""
    net, x = mixed
    twice = np.array(x.x)
    twice[1], mask, graphs = twice[0], np.array(x.mask), np.array(x.adjacency)
    mask[1], graphs[1] = mask[0], graphs[0]
    twice[1][~mask[1]] = np.inf
    k = net.kernel(et.Graphs(twice, graphs, mask))
    np.testing.assert_allclose(k.ntk[0, 2:], k.ntk[1, 2:], rtol=1e-13)
    plain = nn.Sequential(nn.Dense(4), nn.Relu(), nn.Dense(4), nn.Relu(), nn.GlobalSumPool(), nn.Dense(1))
    k = plain.kernel(et.Masked(twice, mask))
    np.testing.assert_array_equal(k.nngp[0, 1], k.nngp[0, 0])
    np.testing.assert_array_equal(k.ntk[0, 1], k.ntk[0, 0])


def test_results_come_as_inputs_do_and_compiled_programs_name_their_engine(mixed):
    net, x = mixed
    given_by_jax = et.Graphs(*map(jnp.asarray, (x.x[:3].astype(np.float32), x.adjacency[:3], x.mask[:3])))
    k = net.kernel(given_by_jax)
    assert isinstance(k.ntk, jax.Array)
    assert k.ntk.dtype == np.float32
    small = nn.Sequential(nn.Dense(1), nn.Attention(1), nn.Flatten())
    plain = np.random.default_rng(0).standard_normal((2, 3, 1)).astype(np.float32)
    with pytest.raises(InvalidArgumentError, match="inside JAX programs it runs by pair offset only"):
        jax.jit(lambda v: small.kernel(v, engine="cpu").ntk)(plain)
    traced = jax.jit(lambda v: small.kernel(v).ntk)(plain)
    np.testing.assert_allclose(traced, small.kernel(plain).ntk, rtol=1e-5)


@pytest.mark.slow
def test_inputs_of_very_different_norm_keep_their_digits():
    net = nn.Sequential(nn.Dense(1), nn.LayerNorm(positions=True, eps=0.0), nn.Relu(), nn.Attention(1), nn.Flatten())
    rng = np.random.default_rng(1)
    x, mask = rng.standard_normal((3, 4, 2)), np.arange(4) < np.array([[4], [2], [3]])
    scale = np.array([1.0, 1e-7, 1e6])[:, None, None]
    whole, far = net.kernel(et.Masked(x, mask)), net.kernel(et.Masked(scale * x, mask))
    assert far.engine == "cpu"
    assert "3 pairs of inputs of very different norm by the reference engine" in far.notes
    np.testing.assert_allclose(far.nngp, whole.nngp, rtol=1e-12)  # normalised: kernels do not see the scale
    with pytest.raises(NotFiniteError):
        nn.Sequential(nn.Dense(1), nn.Attention(1, mechanism="abs"), nn.Flatten()).kernel(et.Masked(1e80 * x, mask))


def test_what_the_engine_lacks_it_names():
    curve = Dual(Quadrature(jnp.tanh))
    assert (
        ENGINE.obstacle(Program(StructuredPositions((4,)), (curve, Mix(None))))
        == "it has no dual of Quadrature over all pairs of positions"
    )
    large = nn.Sequential(nn.Dense(1), nn.Attention(1), nn.Flatten())
    assert "take 6.4 GB at a time, more than 4.29 GB" in ENGINE.obstacle(large.lower((5000, 1))[1])
    assert ENGINE.obstacle(large.lower((500, 1))[1]) is None
    with pytest.raises(MemoryLimitError, match="one pair of inputs needs about"):
        large.kernel(np.zeros((2, 9000, 1)))


def test_costs_count_sums_over_positions(mixed):
    net, x = mixed
    cost = net.kernel_cost(x.shape[1:], 100)
    assert (cost.engine, cost.form, cost.field_size) == ("cpu", "pairs", 6)
    # A graph and attention among six positions, a pool to three, and one to one; then the first inner products.
    sums = 4 * 6**3 + 4 * 6**3 + 2 * 6 * (6 + 3) + 2 * 3 * (3 + 1)
    assert cost.multiply_adds == 5050 * (sums + 36 * 3)
    assert cost.working_bytes >= 3 * 6**2 * 2 * 8 * 8
    plain = nn.Sequential(nn.Conv(1, 3, padding="zero"), nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1))
    assert plain.kernel_cost((6, 2), 10).form == "offsets"
    assert plain.kernel_cost((6, 2), 10, masked=True).form == "pairs"
