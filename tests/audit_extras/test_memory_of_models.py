"""Batches of planned memory: what models hold is counted, doubled layer by layer, and folded."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch_networks import export_onnx

import equitangents as et
from equitangents.audit.adapters import as_model
from equitangents.audit.adapters.choose import load_model
from equitangents.audit.adapters.folding import Folder
from equitangents.audit.adapters.torch_memory import layerwise

X = np.random.default_rng(0).normal(size=(9, 1, 8, 8)).astype(np.float32)


def network() -> nn.Module:
    torch.manual_seed(0)
    parts = [nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)]
    return nn.Sequential(*parts)


def test_activations_that_are_alive_at_once_are_counted() -> None:
    found = as_model(network()).footprint(X[:1])
    features = 4 * 8 * 8 * 4  # the convolution's output, and beside it that of the ReLU
    assert found.weights == 4 * (4 * 9 + 4 + 8 + 2)
    assert found.activations == 2 * features


def test_counting_activations_leaves_the_compiler_of_pytorch_unloaded() -> None:
    """Loading it takes longer than the audit of a small model."""
    script = (
        "import sys, numpy as np, torch\n"
        "from equitangents.audit.adapters import as_model\n"
        "model = as_model(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()))\n"
        "assert model.footprint(np.ones((1, 3), np.float32)).activations == 2 * 2 * 4\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_files_are_counted_as_modules_are(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    export_onnx(network(), (torch.from_numpy(X[:2]),), path, True, ["image"])
    features = 4 * 8 * 8 * 4
    assert load_model(str(path)).footprint(X[:1]).activations == 2 * features


def test_batches_are_as_large_as_the_planned_memory_allows() -> None:
    class Wide(nn.Module):
        """2 MB of activations an input, and no weights to speak of."""

        largest = 0

        def __init__(self) -> None:
            super().__init__()
            self.gain = nn.Parameter(torch.ones(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            Wide.largest = max(Wide.largest, len(x))
            return (self.gain * x.sum((1, 2, 3))[:, None].repeat(1, 2**19)).mean(1, keepdim=True)

    x = np.random.default_rng(0).normal(size=(40, 1, 4, 4)).astype(np.float32)
    report = et.audit(Wide(), "C4", x, layout="channels_first", effort="quick")
    assert report.settings.batch_size == Wide.largest < 40
    assert report.timing.activations <= 2**26
    assert report.timing.parts["planning batches"] == 1
    assert report.settings.batch_size == Wide.largest
    given = et.audit(Wide(), "C4", x, layout="channels_first", effort="quick", batch_size=5)
    assert (given.settings.batch_size, given.timing.activations) == (5, None)


def test_double_precision_is_made_for_one_layer_at_a_time() -> None:
    model, wide = network(), []
    before = {name: value.clone() for name, value in model.state_dict().items()}

    def look(module: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        wide.append([p.dtype for p in model.parameters()].count(torch.float64))

    model[0].register_forward_hook(look)
    model[4].register_forward_hook(look)
    found = as_model(model).double()(X.astype(np.float64))
    assert max(wide) == 2  # weight and bias of that layer alone
    twin = copy.deepcopy(network()).double()
    np.testing.assert_array_equal(found, twin(torch.from_numpy(X.astype(np.float64))).detach())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_weights_come_back_after_an_error() -> None:
    model = network()
    with pytest.raises(RuntimeError), layerwise(model):
        model(torch.zeros(1, 5, 8, 8, dtype=torch.float64))
    assert all(p.dtype == torch.float32 and isinstance(p, nn.Parameter) for p in model.parameters())


def test_weights_that_another_module_reads_are_made_double_in_a_copy() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(self.layer(x), self.layer.weight)

    x = np.random.default_rng(1).normal(size=(4, 3))
    assert as_model(Tied()).double()(x).dtype == torch.float64


def test_layers_of_files_are_folded_within_the_graph(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    export_onnx(network(), (torch.from_numpy(X[:2]),), path, True, ["image"])
    model = load_model(str(path))
    whole, folded = model.trace(X), model.trace(X, Folder())
    assert [t.name for t in whole] == [t.name for t in folded]
    for a, b in zip(whole, folded, strict=True):
        expected = Folder()(a.outputs)
        assert (b.outputs.shape, b.outputs.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(b.outputs.gram, expected.gram, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(b.outputs.sample, expected.sample, rtol=1e-4, atol=1e-6)
