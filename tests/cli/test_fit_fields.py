"""`equitangents fit` and `predict` with targets, or labels, at every position of the inputs."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import zarr

import equitangents as et

RNG = np.random.default_rng(1)
X, Y, NEW = RNG.normal(size=(4, 3, 3, 1)), RNG.normal(size=(4, 3, 3, 2)), RNG.normal(size=(2, 3, 3, 1))
LABELS = (X[..., 0] > 0) + 3
NET = et.nn.Sequential(et.nn.Conv(1, (3, 3)), et.nn.Relu(), et.nn.Conv(1, (3, 3)))
LAYERS = [{"layer": "Conv", "channels": 1, "window": [3, 3]}, {"layer": "Relu"}]


@pytest.fixture
def run(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("fields.npz", x=X, y=Y)
    np.savez("labels.npz", x=X, y=LABELS)
    np.save("new.npy", NEW)
    (tmp_path / "net.json").write_text(json.dumps([*LAYERS, LAYERS[0]]))

    def call(*arguments):
        status, out, err = command(*arguments)
        assert status == 0, err
        return out

    return call


def shown(out: str) -> dict[str, str]:
    """The table of labels and values."""
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in out.splitlines() if "  " in line)


FIT = ("fit", "--net", "net.json", "--ridge", 1e-2)


def test_fields_are_fitted_and_predicted(run):
    out = run(*FIT, "--data", "fields.npz", "--out", "model", "--store", "kernels")
    expected = {"Model": "model", "Samples": "4", "Outputs": "2", "Positions": "3×3"}
    assert expected.items() <= shown(out).items()
    assert shown(out)["Solved as"].startswith("dense NP×NP")
    run("predict", "model", "--data", "new.npy", "--out", "p.npz", "--std")
    mean, std = et.InfiniteEnsemble(NET, ridge=1e-2, standardise=True).fit(X, Y).predict(NEW, return_std=True)
    with np.load("p.npz") as held:
        assert not np.max(np.abs(held["mean"] - mean)) > 1e-9
        assert not np.max(np.abs(held["std"] - std)) > 1e-9
    assert zarr.open("kernels", mode="r")["ntk"].shape == (36, 36)


def test_whole_numbers_at_every_position_are_labels(run):
    out = run(*FIT, "--data", "labels.npz", "--out", "model")
    assert shown(out)["Classes"] == "2"
    assert shown(out)["Labels of left-out samples that are right"].endswith("%")
    run("predict", "model", "--data", "new.npy", "--out", "p.npy")
    expected = et.InfiniteEnsembleClassifier(NET, ridge=1e-2, standardise=True).fit(X, LABELS).predict(NEW)
    np.testing.assert_array_equal(np.load("p.npy"), expected)
    out = run(*FIT, "--data", "labels.npz", "--out", "model", "--task", "regression")
    assert shown(out)["Outputs"] == "1"
