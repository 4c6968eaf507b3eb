"""Architectures: what they are made of, other parametrisations, other initialisations."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from equitangents.errors import EquitangentsError
from equitangents_studies.systems.architectures import kind_of, with_outputs

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
    assert kind_of(net) == name
    assert kind_of(with_outputs(net, 7)) == name
    assert with_outputs(net, 7).layers[-1].channels == 7


def test_other_networks_are_no_architecture() -> None:
    assert kind_of(nn.Sequential(nn.Dense(3), nn.Relu(), nn.Dense(1))) == "network"
    assert kind_of(nn.Sequential(nn.Conv(3, 3), nn.Flatten(), nn.Dense(1), nn.Dense(1))) == "network"


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
    net = et.systems.architecture("FCN", 2, 200, first_layer="uniform")
    w = np.asarray(net.init(jax.random.key(0), (48,))[1]["w"])
    assert np.max(np.abs(w)) <= 3**0.5
    assert abs(w.var() - 1) < 0.03
    assert np.abs(np.asarray(net.init(jax.random.key(0), (48,))[3]["w"])).max() > 3  # the second is Gaussian


@pytest.mark.parametrize(
    "arguments",
    [("CNN",), ("VEC", 0), ("VEC", 2, 0), (3,), ("LAP0",), ("LAP",)],
)
def test_unknown_architectures_are_refused(arguments: tuple[object, ...]) -> None:
    with pytest.raises(EquitangentsError, match="LAP2, LAP4, …" if not arguments[1:] else "depth|width"):
        et.systems.architecture(*arguments)


def test_unknown_parametrisations_are_refused() -> None:
    with pytest.raises(EquitangentsError, match="parametrisation is 'mup'"):
        et.systems.architecture("VEC", parametrisation="mup")
