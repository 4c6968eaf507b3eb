"""A Cholesky factor on disk survives kills and damage, is that of its matrix alone, and needs little memory."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from problems import factorise, positive, shifted, targets

import kills
from equitangents import solvers
from equitangents.errors import StoreError
from equitangents.scale import GramStore
from equitangents.scale.chunks import Chunks
from equitangents.solvers.matrices import as_matrix
from scale.stores import NET, content


@pytest.fixture
def written(monkeypatch):
    """The tiles that are written, in turn."""
    names = []
    write = Chunks.write

    def counting(self, index, values):
        names.append(tuple(index))
        write(self, index, values)

    monkeypatch.setattr(Chunks, "write", counting)
    return names


@pytest.mark.slow
@pytest.mark.parametrize("number", [4, pytest.param(30, marks=pytest.mark.slow)])
def test_killed_factorisations_end_in_the_factor_of_an_undisturbed_one(tmp_path, number, written):
    assert kills.run("solvers.killed_factors", tmp_path / "killed", number) > 0
    resumed = factorise(tmp_path / "killed")
    assert 0 < len(written) < 21 or number > 4  # it went on, and did not begin again
    whole = factorise(tmp_path / "whole")
    assert content(tmp_path / "killed") == content(tmp_path / "whole")
    np.testing.assert_array_equal(resumed.coefficients, whole.coefficients)


def test_a_finished_factor_is_read_and_not_made_again(tmp_path, written):
    first = factorise(tmp_path)
    assert len(written) == len(set(written)) == 21
    second = factorise(tmp_path)
    assert len(written) == 21
    np.testing.assert_array_equal(first.coefficients, second.coefficients)


@pytest.mark.quick(2)
@pytest.mark.parametrize(("kind", "tile"), [("flip", "0/0"), ("cut", "3/1"), ("gone", "5/5")])
def test_a_damaged_tile_is_never_used_and_made_again(tmp_path, kind, tile):
    good = factorise(tmp_path)
    before = content(tmp_path)
    (file,) = tmp_path.glob(f"*/c/{tile}")
    old = file.read_bytes()
    file.write_bytes({"flip": old[:9] + bytes([old[9] ^ 4]) + old[10:], "cut": old[:7], "gone": b""}[kind])
    if kind == "gone":
        file.unlink()
    np.testing.assert_array_equal(factorise(tmp_path).coefficients, good.coefficients)
    assert content(tmp_path) == before


def test_factors_of_different_matrices_and_ridges_do_not_mix(tmp_path):
    y = targets(20, 1)
    for matrix in (positive(20, 10), positive(20, 10, seed=7)):
        for ridge in (0.0, 0.1):
            how = solvers.OutOfCore(path=tmp_path, tile=8)
            found = solvers.solve(matrix, y, ridge=ridge, solver=how).coefficients
            np.testing.assert_allclose(shifted(matrix, ridge) @ found, y, atol=1e-9)
    assert len(list(tmp_path.iterdir())) == 4


def test_a_store_has_its_factor_beside_it_and_one_that_grew_another(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(21, 3)), targets(21, 2)
    for rows in (15, 21):
        store = GramStore(tmp_path / "k.zarr", NET, x[:rows], tile=6).compute()
        found = solvers.solve(store, y[:rows], ridge=1e-3, solver=solvers.OutOfCore(tile=5)).coefficients
        np.testing.assert_allclose(shifted(np.asarray(store.ntk[:]), 1e-3) @ found, y[:rows], atol=1e-9)
    assert len(list((tmp_path / "k.zarr.factors").iterdir())) == 2


@pytest.mark.slow
def test_memory_is_that_of_a_row_of_content(tmp_path):
    n, side = 320, 40
    np.save(tmp_path / "theta.npy", positive(n, 100))
    theta = np.load(tmp_path / "theta.npy", mmap_mode="r")
    how = solvers.OutOfCore(path=tmp_path / "factor", tile=side)
    small = solvers.solve(theta[:60, :60], targets(60, 1), solver=how)  # what is imported at first use
    assert small.report.residual < 1e-9
    matrix = as_matrix(theta)
    matrix.tile = side
    tracemalloc.start()
    solution = solvers.solve(matrix, targets(n, 1), solver=how)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 2 * solution.report.forecast_memory < 8 * n * n
    np.testing.assert_allclose(theta @ solution.coefficients, targets(n, 1), atol=1e-8)


def test_a_disk_without_room_is_said_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(total=10, used=9, free=1))
    with pytest.raises(StoreError, match=r"the disk has 1 B left; make room"):
        factorise(tmp_path)
    monkeypatch.undo()
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        factorise(tmp_path / "file")
