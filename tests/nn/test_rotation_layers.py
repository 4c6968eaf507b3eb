"""Layers on rotations: what they refuse, and how windows are given."""

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from equitangents.errors import EquitangentsError, NetworkError
from equitangents.nn.sphere_lift import ZonalWindow

SO3 = et.groups.so3(2)
SHAPE = (4, 3)


@pytest.mark.parametrize(
    ("layers", "shape", "message"),
    [
        ((nn.SphereLift(SO3, 3),), (5, 3), "a square number"),
        ((nn.SphereLift(SO3, 3),), (2, 2, 3), "harmonic coefficients (N, B², C)"),
        ((nn.SphereLift(SO3, 3),), (9, 3), "bandlimit 3; expected 1 to 2"),
        ((nn.SphereLift(et.groups.octahedral(), 3, window=lambda t: 1 + t),), SHAPE, "use 'full'"),
        ((nn.SphereLift(SO3, 3), nn.GroupConv(3, (3, 3))), SHAPE, "'full', a profile"),
        ((nn.SphereLift(SO3, 3), nn.GroupConv(3, weights=[1.0])), SHAPE, "leave rotations and weights out"),
        ((nn.SphereLift(et.groups.octahedral(), 3), nn.GroupConv(3, lambda t: 1 + t)), SHAPE, "zonal window"),
        ((nn.SphereLift(SO3, 3), nn.GroupPool([0])), SHAPE, "expected None"),
        ((nn.SphereLift(SO3, 3), nn.GlobalAvgPool()), SHAPE, "grid"),
        ((nn.SphereLift(SO3, 3), nn.Conv(3, (3,))), SHAPE, "grid"),
        ((nn.SphereLift(SO3, 3), nn.SphereLift(SO3, 3)), SHAPE, "harmonic coefficients (N, B², C)"),
    ],
)
def test_layers_that_cannot_follow_are_named(layers, shape, message):
    with pytest.raises(NetworkError) as error:
        nn.Sequential(*layers).init(jax.random.key(0), shape)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.SphereLift("so3", 3), "onto is"),
        (lambda: nn.SphereLift(et.groups.cyclic(3), 3), "onto is"),
        (lambda: nn.SphereLift(et.groups.from_matrices([[[1.0]], [[-1.0]]]), 3), "orthogonal"),
        (lambda: nn.SphereLift(SO3, 3, tolerance=0.0), "tolerance"),
        (lambda: nn.SphereLift(SO3, 3, resolution=0), "resolution"),
        (lambda: nn.SphereLift(SO3, 3, window="half"), "'full'"),
        (lambda: nn.SphereLift(SO3, 3, window=lambda t: t), "positive mean"),
        (lambda: nn.SphereLift(SO3, 3, window=lambda t: 1 + 3 * t), "weights of at least zero"),
        (lambda: nn.SphereLift(SO3, 3, window=lambda t: (t > 0.5) * 1.0), "a smooth profile"),
        (lambda: nn.SphereLift(SO3, 3, window=[1.0, np.nan]), "finite"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(EquitangentsError, match=message):
        make()


def test_what_has_no_kernel_says_so():
    x = np.ones((2, *SHAPE))
    with pytest.raises(NetworkError, match=r"output is the group SO.*; expected one position; end the network with"):
        nn.Sequential(nn.SphereLift(SO3, 3), nn.Erf()).kernel(x)
    G = et.groups.octahedral()
    net = nn.Sequential(
        nn.SphereLift(G, 3), nn.Erf(), nn.GroupPool(G.generated_subgroup([1])), nn.Flatten(), nn.Dense(1)
    )
    with pytest.raises(NetworkError, match="subgroup of the rotations"):
        net.kernel(x)
    net = nn.Sequential(
        nn.SphereLift(SO3, 3, window=lambda t: 1 + t), nn.Residual(nn.Dense(3)), nn.GroupPool(), nn.Dense(1)
    )
    with pytest.raises(NetworkError, match="operation is Parallel; expected one with a rule"):
        net.kernel(x)
    with pytest.raises(NetworkError, match="SphereLift"):
        nn.Sequential(nn.Dense(1)).kernel_pairs(np.ones((2, 3)), np.ones((2, 3)), [0], [1])


def test_lists_of_pairs_are_checked():
    net = nn.Sequential(nn.SphereLift(SO3, 3), nn.GroupPool(), nn.Dense(1))
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
    profile = nn.SphereLift(SO3, 3, window=lambda t: 2 + 3 * t * 0.5)
    coefficients = nn.SphereLift(SO3, 3, window=[2.0, 0.5])
    assert np.allclose(profile.window.coefficients, (1.0, 0.25))
    assert np.allclose(profile.window.coefficients, coefficients.window.coefficients)
    assert nn.GroupConv(3, ZonalWindow((1.0, 0.25))).window == coefficients.window
    assert nn.SphereLift(SO3, 3).window == nn.SphereLift(SO3, 3, window=lambda t: 1 + 0 * t).window


def test_residual_blocks_on_rotations():
    x = np.random.default_rng(0).normal(size=(2, *SHAPE))
    flat = nn.Sequential(
        nn.SphereLift(SO3, 8), nn.Residual(nn.Erf(), nn.GroupConv(8)), nn.Erf(), nn.Flatten(), nn.Dense(1)
    )
    mlp = nn.Sequential(nn.Dense(8), nn.Residual(nn.Erf(), nn.Dense(8)), nn.Erf(), nn.Dense(1))
    vectors = x.reshape(2, -1) / np.sqrt(np.pi)  # mean square Σ c²/(12π), that of the signal
    assert np.allclose(flat.kernel(x).ntk, mlp.kernel(vectors).ntk, rtol=1e-12)
    assert jax.jit(lambda x: flat.apply(flat.init(jax.random.key(0), SHAPE), x))(x).shape == (2, 1)
