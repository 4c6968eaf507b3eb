"""Stores and predictions in object stores: the bytes of a folder, few requests, kills, damage and URLs of no store."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import stores
import zarr
from zarr.storage import ObjectStore

import equitangents as et
from equitangents.ensembles import predict_to_file
from equitangents.errors import InvalidArgumentError, MissingLibraryError, StoreError
from equitangents.scale import GramStore, place, record
from equitangents.scale.gram import each_computed
from equitangents.scale.reading import read_inputs

K = "s3://bucket/some/k.zarr"
X = np.random.default_rng(0).normal(size=(22, 3))
MODEL = et.InfiniteEnsemble(stores.NET, ridge=1e-3).fit(X, X[:, 0])


class TestAStore:
    def test_holds_the_bytes_of_a_folder(self, bucket, tmp_path):
        there, here = stores.store(K).compute(), stores.store(tmp_path / "k").compute()
        assert bucket.content("some/k.zarr") == stores.content(tmp_path / "k")
        assert there.missing == 0
        np.testing.assert_array_equal(there.ntk[:], here.ntk[:])

    @pytest.mark.slow
    def test_on_a_server_of_s3(self, s3, tmp_path):
        from s3 import content

        there = stores.store(K, rows=9).compute()
        stores.store(tmp_path / "k", rows=9).compute()
        assert content("some/k.zarr") == stores.content(tmp_path / "k")
        assert there.missing == 0
        np.testing.assert_array_equal(there.ntk[:3], np.asarray(stores.NET.kernel(X[:9]).ntk)[:3])
        at = place.place("path", K) / "ntk/c/0/1"
        at.write_bytes(at.read_bytes()[:-1] + b"x")
        there.compute(check=True)
        assert content("some/k.zarr") == stores.content(tmp_path / "k")
        new = place.ObjectPath("s3://bucket", "new")
        new.write_bytes(b"one", once=True)
        with pytest.raises(FileExistsError):
            new.write_bytes(b"two", once=True)
        assert new.read_bytes() == b"one"
        with pytest.raises(StoreError, match="bucket does not exist") as error:
            stores.store("s3://elsewhere/k")
        assert "\n" not in str(error.value)

    def test_to_which_rows_would_be_added_is_refused_and_stays(self, bucket):
        stores.store(K, rows=10).compute()
        before = bucket.content("some/k.zarr")
        with pytest.raises(StoreError, match="an object store has no locks: add rows to a store in a folder"):
            stores.store(K)
        assert bucket.content("some/k.zarr") == before

    def test_of_another_problem_is_refused_and_stays(self, bucket):
        stores.store(K).compute()
        before = bucket.content("some/k.zarr")
        with pytest.raises(StoreError, match="other values"):
            GramStore(K, stores.NET, X + 1, tile=4)
        bucket.put("some/other/thing", b"mine")
        with pytest.raises(StoreError, match="expected a store of equitangents"):
            GramStore("s3://bucket/some/other", stores.NET, X)
        assert bucket.content("some/k.zarr") == before

    def test_that_was_made_in_part_is_completed(self, bucket):
        stores.store(K).compute()
        whole = bucket.content("some/k.zarr")
        rng = np.random.default_rng(0)
        for _ in range(2):
            for name in whole:
                if name != "zarr.json" and rng.random() < 0.5:
                    bucket.delete(f"some/k.zarr/{name}")
            stores.store(K).compute()
            assert bucket.content("some/k.zarr") == whole

    def test_with_a_damaged_object_says_so(self, bucket):
        there = stores.store(K).compute()
        bucket.put("some/k.zarr/x1/c/0/0", b"?" * 100)
        with pytest.raises(StoreError, match="expected undamaged inputs"):
            there.compute(resume=False)
        bucket.put("some/k.zarr/zarr.json", b"{")
        assert stores.store(K).shape == (22, 22)  # from a copy of the record
        assert bucket.content("some/k.zarr")["zarr.json"] != b"{"
        for name in ("zarr.json", "ntk/zarr.json", "nngp/zarr.json"):
            bucket.put(f"some/k.zarr/{name}", b"{")
        with pytest.raises(StoreError, match="with an undamaged record"):
            stores.store(K)

    def test_that_is_made_between_two_looks_is_found(self, bucket, monkeypatch):
        look = record._is_taken

        def made_meanwhile(path):
            monkeypatch.setattr(record, "_is_taken", look)
            stores.store(K)
            return look(path)

        monkeypatch.setattr(record, "_is_taken", made_meanwhile)
        assert stores.store(K).compute().missing == 0

    def test_is_made_once_and_computed_by_two(self, bucket, tmp_path):
        with ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(lambda: stores.store(K).compute().missing) for _ in range(2)]
        stores.store(tmp_path / "k").compute()
        assert [run.result() for run in runs] == [0, 0]
        assert bucket.content("some/k.zarr") == stores.content(tmp_path / "k")

    def test_is_fitted_from_and_named_by_a_saved_model(self, bucket, tmp_path):
        fitted = et.InfiniteEnsemble(stores.NET, ridge=1e-3, store=K, solver="cholesky").fit(X, X[:, 0])
        fitted.save(tmp_path / "model")
        loaded = et.InfiniteEnsemble.load(tmp_path / "model")
        for one, two in zip(*(m.predict(X[:3], return_std=True) for m in (loaded, fitted)), strict=True):
            np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(fitted.predict(X), MODEL.predict(X), rtol=1e-9)
        assert fitted.store == K


class TestRequests:
    def test_of_a_tile_are_a_head_four_puts_the_record_and_inputs_once(self, bucket):
        there = stores.store(K, rows=40)
        there.compute(shard=(0, 5))
        bucket.asked.clear()
        tiles = there.tiles[:20]
        waiting = there._work.tiles.missing(tiles)
        assert bucket.counted == {"list": 2}
        assert sum(each_computed(there._work, waiting)) == len(waiting) == 16
        places = sum(len(there._work.record.grid.places(tile)) for tile in waiting)
        read = {tile[0] for tile in waiting} | {tile[1] for tile in waiting}
        assert bucket.counted == {"list": 2, "head": len(waiting), "put": 2 * places, "get": len(waiting) + len(read)}

    def test_a_store_that_is_gone_is_not_made_again_by_a_worker(self, tmp_path):
        there = stores.store(tmp_path / "k")
        list(each_computed(there._work, there.tiles[:1]))
        shutil.rmtree(tmp_path / "k")
        with pytest.raises(StoreError):
            list(each_computed(there._work, there.tiles[1:]))
        assert not (tmp_path / "k").exists()


class TestClaims:
    def test_of_an_array_whose_matrix_no_disk_holds_are_refused_before_it_is_read(self, tmp_path, bucket):
        class Claim:
            shape, dtype = (10**12, 3), np.dtype(np.float32)

            def __getitem__(self, key):
                raise AssertionError("it was read")

        for path in (tmp_path / "k", "s3://bucket/k"):
            with pytest.raises(et.errors.EquitangentsError, match=r"the disk has|needs about"):
                GramStore(path, stores.NET, Claim())
        with pytest.raises(StoreError, match="the disk has"):
            predict_to_file(MODEL, Claim(), tmp_path / "p.npy")

    def test_data_are_read_from_an_object_store(self, bucket):
        zarr.create_array(ObjectStore(bucket), name="x.zarr", data=X, chunks=(5, 3))
        np.testing.assert_array_equal(read_inputs("data", "s3://bucket/x.zarr")[:], X)
        with pytest.raises(InvalidArgumentError, match="of an object store Zarr is read"):
            read_inputs("data", "s3://bucket/x.npy")


class TestIsRefused:
    @pytest.mark.parametrize(
        "path",
        [
            *["ftp://b/k", "s3://", "s3://bucket", "s3:///k", "s3:/b/k", "gs://b/../k?x", "file://elsewhere/k", "x:/"],
            Path("s3://b/k"),
        ],
    )
    def test_every_other_url(self, path, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        if str(path) == "x:/":  # a disk of Windows
            assert place.place("path", path) == Path("x:/")
            return
        with pytest.raises(InvalidArgumentError, match="expected"):
            GramStore(path, stores.NET, X)
        assert list(tmp_path.iterdir()) == []

    def test_a_url_where_a_folder_is_needed(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InvalidArgumentError, match="expected a path of this machine"):
            MODEL.save("s3://bucket/model")
        with pytest.raises(InvalidArgumentError, match="expected a path of this machine"):
            predict_to_file("s3://bucket/model", X, tmp_path / "p.npy")
        with pytest.raises(InvalidArgumentError, match=r"path is .* expected a path of this machine"):
            predict_to_file(MODEL, X, "s3://bucket/p.npy")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
    def test_an_object_store_without_the_extra(self, scheme, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setitem(sys.modules, "obstore", None)
        place.bucket.cache_clear()
        with pytest.raises(MissingLibraryError, match=r"pip install 'equitangents\[scale\]'") as error:
            GramStore(f"{scheme}://b/k", stores.NET, X)
        assert "\n" not in str(error.value)
        assert list(tmp_path.iterdir()) == []

    def test_one_that_does_not_open(self, monkeypatch):
        monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
        with pytest.raises(InvalidArgumentError, match="expected a place that can be opened") as error:
            GramStore("az://container/k", stores.NET, X)
        assert "\n" not in str(error.value)

    def test_file_urls_are_paths(self, tmp_path):
        assert GramStore((tmp_path / "a b").as_uri(), stores.NET, X).path == tmp_path / "a b"


@pytest.mark.slow
def test_workers_that_are_killed_and_two_at_once_leave_the_same_bytes(s3, tmp_path):
    from s3 import content

    stores.store(tmp_path / "k").compute()

    def worker(put: int) -> subprocess.Popen:
        words = [sys.executable, "-m", "scale.s3_worker", "k", "22", "4", str(put)]
        return subprocess.Popen(words, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True)

    for put in (1, 5, 23, 37):
        killed = worker(put)
        killed.communicate(timeout=120)
        assert killed.returncode == -9
    two = [worker(0), worker(0)]
    assert [each.communicate(timeout=120)[0].strip() for each in two] == ["0", "0"]
    assert content("k") == stores.content(tmp_path / "k")


@pytest.mark.slow
def test_commands_from_end_to_end(s3, tmp_path):
    np.savez(tmp_path / "d.npz", x=X, y=X[:, 0])
    command = [sys.executable, "-m", "equitangents"]

    def run(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run([*command, *words], cwd=tmp_path, capture_output=True, text=True, timeout=200)

    store = ["--data", "d.npz", "--depth", "1"]
    for words in (
        ["gram", *store, "--out", "s3://bucket/k", "--workers", "2"],
        ["fit", *store, "--store", "s3://bucket/k", "--no-standardise", "--ridge", "1e-3", "--out", "model"],
        ["predict", "model", "--data", "d.npz", "--out", "p.npy"],
    ):
        done = run(*words)
        assert done.returncode == 0, done.stderr
    for words in (
        ["fit", *store, "--out", "s3://bucket/model"],
        ["predict", "model", "--data", "d.npz", "--out", "s3://bucket/p.npy"],
        ["gram", *store, "--out", "ftp://b/k"],
    ):
        refused = run(*words)
        assert refused.returncode == 2
        assert len(refused.stderr.strip().splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.npz", "model", "p.npy"]


@pytest.mark.slow
def test_an_outage_of_seconds_is_survived_by_every_request(s3):
    folder = place.ObjectPath("s3://bucket", "some")
    at = folder / "key"
    at.write_bytes(b"held")
    requests = [lambda: at.write_bytes(b"held"), at.read_bytes, at.size, lambda: list(folder.sizes())]
    requests += [lambda: (folder / "new").write_bytes(b"1", once=True), at.unlink]
    for request in requests:
        s3.stop()
        back = threading.Timer(2.0, s3.start)
        back.start()
        request()  # is an OSError where it is given up
        back.join()
    assert [at.size(), (folder / "new").read_bytes()] == [None, b"1"]
