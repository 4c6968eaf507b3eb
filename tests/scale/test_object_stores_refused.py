"""URLs that are no place in an object store, and stores that cannot be opened: one line, and nothing is made."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import stores

import equitangents as et
from equitangents.ensembles import predict_to_file
from equitangents.errors import InvalidArgumentError, MissingLibraryError
from equitangents.scale import GramStore
from equitangents.tiles import place

X = np.random.default_rng(0).normal(size=(22, 3))
MODEL = et.InfiniteEnsemble(stores.NET, ridge=1e-3).fit(X, X[:, 0])


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
        for call in (lambda: GramStore(path, stores.NET, X), lambda: predict_to_file(MODEL, X, path)):
            with pytest.raises(InvalidArgumentError, match="expected"):
                call()
        assert list(tmp_path.iterdir()) == []

    def test_a_url_where_a_folder_is_needed(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InvalidArgumentError, match="expected a path of this machine"):
            MODEL.save("s3://bucket/model")
        with pytest.raises(InvalidArgumentError, match="expected a path of this machine"):
            predict_to_file("s3://bucket/model", X, tmp_path / "p.npy")
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
