"""Models compiled by PyTorch, and outputs of classes of model hubs."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import equitangents as et
from equitangents.audit.adapters.choose import load_model
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError

QUIET = {"layout": "channels_first", "off_data": False, "resamples": 50}
X = np.random.default_rng(0).normal(size=(10, 1, 6, 6)).astype(np.float32)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
    )


def test_a_compiled_module_is_run_compiled_and_shows_the_layers_of_its_own() -> None:
    plain = et.audit(network(), "C4", X, **QUIET)
    seen: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        seen.append(len(inputs))
        return graph.forward

    report = et.audit(torch.compile(network(), backend=backend), "C4", X, **QUIET)
    assert seen
    np.testing.assert_allclose(report.errors, plain.errors, rtol=1e-4)
    assert [layer.name for layer in report.layers.layers] == [layer.name for layer in plain.layers.layers]
    assert report.float_floor.method == "float64"


@pytest.mark.parametrize("how", ["script", "trace"])
def test_torchscript_modules_and_their_files(how: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        net = network().eval()
        program = torch.jit.script(net) if how == "script" else torch.jit.trace(net, torch.from_numpy(X[:2]))
        torch.jit.save(program, tmp_path / "program.pt")
    plain = et.audit(network(), "C4", X, **QUIET)
    for model in (program, load_model(str(tmp_path / "program.pt"))):
        report = et.audit(model, "C4", X, **QUIET)
        np.testing.assert_allclose(report.errors, plain.errors, rtol=1e-4)
        assert "does not show its layers" in next(m.reason for m in report.missing if m.section == "layers")
    torch.save(net, tmp_path / "pickle.pt")
    with pytest.raises(InvalidArgumentError, match="is a pickle"):
        load_model(str(tmp_path / "pickle.pt"))
    with zipfile.ZipFile(tmp_path / "broken.pt", "w") as archive:
        archive.writestr("broken/code/__torch__.py", "class Network(Module):\n  __parameters__ = [")
    with pytest.raises(NetworkError, match=r"expected a program of torch\.jit\.save"):
        load_model(str(tmp_path / "broken.pt"))


def test_files_are_what_they_hold_and_not_what_they_are_called(tmp_path: Path) -> None:
    net = network().eval()
    checkpoint = {"model": net.state_dict(), "optimizer": torch.optim.Adam(net.parameters()).state_dict(), "epoch": 3}
    torch.save(net.state_dict(), tmp_path / "weights.pt")
    torch.save(checkpoint, tmp_path / "checkpoint.pth")
    torch.save(net.state_dict(), tmp_path / "weights.pt2")
    torch.save(net.state_dict(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for name in ("weights.pt", "checkpoint.pth", "weights.pt2", "old.pt"):
        with pytest.raises(InvalidArgumentError, match="not weights alone") as error:
            load_model(str(tmp_path / name))
        assert "\n" not in str(error.value)
        with pytest.raises(InvalidTypeError, match="expected a model, and not its weights"):
            et.audit(load_model(str(tmp_path / name), trust=True), "C4", X, **QUIET)
    program = torch.export.export(net, (torch.from_numpy(X[:2]),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    torch.export.save(program, tmp_path / "program.pt2")
    (tmp_path / "program.pt2").rename(tmp_path / "program.pt")
    plain = et.audit(net, "C4", X, **QUIET)
    assert plain.contract.layout == "channels_first"
    np.testing.assert_allclose(et.audit(str(tmp_path / "program.pt"), "C4", X, **QUIET).errors, plain.errors, rtol=1e-4)
