"""Theorem 3.1 by construction: weights of the larger network that compute what the smaller one does, to rounding."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import equitangents as et
from equitangents.errors import EquitangentsError
from examples import examples

INCLUSIONS = {"GAP": ("VEC", "LCN", "FCN"), "VEC": ("LCN", "FCN"), "LCN": ("FCN", "VEC"), "LAP2": ("VEC",)}


def difference(net: Any, params: Any, wide: Any, shape: tuple[int, ...]) -> float:
    """The largest difference of outputs, relative to the largest output."""
    x = np.random.default_rng(0).standard_normal((3, *shape))
    y = np.asarray(net.apply(params, x))
    return float(np.max(np.abs(np.asarray(wide.net.apply(wide.params, x)) - y)) / np.max(np.abs(y)))


@pytest.mark.slow
@examples(3, random=60)
@given(
    pair=st.sampled_from([(a, b) for a, targets in INCLUSIONS.items() for b in targets]),
    grid=st.sampled_from([(4,), (2, 4), (6,), (2, 2)]),
    depth=st.integers(1, 2),
    width=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_the_larger_architecture_computes_the_smaller_one(
    pair: tuple[str, str], grid: tuple[int, ...], depth: int, width: int, seed: int
) -> None:
    shape = (*grid, 2)
    net = et.systems.architecture(pair[0], depth, width, outputs=2)
    params = net.init(jax.random.key(seed), shape, "float64")
    wide = et.systems.embed(net, params, pair[1], shape)
    assert not difference(net, params, wide, shape) > 1e-12
    positions = int(np.prod(grid))
    multiple = {("LCN", "VEC"): positions}.get(pair, positions if pair[1] == "FCN" else 1)
    weighted = [layer for layer in wide.net.layers if hasattr(layer, "channels")]
    assert weighted[0].channels == multiple * width
    assert jax.tree.map(np.shape, wide.params) == jax.tree.map(
        np.shape, jax.eval_shape(lambda key: wide.net.init(key, shape), jax.random.key(0))
    )


@pytest.mark.slow
@pytest.mark.parametrize("first_layer", ["gaussian", "uniform"])
def test_networks_of_another_parametrisation_are_embedded_as_the_function_that_they_are(first_layer: str) -> None:
    shape = (4, 4, 3)
    for parametrisation, target in (("standard", "VEC"), ("standard", "FCN"), ("ntk", "LCN")):
        net = et.systems.architecture("GAP", 2, 4, parametrisation=parametrisation, first_layer=first_layer)
        params = net.init(jax.random.key(0), shape, "float64")
        assert not difference(net, params, et.systems.embed(net, params, target, shape), shape) > 1e-12


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"net": 5}, "net is 5"),
        ({"target": 5}, "target is 5"),
        ({"params": None}, "params have shapes"),
        ({"params": ()}, "params have shapes"),
        ({"input_shape": 4}, "input_shape is 4"),
        ({"input_shape": (4, 3)}, "params have shapes"),
    ],
)
def test_what_cannot_be_embedded_is_refused_by_name(change: dict[str, Any], said: str) -> None:
    net = et.systems.architecture("GAP", 1, 2)
    given = {"net": net, "params": net.init(jax.random.key(0), (4, 2)), "target": "VEC", "input_shape": (4, 2)}
    with pytest.raises(EquitangentsError, match=said):
        et.systems.embed(**(given | change))


def test_the_long_chain_ends_in_d_squared_n_channels() -> None:
    shape = (4, 2)
    net = et.systems.architecture("LCN", 2, 2)
    params = net.init(jax.random.key(0), shape, "float64")
    conv = et.systems.embed(net, params, "VEC", shape)
    dense = et.systems.embed(*conv, "FCN", shape)
    assert dense.net.layers[1].channels == 4**2 * 2
    assert not difference(net, params, dense, shape) > 1e-12


def test_global_means_are_block_means_and_blocks_are_those_of_smaller_ones() -> None:
    shape = (8, 2)
    net = et.systems.architecture("GAP", 1, 2)
    params = net.init(jax.random.key(0), shape, "float64")
    coarse = et.systems.embed(net, params, "LAP4", shape)
    fine = et.systems.embed(*coarse, "LAP2", shape)
    assert not difference(net, params, coarse, shape) > 1e-12
    assert not difference(net, params, fine, shape) > 1e-12


@pytest.mark.parametrize(("source", "target"), [("FCN", "VEC"), ("VEC", "GAP"), ("VEC", "VEC"), ("LCN", "GAP")])
def test_what_theorem_3_1_does_not_say_is_refused(source: str, target: str) -> None:
    net = et.systems.architecture(source, 1, 2)
    params = net.init(jax.random.key(0), (4, 2))
    with pytest.raises(EquitangentsError, match="target is"):
        et.systems.embed(net, params, target, (4, 2))


def test_blocks_that_do_not_make_up_others_are_refused() -> None:
    net = et.systems.architecture("LAP2", 1, 2)
    params = net.init(jax.random.key(0), (6, 2))
    with pytest.raises(EquitangentsError, match="blocks of 3"):
        et.systems.embed(net, params, "LAP3", (6, 2))
