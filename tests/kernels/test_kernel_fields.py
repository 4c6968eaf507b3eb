"""Kernel fields as users meet them: parts, results, errors, memory and cost."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents.errors import InvalidArgumentError, MemoryLimitError, NetworkError
from equitangents.kernels.engines.cpu import run
from equitangents.kernels.plans import field_plan
from equitangents.kernels.result import field_bytes, part_of
from equitangents.nn.sequential import lower_field

n = et.nn
net_program = lambda net, shape: lower_field(net.layers, net.signals(shape))[1]
NET = n.Sequential(n.Conv(8, (3, 3), b_std=0.1), n.Relu(), n.Conv(2, (3, 3)))
ZERO = n.Sequential(n.Conv(8, (3, 3), padding="zero", b_std=0.1), n.Relu(), n.Conv(2, (3, 3), padding="zero"))


def inputs(count, dtype=np.float64, grid=(4, 4)):
    return np.random.default_rng(0).standard_normal((count, *grid, 1)).astype(dtype)


def test_the_grid_is_that_of_the_output_also_after_a_pool_of_the_input():
    pooled = n.Sequential(n.AvgPool((2, 2)), n.Conv(1, (2, 2)))
    assert pooled.kernel_field(inputs(1, grid=(4, 6))).grid == (2, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_result_says_what_it_is(dtype):
    x = inputs(3, dtype)
    field = ZERO.kernel_field(x[:2], x)
    assert field.ntk.shape == field.nngp.shape == (2, 16, 3, 16)
    assert field.ntk.dtype == field.nngp.dtype == dtype
    assert field.ntk.flags.c_contiguous
    assert field.precision == np.dtype(dtype).name
    assert field.grid == (4, 4)
    assert field.positions == "all"
    assert field.form == "offsets"
    same = ZERO.kernel_field(x, positions="same")
    assert (same.positions, same.ntk.shape) == ("same", (3, 3, 16))
    assert ZERO.kernel_field_diagonal(x).ntk.shape == (3, 16, 16)


def test_single_precision_agrees_with_double_precision():
    x = inputs(20, grid=(4, 17))
    for positions in ("all", "same"):
        one, two = (ZERO.kernel_field(x.astype(t)[:3], x.astype(t), positions) for t in (np.float32, np.float64))
        np.testing.assert_allclose(one.ntk, two.ntk, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(one.nngp, two.nngp, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("net", [NET, ZERO], ids=["circular", "zero"])
def test_every_instruction_set_writes_the_same_field(net):
    x = inputs(21, grid=(2, 19))
    program = net_program(net, x.shape[1:])
    for positions in ("all", "same"):
        part = part_of(positions, 38)
        plan = field_plan(program, part).plan
        for dtype in (np.float32, np.float64):
            y = x.astype(dtype)
            runs = [run.field_kernels(plan, part, y[:3], y, n) for n in range(len(run.instruction_sets()))]
            for pair in runs:
                np.testing.assert_allclose(pair, runs[-1], rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-6)


@pytest.mark.parametrize("positions", ["all", "same"])
def test_inputs_with_themselves_are_inputs_with_a_copy(positions):
    x = inputs(19)
    alone, copied = NET.kernel_field(x, positions=positions), NET.kernel_field(x, x.copy(), positions)
    np.testing.assert_allclose(alone.ntk, copied.ntk, rtol=1e-13, atol=1e-14)
    each = NET.kernel_field_diagonal(x, positions).ntk
    own = alone.ntk.transpose(0, 2, 1, 3) if positions == "all" else alone.ntk
    np.testing.assert_allclose(each, own[np.arange(19), np.arange(19)], rtol=1e-13, atol=1e-14)


def test_the_matrix_between_all_outputs_is_symmetric_and_positive():
    matrix = ZERO.kernel_field(inputs(3)).matrix()
    assert matrix.ntk.shape == (48, 48)
    np.testing.assert_array_equal(matrix.ntk, matrix.ntk.T)
    assert np.linalg.eigvalsh(matrix.nngp).min() > -1e-12
    with pytest.raises(InvalidArgumentError, match="positions='all'"):
        ZERO.kernel_field(inputs(2), positions="same").matrix()


def test_a_network_of_one_position_has_a_field_of_one_position():
    net = n.Sequential(*NET.layers, n.Flatten(), n.Dense(1))
    x = inputs(3)
    np.testing.assert_array_equal(net.kernel_field(x).ntk[:, 0, :, 0], net.kernel(x).ntk)
    assert net.kernel_field(x, positions="same").ntk.shape == (3, 3, 1)
    assert net.kernel_field_diagonal(x).ntk.shape == (3, 1, 1)


@pytest.mark.slow
def test_inputs_of_very_different_norm_keep_their_digits():
    x = inputs(3) * np.array([1, 1e8, 1e-8])[:, None, None, None]
    field, pooled = NET.kernel_field(x), n.Sequential(*NET.layers, n.GlobalAvgPool()).kernel(x)
    np.testing.assert_allclose(field.ntk.mean(axis=(1, 3)), pooled.ntk, rtol=1e-12)
    each = NET.kernel_field_diagonal(x).ntk
    np.testing.assert_allclose(each, [field.ntk[i, :, i] for i in range(3)], rtol=1e-12)


@pytest.mark.slow
def test_traced_fields_are_those_of_arrays():
    x = inputs(2, np.float32)
    field = jax.jit(lambda a: NET.kernel_field(a, positions="same"))(x)
    np.testing.assert_allclose(field.ntk, NET.kernel_field(x, positions="same").ntk, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("positions", ["all", "same"])
def test_traced_fields_have_derivatives(positions):
    x = inputs(2, np.float32)
    total = lambda a: NET.kernel_field(a, positions=positions).nngp.sum()
    slope = jax.jit(jax.grad(total))(x)
    step = np.zeros(x.shape)
    step[1, 2, 3] = 1e-5
    difference = (total(x.astype(float) + step) - total(x.astype(float) - step)) / 2e-5
    np.testing.assert_allclose(slope[1, 2, 3, 0], difference, rtol=1e-3)


def test_positions_that_there_are_not_are_refused():
    with pytest.raises(InvalidArgumentError, match="'all' or 'same'"):
        NET.kernel_field(inputs(2), positions="some")


def test_a_network_with_a_jump_has_a_field_of_the_nngp_alone():
    field = n.Sequential(n.Conv(2, (3, 3)), n.Sign()).kernel_field(inputs(2))
    assert field.nngp.shape == (2, 16, 2, 16)
    with pytest.raises(NetworkError, match="jump"):
        field.ntk


def test_too_large_a_field_is_refused_with_a_remedy_before_anything_is_computed():
    with pytest.raises(MemoryLimitError, match="positions='same'"):
        NET.kernel_field(np.zeros((100, 256, 256, 1)))
    with pytest.raises(MemoryLimitError, match="fewer inputs at a time"):
        NET.kernel_field(np.broadcast_to(np.zeros((1, 8, 8, 1)), (20_000, 8, 8, 1)))


def test_networks_that_end_on_what_has_no_field_say_so():
    group = et.groups.symmetric(3)
    lift = n.Lift(et.actions.permutations(group, group.table), 4, window="full")
    x = np.random.default_rng(0).standard_normal((2, 6, 1))
    with pytest.raises(NetworkError, match="positions of a grid"):
        n.Sequential(lift, n.Relu(), n.Readout(max(group.irreps("real"), key=lambda i: i.dimension))).kernel_field(x)


def test_networks_that_end_on_positions_name_kernel_field():
    with pytest.raises(NetworkError, match="kernel_field"):
        NET.kernel(inputs(2))


@pytest.mark.slow
def test_fields_of_structured_networks_average_to_the_pooled_kernels():
    both = n.Parallel(n.Conv(4, (3,), padding="zero"), n.Sequential(n.Conv(4, (1,)), n.Erf(), n.Conv(4, (2,))))
    for net in (
        n.Sequential(n.Conv(4, (3,)), n.Attention(4), n.Conv(4, (2,)), n.Relu(), n.Conv(2, (3,), padding="zero")),
        n.Sequential(both, n.Concatenate(), n.Conv(4, (2,)), n.LayerNorm(), n.Relu(), n.Conv(2, (3,))),
    ):
        x = inputs(3, grid=(5,))
        field, pooled = net.kernel_field(x, x[:2]), n.Sequential(*net.layers, n.GlobalAvgPool()).kernel(x, x[:2])
        np.testing.assert_allclose(field.ntk.mean(axis=(1, 3)), pooled.ntk, rtol=1e-12)
        np.testing.assert_allclose(field.nngp.mean(axis=(1, 3)), pooled.nngp, rtol=1e-12)
        same = net.kernel_field(x, x[:2], positions="same")
        np.testing.assert_allclose(same.ntk, np.einsum("ipjp->ijp", field.ntk), rtol=1e-12, atol=1e-14)
        each, whole = net.kernel_field_diagonal(x).ntk, net.kernel_field(x).ntk
        np.testing.assert_allclose(each, [whole[i, :, i] for i in range(3)], rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(whole, whole.transpose(2, 3, 0, 1))


def test_the_field_of_structured_inputs_with_themselves_is_that_with_a_copy_of_them():
    x, mask = inputs(2, grid=(2,)), np.array([[True, True], [True, False]])
    net = n.Sequential(n.Conv(2, (2,), padding="zero", b_std=0.3), n.Dense(1))
    alone, beside = net.kernel_field(et.Masked(x, mask)), net.kernel_field(et.Masked(x, mask), et.Masked(x, mask))
    between = beside.ntk[0, :, 1]
    assert np.abs(between - between.T).max() > 0.01
    np.testing.assert_allclose(alone.ntk, beside.ntk, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(alone.nngp, beside.nngp, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_missing_positions_have_a_field_of_zero():
    x, mask = inputs(3, grid=(5,)), np.ones((3, 5), bool)
    mask[0, 3:] = mask[2, 1:] = False
    net = n.Sequential(n.Conv(4, (3,), padding="zero", b_std=0.3), n.Relu(), n.Conv(2, (3,), padding="zero", b_std=0.3))
    field = net.kernel_field(et.Masked(x, mask))
    there = mask[:, :, None, None] & mask
    assert (field.ntk[~there] == 0).all()
    assert (np.einsum("ipip->ip", field.ntk)[mask] > 0).all()
    short = net.kernel_field(x[:1, :3])
    np.testing.assert_allclose(field.ntk[0, :3, 0, :3], short.ntk[0, :, 0], rtol=1e-12)


@pytest.mark.parametrize("positions", ["all", "same"])
def test_the_bytes_of_a_field_are_those_of_its_arrays(positions):
    for dtype in (np.float32, np.float64):
        field = ZERO.kernel_field(inputs(2, dtype, (2, 2)), inputs(3, dtype, (2, 2)), positions)
        itemsize = np.dtype(dtype).itemsize
        assert field_bytes(part_of(positions, 4), 2, 3, itemsize) == field.nngp.nbytes + field.ntk.nbytes
