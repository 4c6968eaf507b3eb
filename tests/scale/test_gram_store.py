"""A Gram matrix on disk is the network's kernel, knows what it is, refuses all else, and grows."""

from __future__ import annotations

import shutil
import sys

import numpy as np
import pytest
import zarr
from stores import content

import equitangents as et
from equitangents import nn
from equitangents.ensembles import predict_to_file
from equitangents.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    MissingLibraryError,
    NotFiniteError,
    ShapeError,
    StoreError,
)
from equitangents.kernels.result import Kernels
from equitangents.scale import GramStore
from equitangents.scale.record import Record
from equitangents.solvers import OutOfCore, solve

NET = nn.Sequential(nn.Dense(1, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1))
X = np.random.default_rng(0).normal(size=(11, 3))


def same(store, net=NET, x1=X, x2=None):
    kernels = net.kernel(x1, x2)
    for name in ("ntk", "nngp"):
        np.testing.assert_allclose(getattr(store, name)[:], getattr(kernels, name), rtol=1e-12)


@pytest.fixture
def counted(monkeypatch):
    """The shapes of all kernels that are computed."""
    shapes = []
    kernel = nn.Sequential.kernel

    def counting(self, x1, x2=None, engine=None):
        shapes.append((len(x1), None if x2 is None else len(x2)))
        return kernel(self, x1, x2, engine)

    monkeypatch.setattr(nn.Sequential, "kernel", counting)
    return shapes


class TestValues:
    @pytest.mark.parametrize("tile", [3, 64])
    def test_are_those_of_the_network_for_any_tile(self, tmp_path, tile):
        store = GramStore(tmp_path / "k", NET, X, tile=tile).compute()
        same(store)
        assert store.missing == 0
        assert store.array.shape == store.shape == (11, 11)

    @pytest.mark.parametrize("columns", [2, 9])
    def test_of_a_rectangular_matrix_too(self, tmp_path, columns):
        other = X[:columns] + 1
        same(GramStore(tmp_path / "k", NET, X, other, tile=4).compute(), x2=other)

    def test_are_computed_in_the_inputs_precision_or_the_one_asked_for(self, tmp_path):
        one = GramStore(tmp_path / "one", NET, X.astype(np.float32)).compute()
        two = GramStore(tmp_path / "two", NET, X, precision="float32").compute()
        assert one.ntk.dtype == two.ntk.dtype == np.float32
        np.testing.assert_array_equal(one.ntk[:], two.ntk[:])

    def test_of_images_and_of_an_orbit_average(self, tmp_path):
        x = np.random.default_rng(1).normal(size=(5, 4, 4, 1))
        net = nn.Sequential(nn.Conv(1, 3), nn.Relu(), nn.Flatten(), nn.Dense(1))
        mean = et.kernels.orbit_average(net, et.actions.image_rotations(4))
        kernels = mean.kernel(x)
        store = GramStore(tmp_path / "k", mean, x, tile=2).compute()
        np.testing.assert_allclose(store.ntk[:], kernels.ntk, rtol=1e-10, atol=1e-12)

    def test_can_be_read_by_whatever_reads_zarr(self, tmp_path):
        GramStore(tmp_path / "k", NET, X, tile=4).compute()
        group = zarr.open_group(tmp_path / "k", mode="r")
        assert sorted(name for name, _ in group.members()) == ["nngp", "ntk", "x1"]
        np.testing.assert_allclose(group["ntk"][:], NET.kernel(X).ntk, rtol=1e-12)
        np.testing.assert_array_equal(group["x1"][:], X)

    def test_that_are_not_computed_yet_are_nan(self, tmp_path):
        store = GramStore(tmp_path / "k", NET, X, tile=4).compute(shard=(0, 2))
        assert 0 < np.isnan(store.ntk[:]).sum() < store.ntk.size
        assert store.missing == 3

    def test_of_memory_maps_and_zarr_arrays_are_those_of_arrays(self, tmp_path):
        np.save(tmp_path / "x.npy", X)
        kept = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(3, 3))
        for i, x in enumerate((np.load(tmp_path / "x.npy", mmap_mode="r"), kept, X.tolist())):
            same(GramStore(tmp_path / f"k{i}", NET, x).compute())


class TestWhatIsComputed:
    def test_is_one_half_of_a_symmetric_matrix(self, tmp_path, counted):
        GramStore(tmp_path / "k", NET, X, tile=4).compute()
        assert sorted(counted, key=str) == sorted([(4, None), (4, 4), (4, 3), (4, None), (4, 3), (3, None)], key=str)

    def test_is_nothing_where_all_is_there(self, tmp_path, counted):
        GramStore(tmp_path / "k", NET, X, tile=4).compute()
        counted.clear()
        same_store = GramStore(tmp_path / "k", NET, X).compute()
        assert (counted, same_store.tile) == ([], 4)

    def test_is_everything_again_without_resuming(self, tmp_path, counted):
        store = GramStore(tmp_path / "k", NET, X, tile=4).compute()
        counted.clear()
        store.compute(resume=False)
        assert len(counted) == 6
        same(store)

    def test_is_what_is_new_where_rows_were_added(self, tmp_path, counted):
        GramStore(tmp_path / "k", NET, X[:6], tile=4).compute()
        counted.clear()
        store = GramStore(tmp_path / "k", NET, X).compute()
        assert sorted(counted, key=str) == [(3, None), (4, 3), (4, 3), (4, 4), (4, None)]
        same(store)
        GramStore(tmp_path / "whole", NET, X, tile=4).compute()
        there, whole = content(tmp_path / "k"), content(tmp_path / "whole")
        assert {name: whole[name] for name in whole if "/c/" in name} == {n: there[n] for n in there if "/c/" in n}

    def test_is_the_same_for_rows_added_before_and_after_computing(self, tmp_path):
        GramStore(tmp_path / "one", NET, X[:6], tile=4).compute()
        GramStore(tmp_path / "two", NET, X[:6], tile=4)
        one, two = (GramStore(tmp_path / name, NET, X).compute() for name in ("one", "two"))
        np.testing.assert_array_equal(one.ntk[:], two.ntk[:])

    def test_of_added_columns_is_what_is_new(self, tmp_path, counted):
        GramStore(tmp_path / "k", NET, X[:5], X[:3] + 1, tile=2).compute()
        counted.clear()
        store = GramStore(tmp_path / "k", NET, X, X[:7] + 1).compute()
        assert sum(n * m for n, m in counted) == 11 * 7 - 4 * 2  # tiles that grew are computed whole
        same(store, x2=X[:7] + 1)

    def test_by_all_shards_is_the_whole(self, tmp_path, counted):
        for i in range(3):
            store = GramStore(tmp_path / "k", NET, X, tile=3).compute(shard=(i, 3))
        assert len(counted) == len(store.tiles) == 10
        same(store)

    def test_is_told_with_the_time_that_is_left(self, tmp_path):
        calls = []
        GramStore(tmp_path / "k", NET, X, tile=4).compute(progress=lambda *now: calls.append(now))
        assert [there for there, _, _ in calls] == [1, 2, 3, 4, 5, 6]
        assert all(total == 6 and left >= 0 for _, total, left in calls)
        assert calls[-1][2] == 0


class TestIsRefused:
    @pytest.fixture
    def path(self, tmp_path):
        GramStore(tmp_path / "k", NET, X, tile=4).compute(shard=(0, 3))
        return tmp_path / "k"

    @pytest.mark.parametrize(
        ("net", "x", "options", "name"),
        [
            (nn.Sequential(nn.Dense(1, W_std=1.4, b_std=0.1), nn.Relu(), nn.Dense(1)), X, {}, "network"),
            (NET, X + 1e-15, {}, "x1"),
            (NET, X[:6], {}, "x1"),
            (NET, np.concatenate([X[::-1], X]), {}, "x1"),
            (NET, X[:, :2], {}, "shape of a row of x1"),
            (NET, X.astype(np.float32), {}, "precision"),
            (NET, X, {"tile": 5}, "tile"),
            (NET, X, {"x2": X}, "x2"),
        ],
    )
    def test_a_store_of_another_problem(self, path, net, x, options, name):
        with pytest.raises(StoreError, match=r"is of another problem, .*: give another path") as error:
            GramStore(path, net, x, **options)
        assert error.value.argument == name

    def test_a_store_of_another_engine_or_version(self, path, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setenv("EQUITANGENTS_ENGINE", "reference")
            with pytest.raises(StoreError, match="engine is 'reference'; expected"):
                GramStore(path, NET, X)
        monkeypatch.setattr(Record.__init__, "__defaults__", ("99.0", *Record.__init__.__defaults__[1:]))
        with pytest.raises(StoreError, match=r"version is \('99\.0'"):
            GramStore(path, NET, X)

    def test_a_worker_of_another_version_or_engine(self, path, monkeypatch):
        store = GramStore(path, NET, X)
        with monkeypatch.context() as patch:
            patch.setattr("equitangents.scale.gram.__version__", "99.0")
            with pytest.raises(StoreError, match=r"worker runs version and numbers \('99\.0"):
                store.compute()
        shown = lambda self, x1, x2=None: Kernels(np.ones((9, 9)), np.ones((9, 9)), engine="other")
        monkeypatch.setattr(nn.Sequential, "kernel", shown)
        with pytest.raises(StoreError, match="engine is 'other'"):
            store.compute()

    def test_a_store_that_was_replaced_since(self, path):
        store = GramStore(path, NET, X)
        shutil.rmtree(path)
        with pytest.raises(StoreError, match="a folder that this worker sees"):
            store.compute()
        GramStore(path, NET, X + 1, tile=4)
        with pytest.raises(StoreError, match="expected the one that was opened"):  # the path says "replaced", too
            store.compute()

    def test_a_folder_that_holds_something_else(self, tmp_path):
        (tmp_path / "thesis.tex").write_text("mine")
        with pytest.raises(StoreError, match="expected a store of equitangents"):
            GramStore(tmp_path, NET, X)
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]

    def test_bad_input(self, tmp_path):
        path = tmp_path / "k"
        with pytest.raises(ShapeError, match="x1 has shape"):
            GramStore(path, NET, X[:, 0])
        with pytest.raises(ShapeError, match=r"x2 has shape \(\d+, 2\); expected \(N, 3\)"):
            GramStore(path, NET, X, X[:, :2])
        with pytest.raises(NotFiniteError, match="x1"):
            GramStore(path, NET, np.where(X > 1, np.nan, X))
        with pytest.raises(InvalidTypeError, match="net is"):
            GramStore(path, lambda x: x, X)
        with pytest.raises(InvalidTypeError, match="tile"):
            GramStore(path, NET, X, tile=2.5)
        with pytest.raises(InvalidArgumentError, match="precision is 'float16'"):
            GramStore(path, NET, X, precision="float16")
        assert not path.exists()
        store = GramStore(path, NET, X)
        for shard in ((2, 2), (0, 0), (-1, 3)):
            with pytest.raises(InvalidArgumentError, match="shard"):
                store.compute(shard=shard)
        for executor in (3.5, True, lambda x: x):
            with pytest.raises(InvalidTypeError, match="executor is"):
                store.compute(executor=executor)
        with pytest.raises(InvalidArgumentError, match="executor is 0"):
            store.compute(executor=0)

    def test_a_tile_that_does_not_fit_into_memory(self, tmp_path):
        with pytest.raises(et.errors.MemoryLimitError, match="smaller tile"):
            GramStore(tmp_path / "k", NET, X, tile=10**7)

    def test_a_disk_without_room(self, path, monkeypatch):
        free = type("Usage", (), {"free": 100})
        monkeypatch.setattr("shutil.disk_usage", lambda path: free)
        with pytest.raises(StoreError, match="the disk has 100 B left"):
            GramStore(path, NET, X).compute()


def test_without_its_extra_an_error_of_one_line_says_what_to_install_before_anything_is_made(tmp_path, monkeypatch):
    model = et.InfiniteEnsemble(NET, ridge=1e-3).fit(X, X[:, :1])
    factor = OutOfCore(path=tmp_path / "factor")
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    for work in (lambda: GramStore(tmp_path / "k", NET, X), lambda: solve(np.eye(3), np.ones((3, 1)), solver=factor)):
        with pytest.raises(MissingLibraryError, match=r"pip install 'equitangents\[scale\]'"):
            work()
    predict_to_file(model, X, tmp_path / "p.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["p.npy"]
