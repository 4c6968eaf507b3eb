"""Irreps by layer through PyTorch's hooks: modules of known content, and networks beside a Fourier sum by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch_networks import c4_network

import equitangents as et

POINTS = np.random.default_rng(0).normal(size=(6, 5, 3)).astype(np.float32)
IMAGES = np.random.default_rng(1).normal(size=(8, 1, 8, 8)).astype(np.float32)


class Sum(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(dim=-2)


class Outer(nn.Module):
    def forward(self, v: torch.Tensor) -> torch.Tensor:
        return v[..., :, None] * v[..., None, :]


class Trace(nn.Module):
    def forward(self, S: torch.Tensor) -> torch.Tensor:
        return S.diagonal(dim1=-2, dim2=-1).sum(dim=-1, keepdim=True)


def test_features_of_known_content_are_found_in_their_irreps() -> None:
    """Those of the sum of the points (l = 1), of its square (l = 0 and 2), and of its length (l = 0)."""
    found = et.audit.irreps_by_layer(nn.Sequential(Sum(), Outer(), Trace()), "SO3", POINTS, inputs="vectors", degrees=3)
    vector, square, length, output = (layer.shares for layer in found.layers)
    assert vector["l = 1"] == pytest.approx(1.0, abs=1e-5)
    assert square["l = 0"] == pytest.approx(1 / 3, abs=1e-5)  # ‖vvᵀ‖² = |v|⁴, a third of it in (v·v)²/3
    assert square["l = 2"] == pytest.approx(2 / 3, abs=1e-5)
    assert length["l = 0"] == output["l = 0"] == pytest.approx(1.0, abs=1e-5)
    assert found.relative_error < 1e-3


def test_a_network_has_the_shares_of_a_fourier_sum_by_hand() -> None:
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 3),
    ]
    net = nn.Sequential(
        *layers
    ).train()  # trained statistics are not those of a batch: it is audited in evaluation mode
    before = {name: value.clone() for name, value in net.state_dict().items()}
    found = et.audit.irreps_by_layer(net, "C4", IMAGES, layout="channels_first")
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert not any(module._forward_hooks for module in net.modules())
    net.eval()
    h = [torch.tensor(np.rot90(IMAGES, k, (2, 3)).copy()) for k in range(4)]
    for layer, seen in zip(layers, found.layers, strict=False):
        with torch.no_grad():
            h = [layer(one) for one in h]
        wave = np.fft.fft(np.array([one.double().numpy().reshape(-1) for one in h]), axis=0) / 4
        power = (np.abs(wave) ** 2).mean(axis=1)
        expected = np.array([power[0], power[1] + power[3], power[2]]) / power.sum()
        shares = np.array(list(seen.shares.values()))
        assert np.sort(shares) == pytest.approx(np.sort(expected), rel=1e-4, abs=1e-7)
        assert shares[0] == pytest.approx(expected[0], rel=1e-4)
        assert seen.kind == type(layer).__name__


def test_an_invariant_network_ends_in_the_trivial_irrep_alone() -> None:
    torch.manual_seed(1)
    found = et.audit.irreps_by_layer(c4_network(depth=2), "C4", IMAGES, layout="channels_first")
    assert found.layers[0].shares != pytest.approx(found.layers[-1].shares, abs=0.05)
    assert found.relative_error < 1e-5
