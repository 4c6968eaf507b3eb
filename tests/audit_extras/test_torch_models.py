"""PyTorch modules and exported programs: controls at the floor, and every flaw found in the layer where it is."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
import torch
from torch import nn
from torch_networks import BREAKS, break_one, c4_network, export_program

import equitangents as et
from equitangents.audit.adapters import as_model
from equitangents.audit.adapters.choose import load_model
from equitangents.errors import InvalidArgumentError, NetworkError

QUIET = {"off_data": False, "resamples": 200}
FIRST = {"layout": "channels_first", **QUIET}


def images(seed: int, n: int = 30, size: int = 12) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 1, size, size)).astype(np.float32)


@pytest.mark.parametrize("seed", range(2))
def test_a_c4_invariant_network_is_at_the_floor(seed: int) -> None:
    torch.manual_seed(seed)
    report = et.audit(c4_network(depth=2 + seed), "C4", images(seed), **FIRST)
    assert (report.verdict, report.float_floor.method, report.layers.guilty) == ("equivariant", "float64", None)
    assert report.model.deterministic


@pytest.mark.parametrize("case", [0, 5, 6, 3])
def test_the_guilty_layer_is_named(case: int) -> None:
    torch.manual_seed(case)
    network = c4_network(depth=2 + case % 3)
    how = BREAKS[case % 4]
    guilty = break_one(network, how, case // 4)
    report = et.audit(network, "C4", images(case), **FIRST)
    assert report.layers.guilty == guilty
    if how == "dropout":
        assert not report.model.deterministic
        assert (report.verdict, report.reason, report.layers.reason) == ("undecided", "noise", "random")
    else:
        assert report.model.deterministic
        assert report.verdict == "broken"
        assert report.layers.guilty == guilty


def test_operations_between_layers_are_found() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.ReLU(), nn.Tanh()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            x = x * torch.arange(x.shape[-1])  # no module
            return self.second(x).mean((1, 2, 3))[:, None] + 1

    section = et.audit(Shifted(), "C4", images(1), **FIRST).layers
    assert (section.guilty, section.reason) == ("second", "outside")


def test_modules_stay_in_their_mode_and_are_evaluated_in_evaluation_mode() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 2))
    network.train()
    network[1].eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    report = et.audit(network, "C4", images(2, size=4), **FIRST)
    assert report.model.deterministic
    assert report.model.batch_independent
    assert [m.training for m in network] == [True, False, True, True]
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    network.eval()
    x = torch.from_numpy(images(2, size=4))
    with torch.no_grad():
        moved, start = network(torch.rot90(x, 1, (2, 3))), network(x)
    literal = (moved - start).norm(dim=1) / start.norm(dim=1)
    np.testing.assert_allclose(report.errors[0], literal.numpy(), rtol=1e-4)
    assert all(p.grad is None for p in network.parameters())


def test_layouts_of_modules_are_read_and_never_guessed() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    read = et.audit(net, "C4", images(0), effort="quick", **QUIET)
    given = et.audit(net, "C4", images(0), effort="quick", layout="channels_first", **QUIET)
    assert read.contract.layout == "channels_first"
    np.testing.assert_allclose(read.errors, given.errors, rtol=1e-3, atol=1e-6)
    with pytest.raises(InvalidArgumentError, match="is ambiguous"):
        et.audit(c4_network(), "C4", np.zeros((5, 8, 8, 8), np.float32), **QUIET)


def test_several_inputs_and_outputs() -> None:
    class Forces(nn.Module):
        def forward(self, positions: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
            apart = positions[:, :, None] - positions[:, None]
            weights = torch.exp(-(apart**2).sum(-1, keepdim=True)) * mask[:, None, :, None] * mask[:, :, None, None]
            return {"energy": weights.sum((1, 2, 3)) + 1, "forces": (apart * weights).sum(2)}

    rng = np.random.default_rng(3)
    x = (rng.normal(size=(20, 5, 3)).astype(np.float32), np.ones((20, 5), np.float32))
    outputs = {"energy": None, "forces": "vectors"}
    settings = {"inputs": ("vectors", None), **QUIET}
    assert et.audit(Forces(), "O3", x, outputs, **settings).verdict == "equivariant"
    by_name = {"positions": x[0], "mask": x[1]}
    settings["inputs"] = {"positions": "vectors", "mask": None}
    assert et.audit(Forces(), "O3", by_name, outputs, **settings).verdict == "equivariant"
    tensors = tuple(map(torch.from_numpy, x))
    assert et.audit(Forces(), "SO3", tensors, outputs, inputs=("vectors", None), **QUIET).verdict == "equivariant"


def test_lists_of_modules_are_ensembles() -> None:
    torch.manual_seed(0)
    members = [nn.Sequential(nn.Flatten(), nn.Linear(16, 1), nn.Dropout(0.5)).train() for _ in range(8)]
    report = et.audit(members, "C4", images(4, size=4), **FIRST)
    assert (report.model.kind, report.ensemble.members, report.layers.guilty) == ("members", 8, "1")
    assert report.model.deterministic
    assert all(m.training for member in members for m in member.modules())


def exported(module: nn.Module, dynamic: bool = True) -> bytes:
    buffer = io.BytesIO()
    export_program(module, (torch.from_numpy(images(0, n=4)),), buffer, dynamic)
    return buffer.getvalue()


@pytest.mark.parametrize("dynamic", [True, False])
def test_exported_programs(tmp_path, dynamic: bool) -> None:
    torch.manual_seed(5)
    network = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(300, 4))
    path = tmp_path / "network.pt2"
    path.write_bytes(exported(network, dynamic))
    x = images(5)
    report = et.audit(str(path), "C4", x, **FIRST)
    literal = et.audit(network, "C4", x, **FIRST)
    np.testing.assert_allclose(report.errors, literal.errors, rtol=1e-4)
    assert report.float_floor.method == "perturbation"
    assert [layer.name for layer in report.layers.layers] == [layer.name for layer in literal.layers.layers]
    if dynamic:  # else the program takes batches of 4, and its layers see no more inputs
        found, expected = ([layer.error for layer in r.layers.layers] for r in (report, literal))
        np.testing.assert_allclose(found, expected, atol=1e-4)


def with_entry(archive: bytes, stem: str, content: bytes) -> bytes:
    """The archive with the content of one entry replaced."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(result, "w") as new:
        for name in old.namelist():
            new.writestr(name, content if name.endswith(stem) else old.read(name))
    return result.getvalue()


class Surprise:
    """What a malicious pickle does when it is loaded."""

    def __reduce__(self):
        return (print, ("this must not be run",))


def test_exported_programs_with_pickles_inside_are_refused(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    good = exported(nn.Sequential(nn.Flatten(), nn.Linear(144, 2)))
    buffer = io.BytesIO()
    torch.save([Surprise()], buffer)
    path = tmp_path / "bad.pt2"
    path.write_bytes(with_entry(good, "sample_inputs/model.pt", buffer.getvalue()))
    with pytest.raises(InvalidArgumentError, match=r"sample_inputs/model\.pt.*pickle"):
        load_model(str(path))
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        name = next(n for n in archive.namelist() if n.endswith("weights_config.json"))
        config = archive.read(name).replace(b'"use_pickle": false', b'"use_pickle": true', 1)
    path.write_bytes(with_entry(good, "weights_config.json", config))
    with pytest.raises(InvalidArgumentError, match="weights_config"):
        load_model(str(path))
    path.write_bytes(b"no archive")
    with pytest.raises(NetworkError, match="it is no archive"):
        load_model(str(path))
    assert "must not be run" not in capsys.readouterr().out
    pickled = tmp_path / "whole.pt"
    torch.save(nn.Linear(2, 2), pickled)
    with pytest.raises(InvalidArgumentError, match="--trust"):
        load_model(str(pickled))
    assert isinstance(load_model(str(pickled), trust=True), nn.Linear)


def test_double_precision_is_that_of_a_copy() -> None:
    torch.manual_seed(0)
    network, x = c4_network(depth=2), images(0).astype(np.float64)
    found = as_model(network).double()(x)
    assert found.dtype == torch.float64
    assert {p.dtype for p in network.parameters()} == {torch.float32}
    np.testing.assert_allclose(found, network.double()(torch.from_numpy(x)).detach(), rtol=1e-12)
