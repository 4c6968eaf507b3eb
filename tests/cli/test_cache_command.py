"""`equitangents cache` says what is kept, and removes it."""

from __future__ import annotations

import numpy as np
import pytest

from equitangents import nn
from equitangents.cli.main import main
from equitangents.kernels import KeptKernel


def said(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(["cache", *arguments])
    assert not stop.value.code
    return capsys.readouterr().out


def test_what_is_kept_and_its_end(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("EQUITANGENTS_CACHE", str(tmp_path))
    assert said(capsys).startswith("0 files of kernels, 0 B of at most 5 GB, in ")
    KeptKernel(nn.Sequential(nn.Dense(1), nn.Relu(), nn.Dense(1))).kernel(np.eye(3))
    assert said(capsys).startswith("1 file of kernels, ")
    assert said(capsys, "--clear").startswith("removed 1 file, ")
    assert said(capsys).startswith("0 files of kernels")
    assert not list(tmp_path.glob("kernels/*"))
