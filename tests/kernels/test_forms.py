"""Fibres and all pairs of positions are two ways to one kernel."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents.kernels.dispatch import compute
from equitangents.nn import (
    Abs,
    AvgPool,
    Conv,
    Dense,
    Erf,
    Flatten,
    GlobalAvgPool,
    GroupConv,
    GroupPool,
    LeakyRelu,
    Lift,
    LocallyConnected,
    Parallel,
    Relu,
    Residual,
    Sequential,
    Sum,
)

P4 = et.groups.wallpaper(rotations=4, reflections=False, shape=(3, 3))
Q8 = et.groups.quaternion()
W = {"W_std": 1.4, "b_std": 0.2}

FIBRES = {
    "circular flatten": ((4, 3, 2), [Conv(2, (3, 2), **W), Relu(), Conv(2, (3, 3), **W), Erf(), Flatten(), Dense(1)]),
    "zero gap": ((4, 3, 2), [Conv(2, (3, 2), padding="zero", **W), Relu(), GlobalAvgPool(), Dense(1, **W)]),
    "strided torus": ((4, 6, 1), [Conv(2, 3, stride=2, **W), Relu(), Conv(2, (2, 1), **W), Abs(), GlobalAvgPool()]),
    "ragged strides": ((7, 1), [Conv(2, 3, stride=2, **W), Relu(), Conv(2, 2, padding="valid", **W), GlobalAvgPool()]),
    "torus then zeros": (
        (5, 1),
        [Conv(2, 3, **W), Relu(), Conv(2, 4, 2, "zero", **W), Erf(), GlobalAvgPool(), Dense(1)],
    ),
    "pool between": ((5, 4, 1), [Conv(2, 3, **W), Relu(), AvgPool(2), Conv(2, 2, **W), Abs(), GlobalAvgPool()]),
    "overlapping pool": ((7, 1), [Conv(2, 3, padding="zero", **W), Relu(), AvgPool(3, 2, "zero"), Dense(2), Flatten()]),
    "pool in blocks": ((5, 4, 1), [Conv(2, 3, **W), Relu(), AvgPool((2, 3)), Dense(3, **W), Flatten(), Dense(1)]),
    "local": ((4, 3, 1), [LocallyConnected(2, 3, **W), Relu(), Conv(2, 2, **W), Relu(), GlobalAvgPool(), Dense(1)]),
    "layers after pooling": ((4, 1), [Conv(2, 3, **W), Relu(), GlobalAvgPool(), Dense(3), Relu(), Dense(1, **W)]),
    "layers after flattening": ((4, 1), [Conv(2, 3, **W), Relu(), Flatten(), Dense(3), Relu(), Dense(1, **W)]),
    "residual": (
        (4, 1),
        [Conv(2, 3, **W), LeakyRelu(0.1), Residual(Conv(2, 3, **W), Relu()), Conv(2, 3), Relu(), GlobalAvgPool()],
    ),
    "roto-translations": (
        (3, 3, 2),
        [Lift(P4, 2, (2, 3), **W), Relu(), GroupConv(2, (3, 1), rotations=[0, 1], **W), Relu(), GroupPool(), Dense(1)],
    ),
    "cosets": (
        (8, 2),
        [
            Lift(et.actions.permutations(Q8, Q8.table), 2, [0, 3, 5], **W),
            Relu(),
            GroupConv(2, [1, 2], weights=[1, 3], **W),
            Erf(),
            GroupPool(Q8.generated_subgroup([1])),
            Flatten(),
            Dense(1),
        ],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FIBRES)
def test_fibres_agree_with_all_pairs(name, rng):
    shape, layers = FIBRES[name]
    x1, x2 = rng.standard_normal((3, *shape)), rng.standard_normal((2, *shape))
    net = Sequential(*layers)
    fibre = net.kernel(x1, x2)
    given, program = net.lower(shape)
    x = np.concatenate([x1, x2])
    pairs = compute(replace(program, form="pairs"), x, x)  # compiled once for all that follows
    assert (fibre.form, pairs.form, given) == ("fibre", "pairs", 0)
    np.testing.assert_allclose(fibre.nngp, pairs.nngp[:3, 3:], rtol=1e-13)
    np.testing.assert_allclose(fibre.ntk, pairs.ntk[:3, 3:], rtol=1e-13)
    own = net.kernel_diagonal(x1)
    np.testing.assert_allclose(own.nngp, np.diag(pairs.nngp)[:3], rtol=1e-13)
    np.testing.assert_allclose(own.ntk, np.diag(pairs.ntk)[:3], rtol=1e-13)


@pytest.mark.parametrize(
    "readout",
    [
        pytest.param([GlobalAvgPool()], id="fibre"),
        pytest.param([Conv(1, 2, padding="zero"), Conv(1, 2), Flatten()], id="pairs", marks=pytest.mark.slow),
        pytest.param([AvgPool(2), Conv(1, 2), Flatten()], id="stages", marks=pytest.mark.slow),
    ],
)
def test_diagonals_inside_jax_programs(readout, rng):
    net = Sequential(Conv(1, 3), Relu(), *readout, Dense(1))
    x = rng.standard_normal((3, 4, 4, 1)).astype(np.float32)
    own, traced = net.kernel_diagonal(x), jax.jit(net.kernel_diagonal)(x)
    np.testing.assert_allclose(traced.nngp, own.nngp, rtol=1e-6)
    np.testing.assert_allclose(traced.ntk, own.ntk, rtol=1e-6)
    assert (traced.engine, traced.form) == (own.engine, own.form)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("shape", "layers", "why"),
    [
        (
            (6, 1),
            [Conv(2, 3, padding="zero"), AvgPool(3, 1, "circular"), Relu(), Flatten()],
            "circular padding",
        ),
        ((4, 1), [Conv(2, 3, padding="zero"), Relu(), Conv(2, 3), Relu(), GlobalAvgPool()], "circular padding"),
        ((3, 3, 1), [Conv(2, 3), Relu(), Lift(P4, 2, (3, 3)), Relu(), GroupPool()], "before the lift"),
        (
            (3, 1),
            [Parallel(Conv(2, 3, stride=2, padding="zero"), Conv(2, 2, padding="valid")), Sum(), GlobalAvgPool()],
            "branches of different strides",
        ),
    ],
)
def test_networks_that_mix_fibres_say_so(shape, layers, why):
    inputs = jax.ShapeDtypeStruct((2, *shape), "float32")
    kernels = jax.eval_shape(Sequential(*layers, Dense(1)).kernel, inputs)  # which compiles nothing
    assert kernels.form == "pairs"
    assert any(why in note for note in kernels.notes)


@pytest.mark.parametrize(
    ("layers", "fibres"),
    [
        ([Conv(2, 3), Relu(), Flatten(), Dense(1)], 1),
        ([Conv(2, 3), Relu(), GlobalAvgPool(), Dense(1)], 4 * 6),
        ([Conv(2, 3, padding="zero"), Relu(), GlobalAvgPool(), Dense(1)], 7 * 11),
        ([Conv(2, 3), Relu(), AvgPool((2, 2)), Flatten(), Dense(1)], 3 * 3),
        ([Conv(2, 3), Relu(), Conv(2, 3, stride=2), Relu(), GlobalAvgPool(), Dense(1)], 2 * 3),
    ],
)
def test_a_readout_costs_the_fibres_it_joins(layers, fibres):
    from equitangents.kernels.plans.plan import FibrePlan, plan

    steps = plan(Sequential(*layers).lower((4, 6, 1))[1])
    assert isinstance(steps, FibrePlan)
    assert len(steps.fibres.array) == fibres
