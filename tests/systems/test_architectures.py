"""Architectures: what they are made of, and Theorem 3.1: weights of larger ones that compute what smaller ones do."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import equitangents as et
from equitangents import nn
from equitangents.errors import EquitangentsError
from equitangents_studies.systems.architectures import kind_of, with_outputs
from examples import examples

SCALES = {"W_std": 2**0.5, "b_std": 0.1}


def test_architectures_are_those_of_the_source() -> None:
    conv, dense = nn.Conv(128, 3, **SCALES), nn.Dense(1, **SCALES)
    assert et.systems.architecture("VEC", depth=1) == nn.Sequential(conv, nn.Relu(), nn.Flatten(), dense)
    assert et.systems.architecture("GAP", depth=1) == nn.Sequential(conv, nn.Relu(), nn.GlobalAvgPool(), dense)
    assert et.systems.architecture("LAP8", 1) == nn.Sequential(conv, nn.Relu(), nn.AvgPool(8), nn.Flatten(), dense)
    hidden = nn.Dense(1024, **SCALES)
    assert et.systems.architecture("FCN", depth=2) == nn.Sequential(
        nn.Flatten(), hidden, nn.Relu(), hidden, nn.Relu(), dense
    )
    local = nn.LocallyConnected(32, 3, **SCALES)
    assert et.systems.architecture("LCN", depth=1) == nn.Sequential(local, nn.Relu(), nn.Flatten(), dense)
    assert len(et.systems.architecture("VEC").layers) == 2 * 8 + 2


@pytest.mark.parametrize("name", et.systems.ARCHITECTURES)
def test_a_network_knows_which_architecture_it_is(name: str) -> None:
    net = et.systems.architecture(name, depth=2, width=3)
    assert kind_of(net) == kind_of(with_outputs(net, 7)) == name
    assert with_outputs(net, 7).layers[-1].channels == 7
    for other in ((nn.Dense(3), nn.Relu()), (nn.Conv(3, 3), nn.Flatten(), nn.Dense(1))):
        assert kind_of(nn.Sequential(*other, nn.Dense(1))) == "network"


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", ["FCN", "LCN"])
def test_the_standard_parametrisation_is_the_same_function_of_other_parameters(name: str) -> None:
    ntk = et.systems.architecture(name, 1, 4, outputs=2)
    standard = et.systems.architecture(name, 1, 4, outputs=2, parametrisation="standard")
    x = np.random.default_rng(0).standard_normal((3, 4, 3))
    key = jax.random.key(1)
    a, b = ntk.init(key, (4, 3), "float64"), standard.init(key, (4, 3), "float64")
    assert np.max(np.abs(ntk.apply(a, x) - standard.apply(b, x))) <= 1e-12
    fan_in = b[-1]["w"].shape[-2]
    assert np.max(np.abs(np.asarray(b[-1]["w"]) - np.asarray(a[-1]["w"]) * (2 / fan_in) ** 0.5)) <= 1e-12
    assert np.max(np.abs(np.asarray(b[-1]["b"]) - 0.1 * np.asarray(a[-1]["b"]))) <= 1e-12


def test_a_uniform_first_layer_has_the_variance_of_a_gaussian_one() -> None:
    net = et.systems.UniformFirst(et.systems.architecture("FCN", 2, 200))
    w = np.asarray(net.init(jax.random.key(0), (48,))[1]["w"])
    assert np.max(np.abs(w)) <= 3**0.5
    assert abs(w.var() - 1) < 0.03
    assert np.abs(np.asarray(net.init(jax.random.key(0), (48,))[3]["w"])).max() > 3  # the second is Gaussian


@pytest.mark.parametrize(
    ("arguments", "how", "said"),
    [
        *((name, {}, "LAP2, LAP4, …") for name in ("CNN", 3, "LAP0", "LAP")),
        ("VEC", {"depth": 0}, "depth"),
        ("VEC", {"depth": 2, "width": 0}, "width"),
        ("VEC", {"parametrisation": "mup"}, "parametrisation is 'mup'"),
    ],
)
def test_unknown_architectures_are_refused(arguments: object, how: dict, said: str) -> None:
    with pytest.raises(EquitangentsError, match=said):
        et.systems.architecture(arguments, **how)


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


@pytest.mark.parametrize(
    ("source", "change", "said"),
    [
        ("GAP", {"net": 5}, "net is 5"),
        ("GAP", {"target": 5}, "target is 5"),
        ("GAP", {"params": None}, "params have shapes"),
        ("GAP", {"params": ()}, "params have shapes"),
        ("GAP", {"input_shape": 4}, "input_shape is 4"),
        ("GAP", {"input_shape": (4, 3)}, "params have shapes"),
        ("GAP", {"net": et.systems.architecture("GAP", 1, 2, parametrisation="standard")}, "NTK parametrisation"),
        *((a, {"target": b}, "target is") for a, b in (("FCN", "VEC"), ("VEC", "GAP"), ("VEC", "VEC"), ("LCN", "GAP"))),
    ],
)
def test_what_cannot_be_embedded_is_refused_by_name(source: str, change: dict[str, Any], said: str) -> None:
    net, shape = et.systems.architecture(source, 1, 2), (4, 2)
    given = {"net": net, "params": net.init(jax.random.key(0), shape), "target": "VEC", "input_shape": shape}
    with pytest.raises(EquitangentsError, match=said):
        et.systems.embed(**(given | change))


def test_a_chain_of_inclusions_computes_the_same_and_ends_in_d_squared_n_channels() -> None:
    shape, net = (4, 2), et.systems.architecture("LCN", 2, 2)
    params = net.init(jax.random.key(0), shape, "float64")
    middle = et.systems.embed(net, params, "VEC", shape)
    last = et.systems.embed(*middle, "FCN", shape)
    assert not difference(net, params, middle, shape) > 1e-12
    assert not difference(net, params, last, shape) > 1e-12
    assert last.net.layers[1].channels == 4**2 * 2
