"""What models of other libraries are not made for is said in one line, in place of the library's own words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn
from torch_networks import export_onnx

import equitangents as et
from equitangents.cli.main import main
from equitangents.errors import ModelError, ShapeError

QUIET = {"off_data": False, "resamples": 50}
LAST = np.random.default_rng(0).normal(size=(9, 6, 6, 1)).astype(np.float32)
FIRST = np.ascontiguousarray(np.moveaxis(LAST, -1, 1))


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


@pytest.fixture(scope="module")
def onnx_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("onnx") / "network.onnx"
    export_onnx(network(), (torch.from_numpy(FIRST[:4]),), path, True, ["image"])
    return path


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["audit", *arguments])
    output = capfd.readouterr()
    return int(stop.value.code or 0), output.out, output.err


def test_a_wrong_layout_of_an_onnx_file_is_told_with_both_shapes(onnx_file: Path) -> None:
    with pytest.raises(ShapeError, match=r"\(9, 6, 6, 1\); expected \(N, 1, 6, 6\) for 'image'.*moveaxis"):
        et.audit(str(onnx_file), "C4", LAST, layout="channels_last", **QUIET)
    with pytest.raises(ShapeError, match=r"expected \(N, 1, 6, 6\)"):
        et.audit(str(onnx_file), "C4", FIRST[..., :5, :5], layout="channels_first", **QUIET)
    with pytest.raises(ShapeError, match=r"expected \(N, 1, 6, 6\)"):
        et.audit(str(onnx_file), "C4", LAST.reshape(9, 36)[:, :2], **QUIET)
    session = onnxruntime.InferenceSession(str(onnx_file), providers=["CPUExecutionProvider"])
    with pytest.raises(ShapeError, match=r"expected \(N, 1, 6, 6\)"):
        et.audit(session, "C4", LAST, layout="channels_last", **QUIET)


def multiply(path: Path) -> None:
    """An ONNX file that states no sizes, and multiplies by a matrix for three features."""
    value = onnx.helper.make_tensor_value_info
    weights = onnx.numpy_helper.from_array(np.ones((3, 2), np.float32), "weights")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "weights"], ["y"])],
        "graph",
        [value("x", onnx.TensorProto.FLOAT, ["batch", "features"])],
        [value("y", onnx.TensorProto.FLOAT, None)],
        [weights],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())


def test_what_onnx_runtime_refuses_is_one_line_in_the_audits_words(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    multiply(tmp_path / "m.onnx")
    x = np.ones((5, 2), np.float32)
    with pytest.raises(ModelError, match=r"m\.onnx failed on inputs of shape x \(5, 2\): ") as raised:
        et.audit(str(tmp_path / "m.onnx"), "C4", x, **QUIET)
    assert "\n" not in str(raised.value)
    own = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    with pytest.raises(ModelError, match=r"shape x \(5, 2\)"):
        et.audit(own, "C4", x, **QUIET)
    assert capfd.readouterr().err == ""
    np.save(tmp_path / "x.npy", x)
    status, out, err = run(capfd, str(tmp_path / "m.onnx"), "--data", str(tmp_path / "x.npy"), "--group", "C4")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "Traceback" not in err


def test_a_wrong_layout_of_pytorch_models_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModelError, match=r"Sequential failed on inputs of shape x \(9, 6, 6, 1\): RuntimeError: "):
        et.audit(network(), "C4", LAST, layout="channels_last", **QUIET)
    path = tmp_path / "network.pt2"
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(network(), (torch.from_numpy(FIRST[:4]),), dynamic_shapes=({0: batch},))
    torch.export.save(program, path)
    np.save(tmp_path / "last.npy", LAST)
    given = "--data", str(tmp_path / "last.npy"), "--layout", "channels_last", "--group", "C4"
    status, out, err = run(capfd, str(path), *given)
    assert (status, out, err.count("\n"), "(9, 6, 6, 1)" in err) == (2, "", 1, True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_models_in_half_precision_are_judged_by_its_rounding(dtype: torch.dtype) -> None:
    class Sums(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor(1.5))
            self.inner = nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            quarters = [torch.rot90(x, k, (2, 3)) for k in range(4)]
            return self.inner(self.weight * sum((q * torch.arange(6, dtype=x.dtype)).sum((2, 3)) for q in quarters) + 3)

    report = et.audit(Sums().to(dtype), "C4", FIRST, layout="channels_first", **QUIET)
    assert report.model.dtype == str(dtype).removeprefix("torch.")
    assert report.verdict == "equivariant", report.first_line  # its errors are those of rounding: none stay in float64
    assert report.layers.guilty is None
    assert not any(layer.broken for layer in report.layers.layers)
    broken = et.audit(network().to(dtype), "C4", FIRST, layout="channels_first", **QUIET)
    assert broken.verdict == "broken"
