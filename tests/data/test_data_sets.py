"""The built-in data sets, and sets read from a folder."""

import numpy as np
import pytest

import equitangents_studies.data as data
from equitangents.errors import EquitangentsError, InvalidArgumentError, ShapeError


def _write(folder, name="mnist", n=30, m=10, **changes):
    rng = np.random.default_rng(0)
    arrays = {
        "train_x": rng.integers(0, 256, (n, 6, 6), dtype=np.uint8),
        "train_y": np.arange(n, dtype=np.uint8) % 3,
        "test_x": rng.integers(0, 256, (m, 6, 6), dtype=np.uint8),
        "test_y": np.arange(m, dtype=np.uint8) % 3,
    }
    arrays.update(changes)
    np.savez_compressed(folder / f"{name}.npz", **{k: v for k, v in arrays.items() if v is not None})
    return arrays


class TestDigits:
    def test_split_is_stratified_disjoint_and_reproducible(self):
        from sklearn.datasets import load_digits

        source = load_digits()
        first, second = data.digits(), data.digits()
        np.testing.assert_array_equal(first.train_x, second.train_x)
        counts = np.bincount(source.target)
        np.testing.assert_array_equal(np.bincount(first.test_y), np.round(0.2 * counts))
        np.testing.assert_array_equal(np.bincount(first.test_y) + np.bincount(first.train_y), counts)
        together = np.concatenate([first.train_x, first.test_x]).reshape(len(source.images), -1)
        labels = np.concatenate([first.train_y, first.test_y])
        expected = np.column_stack([source.images.reshape(len(source.images), -1) / 16, source.target])
        got = np.column_stack([together, labels])
        np.testing.assert_allclose(got[np.lexsort(got.T)], expected[np.lexsort(expected.T)])

    def test_range_and_shape(self):
        digits = data.digits()
        assert digits.shape == (8, 8, 1)
        assert digits.classes == 10
        assert digits.train_x.dtype == np.float32
        assert (digits.train_x.min(), digits.train_x.max()) == (0.0, 1.0)

    @pytest.mark.parametrize("fraction", [0.0, 1.0, -1.0])
    def test_bad_fraction(self, fraction):
        with pytest.raises(InvalidArgumentError, match="test_fraction"):
            data.digits(fraction)


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

    def test_too_many(self):
        with pytest.raises(InvalidArgumentError, match="expected 1 to 1438"):
            data.digits().subset(10**6)


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

    def test_environment_variable(self, tmp_path, monkeypatch):
        _write(tmp_path)
        monkeypatch.setenv("EQUITANGENTS_DATA", str(tmp_path))
        assert data.available("mnist")
        assert not data.available("cifar10")
        assert len(data.load("mnist").train_x) == 30

    def test_argument_wins_over_environment(self, tmp_path, monkeypatch):
        monkeypatch.setenv("EQUITANGENTS_DATA", str(tmp_path / "elsewhere"))
        _write(tmp_path)
        assert len(data.load("mnist", tmp_path).train_x) == 30

    def test_missing_file_names_file_folder_and_remedy(self, tmp_path, monkeypatch):
        monkeypatch.delenv("EQUITANGENTS_DATA", raising=False)
        with pytest.raises(data.DataNotFoundError) as caught:
            data.load("fashion_mnist", tmp_path)
        message = str(caught.value)
        assert "fashion_mnist.npz" in message
        assert str(tmp_path) in message
        assert "EQUITANGENTS_DATA" in message
        assert isinstance(caught.value, EquitangentsError)
        with pytest.raises(data.DataNotFoundError, match="no data folder is set"):
            data.load("mnist")
        with pytest.raises(data.DataNotFoundError, match="not a folder"):
            data.load("mnist", tmp_path / "absent")

    def test_unknown_name_lists_the_known(self):
        with pytest.raises(InvalidArgumentError, match="fashion_mnist"):
            data.load("imagenet")

    def test_malformed_files(self, tmp_path):
        (tmp_path / "mnist.npz").write_bytes(b"not an archive")
        with pytest.raises(InvalidArgumentError, match="expected a readable NumPy archive"):
            data.load("mnist", tmp_path)
        _write(tmp_path, test_y=None)
        with pytest.raises(InvalidArgumentError, match="expected 'test_y'"):
            data.load("mnist", tmp_path)
        _write(tmp_path, train_x=np.zeros((30, 6, 6)))
        with pytest.raises(InvalidArgumentError, match="expected uint8"):
            data.load("mnist", tmp_path)
        _write(tmp_path, train_y=np.zeros(7, np.uint8))
        with pytest.raises(ShapeError, match="has labels, 7; expected 30"):
            data.load("mnist", tmp_path)
