"""ONNX files: the same numbers as the PyTorch models that they were exported from."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch_networks import export_onnx

import equitangents as et
from equitangents.cli.main import main
from equitangents.errors import InvalidArgumentError, NetworkError

QUIET = {"off_data": False, "resamples": 200}


@pytest.mark.parametrize("dynamic", [True, False])
def test_an_exported_network(tmp_path, dynamic: bool, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    x = np.random.default_rng(0).normal(size=(13, 1, 6, 6)).astype(np.float32)
    path = tmp_path / "network.onnx"
    export_onnx(network, (torch.from_numpy(x[:4]),), path, dynamic, ["image"])
    report = et.audit(str(path), "C4", x, layout="channels_first", **QUIET)
    literal = et.audit(network, "C4", x, layout="channels_first", **QUIET)
    np.testing.assert_allclose(report.errors, literal.errors, rtol=1e-3, atol=1e-6)
    assert report.model.kind == "onnx"
    assert next((r.kind, r.shape) for r in report.layers.layers) == ("Conv", [4, 6, 6])
    assert "onnxruntime" in report.versions
    read = et.audit(str(path), "C4", x, **QUIET)
    assert read.contract.layout == "channels_first"
    np.testing.assert_array_equal(read.errors, report.errors)
    data = tmp_path / "data.npz"
    np.savez(data, x=x)
    arguments = ["audit", str(path), "--data", str(data), "--group", "C4", "--on-data-only"]
    for limit, status in (("100", 0), ("10000%", 0), ("1e-9", 3)):
        with pytest.raises(SystemExit) as stop:
            main([*arguments, "--fail-above", limit])
        assert stop.value.code == status
    said = capsys.readouterr()
    assert said.out.startswith("broken ")
    assert said.err.startswith("layout: channels_first, from the shape (13, 1, 6, 6)\n")


def test_a_layout_that_is_not_told_is_asked_for(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).normal(size=(9, 6, 6, 6)).astype(np.float32)
    network = nn.Sequential(nn.Conv2d(6, 2, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(network, (torch.from_numpy(x),), tmp_path / "net.onnx", dynamo=False, input_names=["x"],
                          dynamic_axes={"x": {0: "n", 2: "height", 3: "width"}})  # fmt: skip
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "last.npy", np.zeros((9, 8, 8, 6), np.float32))
    for data, said in (
        ("x", "layout is None; expected 'channels_first' or 'channels_last'"),
        ("last", "numpy.moveaxis(x, -1, 1), with layout='channels_first'"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["audit", str(tmp_path / "net.onnx"), "--data", f"{tmp_path / data}.npy", "--group", "C4"])
        told = capsys.readouterr().err
        assert (stop.value.code, told.count("\n")) == (2, 1)
        assert said in told


def test_named_inputs(tmp_path) -> None:
    class Centre(nn.Module):
        def forward(self, positions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return (positions * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    rng = np.random.default_rng(1)
    positions, mask = rng.normal(size=(9, 5, 3)).astype(np.float32), np.ones((9, 5), np.float32)
    path = tmp_path / "centre.onnx"
    export_onnx(Centre(), tuple(torch.from_numpy(a[:4]) for a in (positions, mask)), path, True, ["positions", "mask"])
    kinds = {"positions": "vectors", "mask": None}
    report = et.audit(str(path), "SO3", {"mask": mask, "positions": positions}, "vectors", inputs=kinds, **QUIET)
    assert report.verdict == "equivariant"
    ordered = et.audit(str(path), "SO3", (positions, mask), "vectors", inputs=("vectors", None), **QUIET)
    assert ordered.verdict == "equivariant"
    with pytest.raises(InvalidArgumentError, match="the inputs of the file"):
        et.audit(str(path), "SO3", positions, "vectors", **QUIET)


def test_files_that_are_none(tmp_path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"nothing")
    with pytest.raises(NetworkError, match="expected a file that onnxruntime can load"):
        et.audit(str(path), "C4", np.zeros((3, 1, 4, 4)), **QUIET)
    with pytest.raises(InvalidArgumentError, match="expected a file"):
        et.audit(str(tmp_path / "none.onnx"), "C4", np.zeros((3, 1, 4, 4)), **QUIET)
