"""`equitangents cache` says what is kept, and removes it."""

from __future__ import annotations

import numpy as np

from equitangents import nn
from equitangents.kernels import KeptKernel


def test_what_is_kept_and_its_end(command, tmp_path, monkeypatch):
    def said(*arguments):
        status, out, _ = command("cache", *arguments)
        assert status == 0
        return out

    monkeypatch.setenv("EQUITANGENTS_CACHE", str(tmp_path))
    assert said().startswith("0 files of kernels, 0 B of at most 5 GB, in ")
    KeptKernel(nn.Sequential(nn.Dense(1), nn.Relu(), nn.Dense(1))).kernel(np.eye(3))
    assert said().startswith("1 file of kernels, ")
    assert said("--clear").startswith("removed 1 file, ")
    assert said().startswith("0 files of kernels")
    assert not list(tmp_path.glob("kernels/*"))
