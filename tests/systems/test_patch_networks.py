"""Patches that change places: a Mixer and a vision transformer stay the same algorithm, a ResNet does not."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents.errors import EquitangentsError
from equitangents_studies.systems.coupling import coupled, why_uncoupled
from equitangents_studies.systems.data_groups import data_group

SHAPE = (4, 4, 3)


def test_patches_change_places_and_stay_as_they_are_inside() -> None:
    x = np.random.default_rng(0).standard_normal((2, 6, 4, 3))
    tau = et.systems.transformation("patches(2)", (6, 4, 3), seed=1)
    blocks = lambda z: z.reshape(2, 3, 2, 2, 2, 3).swapaxes(2, 3).reshape(2, 6, 12)
    before, after = blocks(x), blocks(tau(x))
    order = [int(np.flatnonzero((before[0] == patch).all(axis=1))[0]) for patch in after[0]]
    assert sorted(order) == list(range(6))
    assert order != list(range(6))
    assert np.array_equal(after[1], before[1][order])
    assert np.array_equal(tau.inverse(tau(x)), x)


@pytest.mark.quick(1)
@pytest.mark.parametrize("kind", ["Mixer", "ViT"])
@pytest.mark.parametrize("group", ["patches(2)", "O(3)xI"])
def test_coupled_patch_networks_compute_the_same_function(kind: str, group: str) -> None:
    net = et.systems.patch_network(kind, patch=2, depth=2, width=4, outputs=2)
    params = net.init(jax.random.key(0), SHAPE, "float64")
    tau = et.systems.transformation(group, SHAPE, seed=3)
    x = np.random.default_rng(0).standard_normal((3, *SHAPE))
    moved = coupled(net, params, tau)
    here, there = np.asarray(net.apply(params, x)), np.asarray(net.apply(moved, tau(x)))
    assert np.max(np.abs(there - here)) <= 1e-12 * np.max(np.abs(here))
    assert np.max(np.abs(np.asarray(net.apply(params, tau(x))) - here)) > 1e-3 * np.max(np.abs(here))


def test_what_has_no_coupling_is_said() -> None:
    reason = lambda name, group: why_uncoupled(et.systems.patch_network(name), data_group(group, SHAPE))
    for name in ("Mixer", "ViT", "ResNet"):
        assert reason(name, "O(3)xI") is None
        assert reason(name, "O(3)^d") is not None
    assert reason("ResNet", "patches(2)") is not None
    assert reason("Mixer", "patches(4)") is not None
    assert reason("Mixer", "patches(2)") is None
    assert why_uncoupled(et.systems.architecture("FCN", 1), data_group("patches(2)", SHAPE)) is None
    assert why_uncoupled(et.systems.architecture("LCN", 1), data_group("patches(2)", SHAPE)) is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "verdict", "members"),
    [("Mixer", "symmetric", 32), ("ViT", "symmetric", 32), ("ResNet", "not symmetric", 128)],  # a test of two samples
)
def test_patch_permutations_of_trained_networks(name: str, verdict: str, members: int) -> None:
    learning = et.systems.inference("NN", members=2, epochs=15)
    system = et.systems.System("I", et.systems.patch_network(name, patch=2, width=4), learning)
    data = et.systems.textures(80, (8, 8, 3), classes=3)
    result = et.systems.algorithmic_symmetry(system, "patches(2)", *data, members=members)
    assert result.verdict == verdict, result.sentence


def test_patches_that_do_not_fit_are_refused() -> None:
    with pytest.raises(EquitangentsError, match="multiples of 3"):
        et.systems.transformation("patches(3)", SHAPE)
    with pytest.raises(EquitangentsError, match="multiples of 3"):
        et.systems.patch_network("ViT", patch=3).init(jax.random.key(0), SHAPE)
    with pytest.raises(EquitangentsError, match="'CNN'"):
        et.systems.patch_network("CNN")
