"""Pools between layers in the CPU engine: random networks against literal sums, in both precisions."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents.errors import InvalidArgumentError, NetworkError
from equitangents.kernels.engines import engine_of
from equitangents.nn import (
    AvgPool,
    Conv,
    Dense,
    Flatten,
    GlobalAvgPool,
    GroupPool,
    Relu,
    Sequential,
)
from kernels.comparison import TOLERANCES, assert_as_exact, check_instruction_sets
from laws.networks import check as check_literally
from laws.networks import network
from oracles.literal_kernels import grid_reads

PHIS = [("phi", name) for name in ("relu", "abs", "erf", "gelu", "sin", "cos")]
CPU = engine_of("cpu")


@st.composite
def cases(draw, largest):
    """Layers in the oracle's words that pool on the way, and inputs."""
    grid = draw(st.sampled_from(largest))
    dims, at = len(grid), grid
    gaussian = False

    def size(most, less=0):
        return tuple(draw(st.integers(1, max(1, min(most, n - less)))) for n in at)

    def conv(padding, keep=False):
        nonlocal at
        padding = "zero" if keep and padding == "valid" else padding
        stride = (1,) * dims if keep else tuple(draw(st.sampled_from([1, 1, 2])) for _ in at)
        layer = (draw(st.sampled_from(["conv", "conv", "local"])), size(3), stride, padding, 1.3, draw(BIAS))
        at = grid_reads(at, layer[1], stride, padding)[0]
        return layer

    def pool(padding, keep=False):
        nonlocal at
        stride = (1,) * dims if keep else tuple(draw(st.integers(1, 3)) for _ in at)
        if not keep and draw(st.booleans()):
            layer = ("avg_pool", size(3))
        else:
            padding = draw(st.sampled_from(["zero", padding])) if padding != "valid" or not keep else "zero"
            # Of windows that hold the same positions the literal sums do not know that their distance is 0.
            layer = ("avg_pool", size(3, less=1), stride, padding)
        at = grid_reads(at, layer[1], *(layer[2:] or (layer[1], "valid")))[0]
        return layer

    def block(padding, depth):
        """A residual block, perhaps with a pool and another block inside."""
        inner = [conv(padding, keep=True)]
        if draw(st.booleans()):
            inner.append(draw(st.sampled_from(PHIS)))
        if draw(st.booleans()):
            inner += [pool(padding, keep=True), conv(padding, keep=True)]
        if depth and draw(st.booleans()):
            inner.append(block(padding, depth - 1))
        if draw(st.booleans()):
            inner += [conv(padding, keep=True), draw(st.sampled_from(PHIS))]
        return ("residual", inner)

    layers = []
    for i in range(draw(st.integers(2, 3))):
        padding = draw(st.sampled_from(["circular", "zero", "valid"]))
        if i == 0 or draw(st.booleans()):
            layers, gaussian = [*layers, conv(padding)], True
        if draw(st.integers(0, 2)) == 0:
            layers, gaussian = [*layers, block(padding, 1)], False
        if gaussian and draw(st.booleans()):
            layers, gaussian = [*layers, draw(st.sampled_from(PHIS))], False
        if i == 0 or draw(st.booleans()):
            layers.append(pool(padding))
    layers += [
        ("dense", 1.1, 0.1),
        draw(st.sampled_from(PHIS)),
        draw(st.sampled_from([("flatten",), ("global_pool",)])),
    ]
    dense = ("dense", 1.2, 0.1)
    layers += [dense, draw(st.sampled_from(PHIS)), dense] if draw(st.booleans()) else [dense]
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    return layers, rng.standard_normal((3, *grid, draw(st.sampled_from([2, 5]))))


BIAS = st.sampled_from([0.0, 0.3])
SHAPES = [(7,), (8,), (12,), (4, 4), (5, 4), (3, 6), (2, 2, 3), (3, 2, 2)]


def check(layers, x):
    """Against literal sums in double precision; in single precision against double."""
    net = network(layers)
    program = net.lower(x.shape[1:])[1]
    assume(CPU.obstacle(program, x.dtype) is None)
    check_literally(layers, x, engine="cpu")
    check_literally(layers, x[:1], x[1:], engine="cpu")
    assert_as_exact(net, x, engine="cpu", dtype=np.float32, judge="cpu")


@given(cases(SHAPES))
@settings(max_examples=12)
def test_random_networks_that_pool_and_go_on_are_literal_sums(case):
    check(*case)


def test_pools_over_cosets_and_layers_after_them_are_literal_sums(rng):
    group = et.groups.symmetric(3)
    subgroup = group.subgroup([g for g in range(6) if group.compose(g, g) == group.identity][:2])
    labels, table = np.asarray(subgroup.left_cosets), np.asarray(group.table)
    layers = [
        ("lift", table, (0, 2, 3), None, 1.2, 0.1), ("phi", "relu"), ("group_conv", table, (0, 1, 4), None, 1.3, 0.0),
        ("phi", "erf"), ("coset_pool", labels), ("dense", 1.1, 0.2), ("phi", "relu"),
        ("residual", [("dense", 1.3, 0.1), ("phi", "gelu")]),
    ]  # fmt: skip
    action = et.actions.permutations(group, table)
    x = rng.standard_normal((4, 6, 3))
    for end in ([("flatten",)], [("global_pool",)]):
        ending = [*end, ("dense", 1.0, 0.0)]
        hidden = network([*layers[:4]], action=action).layers
        pooled = (GroupPool(subgroup), *network(layers[5:], out=3).layers)
        readout = (Flatten() if end == [("flatten",)] else GroupPool(), Dense(1))
        check_literally([*layers, *ending], x, net=Sequential(*hidden, *pooled, *readout), engine="cpu")


def myrtle(*hidden):
    """As *Neural kernels without tangents* has it, on small images."""
    conv = (Conv(1, 3, padding="zero", W_std=2**0.5), Relu())
    return Sequential(*(layer for part in hidden for layer in (*conv * part, AvgPool(2))), Flatten(), Dense(1))


def test_instruction_sets_and_threads_agree_on_networks_that_pool(rng, monkeypatch):
    net = myrtle(2, 1, 1)
    x1, x2 = rng.standard_normal((3, 8, 8, 3)), rng.standard_normal((21, 8, 8, 3))
    best = check_instruction_sets(CPU.steps(net.lower(x1.shape[1:])[1]), x1, x2)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    np.testing.assert_array_equal(net.kernel(np.float32(x1), np.float32(x2), engine="cpu").ntk, best[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_inputs_have_equal_kernels_after_pools(dtype, rng):
    net = Sequential(*myrtle(1, 2).layers, Relu(), Dense(1))
    x = rng.standard_normal((19, 8, 8, 3)).astype(dtype)
    x[17] = x[3]
    k = net.kernel(x, engine="cpu")
    np.testing.assert_array_equal(k.ntk, k.ntk.T)
    np.testing.assert_allclose(k.ntk[3], k.ntk[17], rtol=1e-6)
    assert k.ntk[3, 17] == k.ntk[3, 3]
    own = net.kernel_diagonal(x, engine="cpu")
    np.testing.assert_allclose(own.ntk, np.diag(k.ntk), rtol=TOLERANCES[np.dtype(dtype)])
    np.testing.assert_allclose(own.nngp, np.diag(k.nngp), rtol=TOLERANCES[np.dtype(dtype)])


def test_costs_of_networks_that_pool_are_literal_counts():
    net = myrtle(2, 1)
    cost = net.kernel_cost((8, 8, 3), 3, 5)
    assert (cost.form, cost.engine, cost.layers, cost.pairs) == ("fibre", "cpu", 3, 15)
    # The second pool's readout joins positions of one block of 2 × 2 of 4 × 4: 9 fibres with (4 - |q|) each way.
    coarse = sum((4 - abs(a)) * (4 - abs(b)) for a in range(-1, 2) for b in range(-1, 2))
    fine = sum((8 - abs(a)) * (8 - abs(b)) for a in range(-3, 4) for b in range(-3, 4))
    assert cost.fibres == 9 + 49
    assert cost.element_layers == 15 * (2 * fine + coarse)
    assert cost.multiply_adds == 15 * 49 * 8**2 * 3  # inputs begin as a torus


def test_a_pool_needs_no_more_memory_than_one_coarse_field_over_pairs(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # each thread has a field of its own
    conv = (Conv(1, 3, padding="zero"), Relu())
    net = Sequential(*conv, AvgPool(2), *conv, GlobalAvgPool(), Dense(1))
    held = CPU.steps(net.lower((32, 32, 3))[1]).pairs_of_positions
    assert held == 16**4
    cost = net.kernel_cost((32, 32, 3), 16, 16, engine="cpu")
    assert held * 2 * 16 * 4 < cost.working_bytes < 40 << 20


@pytest.mark.parametrize("layers", [(Conv(1, 2), AvgPool(2)), (AvgPool(2, 1, "circular"),)], ids=["layer", "pool"])
def test_circular_windows_after_zero_padding_say_that_they_mix_fibres(layers):
    net = Sequential(Conv(1, 2, padding="zero"), *layers, Conv(1, 2), Relu(), Flatten(), Dense(1))
    with pytest.raises(InvalidArgumentError, match="circular padding after a layer that breaks the torus"):
        net.kernel(np.ones((2, 6, 6, 1)), engine="cpu")


def test_windows_of_pools_are_checked():
    net = Sequential(AvgPool(3, stride=2, padding="zero"), Flatten(), Dense(1))
    assert net.signals((5, 4, 2))[1].positions.shape == (3, 2)
    with pytest.raises(InvalidArgumentError, match="stride is 0"):
        AvgPool(2, stride=0)
    with pytest.raises(InvalidArgumentError, match="padding is 'same'"):
        AvgPool(2, padding="same")
    with pytest.raises(NetworkError, match=r"is \(4, 4\); expected \(3, 3\); at most the grid"):
        Sequential(AvgPool(4, stride=1), Flatten(), Dense(1)).signals((3, 3, 1))
