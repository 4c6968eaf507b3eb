"""Networks as JSON: each layer by its name and its arguments, and what anything else gets."""

from __future__ import annotations

import json

import pytest

from equitangents import nn
from equitangents.errors import InvalidArgumentError
from equitangents.nn.specification import network_of, read_network

LAYERS = [
    {"layer": "Conv", "channels": 4, "window": [3, 3], "padding": "zero", "W_std": 1.4, "b_std": 0.1},
    {"layer": "LeakyRelu", "negative_slope": 0.2},
    {"layer": "Residual", "layers": [{"layer": "Conv", "channels": 4, "window": 3}, {"layer": "Relu"}]},
    {"layer": "Flatten"},
    {"layer": "Dense", "channels": 2},
]


def test_a_file_of_layers_is_the_network(tmp_path):
    (tmp_path / "net.json").write_text(json.dumps(LAYERS))
    assert read_network(tmp_path / "net.json") == nn.Sequential(
        nn.Conv(4, (3, 3), padding="zero", W_std=1.4, b_std=0.1),
        nn.LeakyRelu(0.2),
        nn.Residual(nn.Conv(4, 3), nn.Relu()),
        nn.Flatten(),
        nn.Dense(2),
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "expected a list of layers"),
        ({"layer": "Relu"}, "expected a list of layers"),
        (["Relu"], "expected an object such as"),
        ([{"layer": "Desne", "channels": 1}], "layer is 'Desne'; expected .*; did you mean 'Dense'"),
        ([{"layer": "Layer"}], "layer is 'Layer'; expected "),
        ([{"layer": "Dense"}], "layer is 'Dense'; expected arguments that it takes"),
        ([{"layer": "Dense", "channels": 0}], "layer Dense: channels is 0"),
        ([{"layer": "Dense", "channel": 1}], "did you mean 'channels'"),
    ],
)
def test_what_is_no_network_is_said(content, said):
    with pytest.raises(InvalidArgumentError, match=said):
        network_of(content)


def test_a_file_that_is_no_json_is_named(tmp_path):
    (tmp_path / "net.json").write_text("Dense(1)")
    with pytest.raises(InvalidArgumentError, match=r"net\.json'; expected JSON"):
        read_network(tmp_path / "net.json")
