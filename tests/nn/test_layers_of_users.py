"""A layer that is defined outside the package: parameters, function, kernel, and the shortcut of folding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from equitangents.kernels.operations import Affine
from equitangents.nn.layer import Layer, Signal


@dataclass(frozen=True)
class Gain(Layer):
    """y = a · x with one learnt standard normal gain a for each channel: K' = K and Θ' = Θ + K on Gaussian fields."""

    def signal(self, signal: Signal) -> Signal:
        return replace(signal, gaussian=False, deterministic=False)

    def init(self, key: jax.Array, signal: Signal, dtype: Any) -> Any:
        return jax.random.normal(key, (signal.channels,), dtype)

    def apply(self, params: Any, x: Any, signal: Signal) -> Any:
        return params * x

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        return (Affine(1.0, 0.0),)


@dataclass(frozen=True)
class UnfoldedGain(Gain):
    def fold(self, signal: Signal, group: et.groups.Group) -> None:
        return None


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(3, 4, 4, 2))


def lifted(gain: Layer, window: Any = (3, 3)) -> nn.Sequential:
    p4 = et.groups.wallpaper(rotations=4, reflections=False, shape=(4, 4))
    first = nn.Lift(p4, 8, window=window, W_std=1.4, b_std=0.2)
    return nn.Sequential(
        first, gain, nn.Dense(8), nn.Relu(), nn.GroupConv(8, window=(3, 3)), nn.Relu(), nn.GroupPool(), nn.Dense(1)
    )


def test_a_layer_of_a_user_has_its_kernel_in_every_engine(x: np.ndarray) -> None:
    net = nn.Sequential(nn.Dense(64, W_std=1.3, b_std=0.3), Gain(), nn.Dense(64), nn.Relu(), nn.Flatten(), nn.Dense(1))
    flat = x.reshape(3, -1)
    expected_K = 1.3**2 * flat @ flat.T / 32 + 0.3**2
    # Θ after Gain is 2K, the dense layer after it adds K, the arc-cosine kernels follow
    norm = np.sqrt(np.diag(expected_K))
    cosine = np.clip(expected_K / np.outer(norm, norm), -1, 1)
    angle = np.arccos(cosine)
    nngp = np.outer(norm, norm) * (np.sin(angle) + (np.pi - angle) * cosine) / (2 * np.pi)
    ntk = nngp + 3 * expected_K * (np.pi - angle) / (2 * np.pi)
    for engine in ("reference", None):
        k = net.kernel(flat, engine=engine)
        np.testing.assert_allclose(k.nngp, nngp, rtol=1e-7)
        np.testing.assert_allclose(k.ntk, ntk, rtol=1e-7)


def test_a_layer_of_a_user_has_finite_parameters_and_outputs(x: np.ndarray) -> None:
    net = lifted(Gain())
    params = net.init(jax.random.key(0), x.shape[1:])
    y = jax.jit(net.apply)(params, jnp.asarray(x, jnp.float32))
    assert y.shape == (3, 1)
    assert np.isfinite(np.asarray(y)).all()
    assert params[1].shape == (8,)


def test_a_layer_that_folds_gives_the_kernel_of_one_that_does_not(x: np.ndarray) -> None:
    plain, folded = lifted(UnfoldedGain()), lifted(Gain())
    assert plain.lower(x.shape[1:])[1].lift.folded == 1
    assert folded.lower(x.shape[1:])[1].lift.folded == 4
    np.testing.assert_allclose(folded.kernel(x).ntk, plain.kernel(x).ntk, rtol=1e-12)


@pytest.mark.slow
def test_positions_that_are_numbered_otherwise_have_the_same_kernel(x: np.ndarray) -> None:
    """A wallpaper group may move positions that are not numbered as its grid's points: then nothing is folded."""
    p4 = et.groups.wallpaper(rotations=4, reflections=False, shape=(4, 4))
    table = et.actions.grid(p4).position_table((4, 4))
    order = np.random.default_rng(1).permutation(16)
    renumber = np.argsort(order)
    moved = et.actions.permutations(p4, renumber[table[:, order]])
    tail = (nn.Relu(), nn.GroupConv(8, window=(3, 3)), nn.Relu(), nn.GroupPool(), nn.Dense(1))
    flat = x.reshape(3, 16, 2)[:, order]
    # a window given as numbers of positions reads those, whatever the engine and whether it is given as a box or a list
    box = nn.Sequential(nn.Lift(moved, 8, window=(3, 3)), *tail)
    numbers = [(i % 4) * 4 + j % 4 for i in (-1, 0, 1) for j in (-1, 0, 1)]
    listed = nn.Sequential(nn.Lift(moved, 8, window=numbers), *tail)
    for engine in ("reference", None):
        np.testing.assert_allclose(box.kernel(flat, engine=engine).ntk, listed.kernel(flat).ntk, rtol=1e-12)
    # and with the window renumbered as well, it is the network on the grid
    same = nn.Sequential(nn.Lift(moved, 8, window=renumber[numbers].tolist()), *tail)
    on_grid = nn.Sequential(nn.Lift(p4, 8, window=(3, 3)), *tail)
    np.testing.assert_allclose(same.kernel(flat).ntk, on_grid.kernel(x).ntk, rtol=1e-12)
