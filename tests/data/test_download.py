"""Fetching from public homes, with files on disk standing in for the network."""

import gzip
import hashlib
import io
import tarfile

import numpy as np
import pytest

import equitangents_studies.data as data
from equitangents.errors import InvalidArgumentError
from equitangents_studies.data import catalogue
from equitangents_studies.data.catalogue import RemoteFile, Source
from equitangents_studies.data.folder import DownloadError


def _idx(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">i4").tobytes()
    return gzip.compress(header + array.tobytes())


def _serve(folder, contents):
    home = []
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        home.append(RemoteFile((folder / name).as_uri(), hashlib.sha256(content).hexdigest()))
    return tuple(home)


@pytest.fixture
def idx_source(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    parts = {
        "a": rng.integers(0, 256, (5, 4, 4), dtype=np.uint8),
        "b": np.arange(5, dtype=np.uint8),
        "c": rng.integers(0, 256, (3, 4, 4), dtype=np.uint8),
        "d": np.arange(3, dtype=np.uint8),
    }
    (tmp_path / "home").mkdir()
    home = _serve(tmp_path / "home", {name: _idx(array) for name, array in parts.items()})
    monkeypatch.setitem(catalogue.SOURCES, "mnist", Source("mnist", "t", "c", tuple("01234"), "idx", home))
    return parts


def test_idx_set_arrives_intact(idx_source, tmp_path):
    path = data.download("mnist", tmp_path / "sets")
    assert path == tmp_path / "sets" / "mnist.npz"
    with np.load(path) as archive:
        np.testing.assert_array_equal(archive["train_x"], idx_source["a"])
        np.testing.assert_array_equal(archive["test_y"], idx_source["d"])
    assert data.load("mnist", tmp_path / "sets").shape == (4, 4, 1)
    assert sorted(p.name for p in (tmp_path / "sets").iterdir()) == ["mnist.npz"]


def test_existing_file_is_kept(idx_source, tmp_path):
    (tmp_path / "mnist.npz").write_bytes(b"mine")
    assert data.download("mnist", tmp_path).read_bytes() == b"mine"


def test_wrong_checksum_leaves_nothing(idx_source, tmp_path):
    (tmp_path / "home" / "c").write_bytes(_idx(np.zeros((3, 4, 4), np.uint8)))
    with pytest.raises(DownloadError, match="SHA-256"):
        data.download("mnist", tmp_path / "sets")
    assert list((tmp_path / "sets").iterdir()) == []


def test_unreachable_home(idx_source, tmp_path):
    (tmp_path / "home" / "a").unlink()
    with pytest.raises(DownloadError, match="could not be fetched"):
        data.download("mnist", tmp_path / "sets")


def test_cifar_binary_format(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    records = {f"batch/data_batch_{i}.bin": rng.integers(0, 10, (2, 3073), dtype=np.uint8) for i in (2, 1)}
    records["batch/test_batch.bin"] = rng.integers(0, 10, (2, 3073), dtype=np.uint8)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, block in records.items():
            entry = tarfile.TarInfo(name)
            entry.size = block.size
            archive.addfile(entry, io.BytesIO(block.tobytes()))
    home = _serve(tmp_path, {"cifar.tar.gz": stream.getvalue()})
    monkeypatch.setitem(catalogue.SOURCES, "cifar10", Source("cifar10", "t", "c", tuple("abcdefghij"), "cifar", home))
    loaded = data.load("cifar10", data.download("cifar10", tmp_path / "sets").parent)
    assert loaded.train_x.shape == (4, 32, 32, 3)
    first = records["batch/data_batch_1.bin"][0]
    assert loaded.train_y[0] == first[0]
    np.testing.assert_allclose(loaded.train_x[0, 0, :, 0] * 255, first[1:33], atol=1e-4)
    np.testing.assert_allclose(loaded.train_x[0, 0, :, 2] * 255, first[1 + 2048 : 1 + 2048 + 32], atol=1e-4)


def test_sets_without_a_home(tmp_path):
    with pytest.raises(InvalidArgumentError, match="these can be downloaded"):
        data.download("histology_crc5", tmp_path)


def test_needs_a_folder(monkeypatch):
    monkeypatch.delenv("EQUITANGENTS_DATA", raising=False)
    with pytest.raises(InvalidArgumentError, match="EQUITANGENTS_DATA"):
        data.download("mnist")
