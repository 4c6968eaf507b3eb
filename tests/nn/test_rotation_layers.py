"""Layers on rotations: what they refuse, and how windows are given."""

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents.errors import EquitangentsError, NetworkError
from equitangents.nn import (
    Conv,
    Dense,
    Erf,
    Flatten,
    GlobalAvgPool,
    GroupConv,
    GroupPool,
    Residual,
    Sequential,
    SphereLift,
)
from equitangents.nn.sphere_lift import ZonalWindow

SO3 = et.groups.so3(2)
SHAPE = (4, 3)


@pytest.mark.parametrize(
    ("layers", "shape", "message"),
    [
        ((SphereLift(SO3, 3),), (5, 3), "a square number"),
        ((SphereLift(SO3, 3),), (2, 2, 3), "harmonic coefficients (N, B², C)"),
        ((SphereLift(SO3, 3),), (9, 3), "bandlimit 3; expected 1 to 2"),
        ((SphereLift(et.groups.octahedral(), 3, window=lambda t: 1 + t),), SHAPE, "use 'full'"),
        ((SphereLift(SO3, 3), GroupConv(3, (3, 3))), SHAPE, "'full', a profile"),
        ((SphereLift(SO3, 3), GroupConv(3, weights=[1.0])), SHAPE, "leave rotations and weights out"),
        ((SphereLift(et.groups.octahedral(), 3), GroupConv(3, lambda t: 1 + t)), SHAPE, "zonal window"),
        ((SphereLift(SO3, 3), GroupPool([0])), SHAPE, "expected None"),
        ((SphereLift(SO3, 3), GlobalAvgPool()), SHAPE, "grid"),
        ((SphereLift(SO3, 3), Conv(3, (3,))), SHAPE, "grid"),
        ((SphereLift(SO3, 3), SphereLift(SO3, 3)), SHAPE, "harmonic coefficients (N, B², C)"),
    ],
)
def test_layers_that_cannot_follow_are_named(layers, shape, message):
    with pytest.raises(NetworkError) as error:
        Sequential(*layers).init(jax.random.key(0), shape)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SphereLift("so3", 3), "onto is"),
        (lambda: SphereLift(et.groups.cyclic(3), 3), "onto is"),
        (lambda: SphereLift(et.groups.from_matrices([[[1.0]], [[-1.0]]]), 3), "orthogonal"),
        (lambda: SphereLift(SO3, 3, tolerance=0.0), "tolerance"),
        (lambda: SphereLift(SO3, 3, resolution=0), "resolution"),
        (lambda: SphereLift(SO3, 3, window="half"), "'full'"),
        (lambda: SphereLift(SO3, 3, window=lambda t: t), "positive mean"),
        (lambda: SphereLift(SO3, 3, window=lambda t: 1 + 3 * t), "weights of at least zero"),
        (lambda: SphereLift(SO3, 3, window=lambda t: (t > 0.5) * 1.0), "a smooth profile"),
        (lambda: SphereLift(SO3, 3, window=[1.0, np.nan]), "finite"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(EquitangentsError, match=message):
        make()


def test_what_has_no_kernel_says_so():
    x = np.ones((2, *SHAPE))
    with pytest.raises(NetworkError, match=r"output is the group SO.*; expected one position; end the network with"):
        Sequential(SphereLift(SO3, 3), Erf()).kernel(x)
    G = et.groups.octahedral()
    net = Sequential(SphereLift(G, 3), Erf(), GroupPool(G.generated_subgroup([1])), Flatten(), Dense(1))
    with pytest.raises(NetworkError, match="subgroup of the rotations"):
        net.kernel(x)
    net = Sequential(SphereLift(SO3, 3, window=lambda t: 1 + t), Residual(Dense(3)), GroupPool(), Dense(1))
    with pytest.raises(NetworkError, match="operation is Parallel; expected one with a rule"):
        net.kernel(x)
    with pytest.raises(NetworkError, match="SphereLift"):
        Sequential(Dense(1)).kernel_pairs(np.ones((2, 3)), np.ones((2, 3)), [0], [1])


def test_lists_of_pairs_are_checked():
    net = Sequential(SphereLift(SO3, 3), GroupPool(), Dense(1))
    x = np.ones((2, *SHAPE))
    for first, second, message in (
        ([0], [2], "expected 0 to 1"),
        ([0, 1], [0], "expected 2; give as many"),
        ([0.5], [0], "whole"),
    ):
        with pytest.raises(EquitangentsError, match=message):
            net.kernel_pairs(x, x, first, second)
    assert net.kernel_pairs(x, x, np.zeros(0, int), np.zeros(0, int)).ntk.shape == (0,)


def test_windows_are_the_same_by_profile_and_by_coefficients():
    profile = SphereLift(SO3, 3, window=lambda t: 2 + 3 * t * 0.5)
    coefficients = SphereLift(SO3, 3, window=[2.0, 0.5])
    assert np.allclose(profile.window.coefficients, (1.0, 0.25))
    assert np.allclose(profile.window.coefficients, coefficients.window.coefficients)
    assert GroupConv(3, ZonalWindow((1.0, 0.25))).window == coefficients.window
    assert SphereLift(SO3, 3).window == SphereLift(SO3, 3, window=lambda t: 1 + 0 * t).window


def test_residual_blocks_on_rotations():
    x = np.random.default_rng(0).normal(size=(2, *SHAPE))
    flat = Sequential(SphereLift(SO3, 8), Residual(Erf(), GroupConv(8)), Erf(), Flatten(), Dense(1))
    mlp = Sequential(Dense(8), Residual(Erf(), Dense(8)), Erf(), Dense(1))
    vectors = x.reshape(2, -1) / np.sqrt(np.pi)  # mean square Σ c²/(12π), that of the signal
    assert np.allclose(flat.kernel(x).ntk, mlp.kernel(vectors).ntk, rtol=1e-12)
    assert jax.jit(lambda x: flat.apply(flat.init(jax.random.key(0), SHAPE), x))(x).shape == (2, 1)
