"""Operations of ONNX files and modules of exported programs are seen as layers, and the guilty one is named."""

from __future__ import annotations

import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch_networks import break_one, c4_network, export_onnx, export_program

import equitangents as et
from equitangents.audit.adapters import as_model
from equitangents.audit.adapters.choose import load_model

SETTINGS = {"off_data": False, "resamples": 200, "layout": "channels_first"}


def images(seed: int, n: int = 30, size: int = 12) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 1, size, size)).astype(np.float32)


def saved(network: nn.Module, folder: Path, suffix: str, dynamic: bool = True, size: int = 12) -> str:
    path = folder / f"network.{suffix}"
    x = (torch.from_numpy(images(0, 4, size)),)
    if suffix == "onnx":
        export_onnx(network, x, path, dynamic, ["image"])
    else:
        export_program(network, x, path, dynamic)
    return str(path)


@pytest.mark.parametrize("suffix", ["onnx", "pt2"])
@pytest.mark.parametrize("how", [None, "padding"])
def test_the_guilty_operation_belongs_to_the_guilty_layer(tmp_path: Path, suffix: str, how: str | None) -> None:
    torch.manual_seed(2)
    network = c4_network(depth=3)
    guilty = None if how is None else break_one(network, how, 1)
    section = et.audit(saved(network, tmp_path, suffix), "C4", images(1), **SETTINGS).layers
    assert len(section.layers) >= 7
    if guilty is None:
        assert section.guilty is None
    else:
        assert section.guilty.partition(": ")[0] == guilty, section.reason


@pytest.mark.parametrize("dynamic", [True, False])
def test_outputs_of_operations_are_those_of_the_modules(tmp_path: Path, dynamic: bool) -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.head = nn.Conv2d(1, 1, 3, padding=1), nn.Linear(144, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head((x + torch.tanh(self.inner(x))).flatten(1))

    torch.manual_seed(0)
    network = Residual()
    x = images(3, n=4)
    traces = load_model(saved(network, tmp_path, "onnx", dynamic)).trace(x)
    hooked = {t.name: t for t in as_model(network).trace(x)}
    with torch.no_grad():
        inner = network.inner(torch.from_numpy(x)).numpy()
    expected = OrderedDict(inner=inner, tanh=np.tanh(inner), add=x + np.tanh(inner), head=hooked["head"].outputs)
    found = [t.outputs for t in traces if t.kind.lower() not in ("flatten", "reshape")]
    assert len(found) == len(expected)
    for value, wanted in zip(found, expected.values(), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(traces[0].inputs, x)
    np.testing.assert_allclose(traces[1].inputs, traces[0].outputs)


def test_weights_beside_the_file_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    path = saved(nn.Sequential(nn.Flatten(), nn.Linear(144, 3)), tmp_path, "onnx")
    model = onnx.load(path)
    onnx.save_model(model, path, save_as_external_data=True, location="weights.bin", size_threshold=1024)
    assert (tmp_path / "weights.bin").is_file()
    monkeypatch.chdir(tmp_path)
    section = et.audit("network.onnx", "C4", images(4), **SETTINGS).layers
    assert section.guilty is not None
    assert section.layers[-1].kind == "Gemm"


def test_without_onnx_the_report_says_why_layers_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(nn.Sequential(nn.Flatten(), nn.Linear(144, 3)), tmp_path, "onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    report = et.audit(path, "C4", images(4), **SETTINGS)
    assert report.layers is None
    assert "onnx, which is not installed" in next(m.reason for m in report.missing if m.section == "layers")


@pytest.mark.parametrize("suffix", ["onnx", "pt2"])
def test_what_works_in_place_is_read_before(tmp_path: Path, suffix: str) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(300, 2))
    conv, relu, *_ = load_model(saved(network, tmp_path, suffix)).trace(images(0, n=4))
    assert conv.outputs.min() < 0
    np.testing.assert_array_equal(relu.inputs, conv.outputs)
    np.testing.assert_array_equal(relu.outputs, np.maximum(conv.outputs, 0))


def test_modules_traced_by_fx_show_their_graph() -> None:
    torch.manual_seed(0)
    network = torch.fx.symbolic_trace(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten()))
    names = [layer.name for layer in et.audit(network, "C4", images(5), **SETTINGS).layers.layers]
    assert len(names) == 3


def test_a_padding_that_the_convolution_mends_is_not_guilty(tmp_path) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, padding_mode="circular"), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    network.append(nn.Flatten())
    x = np.random.default_rng(0).normal(size=(12, 1, 6, 6)).astype(np.float32)
    export_onnx(network, (torch.from_numpy(x[:4]),), tmp_path / "network.onnx", True, ["image"])
    given = {"layout": "channels_first", "elements": 6, "off_data": False}
    report = et.audit(str(tmp_path / "network.onnx"), "translations", x, **given)
    assert report.verdict == "equivariant"
    assert any(layer.broken for layer in report.layers.layers)  # the padding
    assert (report.layers.guilty, report.layers.reason) == (None, "mended")
