"""The built-in data sets, sets read from a folder or fetched, resizing, and inputs out of distribution."""

import gzip
import hashlib
import io
import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import equitangents_studies.data as data
from equitangents.errors import EquitangentsError, InvalidArgumentError, ShapeError
from equitangents_studies.data import folder as data_folder
from equitangents_studies.data.folder import DataSource, DownloadError, RemoteFile
from equitangents_studies.data.images import area_weights


def _arrays(names, counts, side):
    """Images and labels for training, then for tests."""
    rng, made = np.random.default_rng(0), []
    for n in counts:
        made += [rng.integers(0, 256, (n, side, side), dtype=np.uint8), np.arange(n, dtype=np.uint8) % 3]
    return dict(zip(names, made, strict=True))


def _write(folder, name="mnist", **changes):
    arrays = _arrays(("train_x", "train_y", "test_x", "test_y"), (30, 10), 6) | changes
    np.savez_compressed(folder / f"{name}.npz", **{k: v for k, v in arrays.items() if v is not None})
    return arrays


class TestDigits:
    def test_split_is_stratified_disjoint_and_reproducible(self):
        from sklearn.datasets import load_digits

        source = load_digits()
        first, second = data.digits(), data.digits()
        np.testing.assert_array_equal(first.train_x, second.train_x)
        assert (first.shape, first.classes, first.train_x.dtype) == ((8, 8, 1), 10, np.float32)
        counts = np.bincount(source.target)
        np.testing.assert_array_equal(np.bincount(first.test_y), np.round(0.2 * counts))
        np.testing.assert_array_equal(np.bincount(first.test_y) + np.bincount(first.train_y), counts)
        together = np.concatenate([first.train_x, first.test_x]).reshape(len(source.images), -1)
        labels = np.concatenate([first.train_y, first.test_y])
        expected = np.column_stack([source.images.reshape(len(source.images), -1) / 16, source.target])
        got = np.column_stack([together, labels])
        np.testing.assert_allclose(got[np.lexsort(got.T)], expected[np.lexsort(expected.T)])


class TestSubset:
    def test_is_balanced_and_seeded(self):
        digits = data.digits()
        small = digits.subset(100, 50, seed=1)
        np.testing.assert_array_less(np.abs(np.bincount(small.train_y) - 10), 2)
        np.testing.assert_array_less(np.abs(np.bincount(small.test_y) - 5), 2)
        np.testing.assert_array_equal(small.train_x, digits.subset(100, 50, seed=1).train_x)
        assert not np.array_equal(small.train_x, digits.subset(100, 50, seed=2).train_x)

    def test_keeps_images_with_their_labels(self):
        digits = data.digits()
        small = digits.subset(60, 20)
        lookup = {image.tobytes(): label for image, label in zip(digits.train_x, digits.train_y, strict=True)}
        assert all(lookup[image.tobytes()] == label for image, label in zip(small.train_x, small.train_y, strict=True))


class TestFolder:
    def test_reads_what_was_written(self, tmp_path):
        arrays = _write(tmp_path)
        loaded = data.load("mnist", tmp_path)
        np.testing.assert_allclose(loaded.train_x[..., 0], arrays["train_x"] / 255, atol=1e-7)
        np.testing.assert_array_equal(loaded.test_y, arrays["test_y"])
        assert loaded.train_x.dtype == np.float32
        assert loaded.train_y.dtype == np.int64

    def test_tiles_and_names_survive(self, tmp_path):
        tile = np.arange(30, dtype=np.int32)
        names = np.array(["benign", "malign", "other"])
        colour = np.zeros((30, 6, 6, 3), np.uint8)
        _write(tmp_path, "histology_crc5", train_tile=tile, class_names=names, train_x=colour, test_x=colour[:10])
        loaded = data.load("histology_crc5", tmp_path)
        assert loaded.class_names == ("benign", "malign", "other")
        np.testing.assert_array_equal(loaded.subset(12).train_tile, loaded.train_tile[loaded.subset(12).train_tile])
        assert loaded.shape == (6, 6, 3)

    def test_the_folder_is_that_of_the_environment_unless_another_is_given(self, tmp_path, monkeypatch):
        _write(tmp_path)
        monkeypatch.setenv("EQUITANGENTS_DATA", str(tmp_path))
        assert data.available("mnist")
        assert not data.available("cifar10")
        assert len(data.load("mnist").train_x) == 30
        monkeypatch.setenv("EQUITANGENTS_DATA", str(tmp_path / "elsewhere"))
        assert len(data.load("mnist", tmp_path).train_x) == 30

    def test_missing_file_names_file_folder_and_remedy(self, tmp_path, monkeypatch):
        monkeypatch.delenv("EQUITANGENTS_DATA", raising=False)
        with pytest.raises(data.DataNotFoundError, match=r"fashion_mnist\.npz") as caught:
            data.load("fashion_mnist", tmp_path)
        assert str(tmp_path) in str(caught.value)
        assert "EQUITANGENTS_DATA" in str(caught.value)
        assert isinstance(caught.value, EquitangentsError)
        for place, said in ((None, "no data folder is set"), (tmp_path / "absent", "not a folder")):
            with pytest.raises(data.DataNotFoundError, match=said):
                data.load("mnist", place)

    @pytest.mark.parametrize(
        ("changes", "error", "said"),
        [
            (None, InvalidArgumentError, "expected an .npy or .npz file"),
            ({"test_y": None}, InvalidArgumentError, "expected 'test_y'"),
            ({"train_x": np.zeros((30, 6, 6))}, InvalidArgumentError, "expected uint8"),
            ({"train_y": np.zeros(7, np.uint8)}, ShapeError, "has labels, 7; expected 30"),
        ],
    )
    def test_malformed_files(self, tmp_path, changes, error, said):
        (tmp_path / "mnist.npz").write_bytes(b"not an archive")
        if changes:
            _write(tmp_path, **changes)
        with pytest.raises(error, match=said):
            data.load("mnist", tmp_path)


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
    parts = _arrays("abcd", (5, 3), 4)
    (tmp_path / "home").mkdir()
    home = _serve(tmp_path / "home", {name: _idx(array) for name, array in parts.items()})
    monkeypatch.setitem(data_folder.SOURCES, "mnist", DataSource("mnist", "c", tuple("01234"), "idx", home))
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


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda home: (home / "c").write_bytes(_idx(np.zeros((3, 4, 4), np.uint8))), "SHA-256"),
        (lambda home: (home / "a").unlink(), "could not be fetched"),
    ],
)
def test_a_wrong_checksum_and_an_unreachable_home_leave_nothing(idx_source, tmp_path, change, said):
    change(tmp_path / "home")
    with pytest.raises(DownloadError, match=said):
        data.download("mnist", tmp_path / "sets")
    assert list((tmp_path / "sets").iterdir()) == []


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
    monkeypatch.setitem(data_folder.SOURCES, "cifar10", DataSource("cifar10", "c", tuple("abcdefghij"), "cifar", home))
    loaded = data.load("cifar10", data.download("cifar10", tmp_path / "sets").parent)
    assert loaded.train_x.shape == (4, 32, 32, 3)
    first = records["batch/data_batch_1.bin"][0]
    assert loaded.train_y[0] == first[0]
    np.testing.assert_allclose(loaded.train_x[0, 0, :, 0] * 255, first[1:33], atol=1e-4)
    np.testing.assert_allclose(loaded.train_x[0, 0, :, 2] * 255, first[1 + 2048 : 1 + 2048 + 32], atol=1e-4)


class TestResize:
    @given(st.integers(1, 20), st.integers(1, 20))
    def test_rows_sum_to_one_and_columns_are_even(self, size_in, size_out):
        weights = area_weights(size_in, size_out)
        np.testing.assert_allclose(weights.sum(1), 1)
        np.testing.assert_allclose(weights.sum(0), size_out / size_in)

    def test_whole_factor_is_a_block_mean(self):
        x = np.random.default_rng(0).random((3, 12, 8, 2))
        expected = x.reshape(3, 4, 3, 4, 2, 2).mean(axis=(2, 4))
        np.testing.assert_allclose(data.resize(x, (4, 4)), expected, atol=1e-12)

    def test_commutes_with_quarter_turns(self):
        x = np.random.default_rng(0).random((3, 13, 13, 1))
        rotated = np.rot90(x, axes=(1, 2))
        np.testing.assert_allclose(data.resize(rotated, (5, 5)), np.rot90(data.resize(x, (5, 5)), axes=(1, 2)))


def test_colours_become_grey_by_luminance_and_grey_is_repeated():
    x = np.random.default_rng(0).random((2, 4, 4, 3))
    expected = 0.299 * x[..., 0] + 0.587 * x[..., 1] + 0.114 * x[..., 2]
    np.testing.assert_allclose(data.conform(x, (4, 4, 1))[..., 0], expected)
    np.testing.assert_array_equal(data.conform(x[..., :1], (4, 4, 3)), np.repeat(x[..., :1], 3, axis=-1))


def test_noise_is_normal_and_seeded():
    x = data.gaussian_noise(200, (8, 8, 1), seed=3)
    assert x.dtype == np.float32
    assert abs(x.mean()) < 0.1
    assert abs(x.std() - 1) < 0.1
    np.testing.assert_array_equal(x, data.gaussian_noise(200, (8, 8, 1), seed=3))


def test_patches_are_varied_images():
    x = data.photo_patches(40, (8, 8, 1), seed=0)
    assert x.shape == (40, 8, 8, 1)
    assert 0 <= x.min() < x.max() <= 1
    assert (x.std(axis=(1, 2, 3)) > 0.02).all()
    assert len(np.unique(x.reshape(40, -1), axis=0)) == 40
    np.testing.assert_array_equal(x, data.photo_patches(40, (8, 8, 1), seed=0))
    assert data.photo_patches(3, (28, 28, 3)).shape == (3, 28, 28, 3)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: data.resize(np.zeros((3, 3)), (2, 2)), ShapeError, "."),
        (lambda: data.conform(np.zeros((2, 4, 4, 1)), (4, 4, 2)), InvalidArgumentError, "."),
        (lambda: data.photo_patches(3, (8, 9, 1)), InvalidArgumentError, "square"),
        (lambda: data.photo_patches(3, (1000, 1000, 1)), InvalidArgumentError, "at most"),
        (lambda: data.gaussian_noise(0, (8, 8, 1)), InvalidArgumentError, "count is 0"),
        (lambda: data.digits().subset(10**6), InvalidArgumentError, "expected 1 to 1438"),
        (lambda: data.load("imagenet"), InvalidArgumentError, "fashion_mnist"),
        (lambda: data.download("histology_crc5", "."), InvalidArgumentError, "these can be downloaded"),
        (lambda: data.download("mnist"), InvalidArgumentError, "EQUITANGENTS_DATA"),
    ],
)
def test_bad_arguments_are_refused(call, error, said, monkeypatch):
    monkeypatch.delenv("EQUITANGENTS_DATA", raising=False)
    with pytest.raises(error, match=said):
        call()
