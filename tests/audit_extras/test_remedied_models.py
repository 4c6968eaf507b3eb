"""Models with a remedy in their own form: PyTorch modules and ONNX files, equivariant by measurement."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch_networks import export_onnx

import equitangents as et
from equitangents.errors import InvalidArgumentError, InvalidTypeError

SETTINGS = {"layout": "channels_first", "effort": "quick"}
X = np.random.default_rng(0).normal(size=(6, 1, 6, 6)).astype(np.float32)


def network() -> nn.Module:
    torch.manual_seed(0)
    parts = [nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)]
    return nn.Sequential(*parts)


@pytest.mark.parametrize("output", [None, "images"])
def test_a_module_comes_back_as_a_module_that_is_equivariant(output: str | None) -> None:
    model = network() if output is None else nn.Conv2d(1, 2, 3, padding=1)
    report = et.audit(model, "D4", X, output, **SETTINGS)
    assert report.verdict == "broken"
    mended = report.remedy("average")
    assert isinstance(mended, nn.Module)
    assert et.audit(mended, "D4", X, output, **SETTINGS).verdict == "equivariant"
    function = report.remedy("average", form="function")
    with torch.no_grad():
        np.testing.assert_allclose(mended(torch.from_numpy(X)).numpy(), function(X), atol=1e-6)
    mended(torch.from_numpy(X)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_resampled_inputs_are_averaged_by_matrices() -> None:
    report = et.audit(network(), "C8", X, **SETTINGS)
    mended, function = report.remedy("average"), report.remedy("average", form="function")
    with torch.no_grad():
        np.testing.assert_allclose(mended(torch.from_numpy(X)).numpy(), function(X), atol=1e-6)


def test_keywords_and_several_outputs() -> None:
    class Cloud(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(3, 3)

        def forward(self, positions: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
            centre = (self.head(positions) * mask[..., None]).sum(1)
            return {"vector": centre, "energy": centre[:, :1] ** 2, "extra": None}

    x = {"positions": np.random.default_rng(1).normal(size=(5, 4, 3)).astype(np.float32),
         "mask": np.ones((5, 4), np.float32)}  # fmt: skip
    kinds = {"vector": "vectors", "energy": None}
    reads = {"positions": "vectors", "mask": None}
    report = et.audit(Cloud(), "octahedral", x, kinds, inputs=reads, effort="quick")
    assert report.verdict == "broken"
    mended = report.remedy("average")
    assert et.audit(mended, "octahedral", x, kinds, inputs=reads, effort="quick").verdict == "equivariant"


@pytest.mark.parametrize("dynamic", [True, False])
def test_an_onnx_file_comes_back_with_the_averaging_inside(tmp_path: Path, dynamic: bool) -> None:
    path = tmp_path / "network.onnx"
    export_onnx(network(), (torch.from_numpy(X[:2]),), path, dynamic, ["image"])
    report = et.audit(str(path), "D4", X, **SETTINGS)
    written = report.remedy("average", tmp_path / "averaged.onnx")
    averaged = et.audit(str(written), "D4", X, **SETTINGS)
    assert (report.verdict, averaged.verdict) == ("broken", "equivariant")
    import onnxruntime

    session = onnxruntime.InferenceSession(str(written), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"image": X[:2]})[0], report.remedy("average")(X)[:2], atol=1e-5)


def test_forms_that_a_model_does_not_have() -> None:
    report = et.audit(lambda x: x[:, 0, 0, 0], "C4", X, **SETTINGS)
    for form, why in (("module", "no PyTorch module"), ("onnx", "no ONNX file")):
        with pytest.raises(InvalidTypeError, match=why):
            report.remedy("average", form=form)
    with pytest.raises(InvalidArgumentError, match="expected 'average'"):
        report.remedy("averag")
