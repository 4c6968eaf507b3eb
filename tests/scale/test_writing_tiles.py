"""Tiles are named when all of their files are on disk, and take long enough."""

from __future__ import annotations

import os

import numpy as np
import pytest
from stores import store

from equitangents import nn
from equitangents.errors import StoreError
from equitangents.kernels.result import Kernels
from equitangents.scale.chunks import side_of_tile


def test_every_file_of_a_tile_gets_its_name_on_disk_those_of_its_own_place_after_their_mirrors(tmp_path, monkeypatch):
    fresh, calls = store(tmp_path / "k"), []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, real=real: (calls.append((name, str(a[-1]))), real(*a))[-1])
    fresh._work.tiles.write((0, 1), fresh._work.values((0, 1)))
    assert [name for name, _ in calls] == ["fsync", "replace"] * 4
    ends = [path[-len("nngp/c/1/0") :].lstrip("/") for _, path in calls[1::2]]
    assert ends == ["nngp/c/1/0", "nngp/c/0/1", "ntk/c/1/0", "ntk/c/0/1"]


def test_a_kernel_that_is_not_finite_is_not_kept(tmp_path, monkeypatch):
    fresh, kernel = store(tmp_path / "k"), nn.Sequential.kernel

    def without_one(self, x1, x2=None):
        found = kernel(self, x1, x2)
        return Kernels(found.nngp, np.where(np.arange(len(x1))[:, None] == 1, np.inf, found.ntk), engine=found.engine)

    monkeypatch.setattr(nn.Sequential, "kernel", without_one)
    with pytest.raises(StoreError, match=r"tile \(\d, \d\) holds 'NaN or infinite values'"):
        fresh.compute()
    assert fresh.missing == len(fresh.tiles)


def test_tiles_of_fast_kernels_are_larger(tmp_path):
    fast = nn.Sequential(nn.Dense(1), nn.Relu(), nn.Dense(1))
    slow = nn.Sequential(*(nn.Conv(1, 3), nn.Relu()) * 3, nn.GlobalAvgPool(), nn.Dense(1))
    dtype = np.dtype("float32")
    assert [side_of_tile(slow, (16, 16, 3), dtype, n) for n in (5, 10_000, 50_000)] == [64, 625, 1000]
    assert [side_of_tile(fast, (3,), dtype, *sizes) for sizes in ((2000,), (2100,), (1600, 10))] == [2000, 1050, 100]
    assert store(tmp_path / "k", rows=70, tile=None).tile == 70
