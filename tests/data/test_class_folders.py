"""Folders with one folder of images a class: sampled by seed, averaged down, with clear errors."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from equitangents import data
from equitangents.errors import InvalidArgumentError

CLASSES = ("ADI", "BACK", "TUM")


@pytest.fixture
def folder(tmp_path):
    """Three classes of 6 TIFFs of 8×8, each of one colour; class and image are written into red and green."""
    for c, name in enumerate(CLASSES):
        (tmp_path / name).mkdir()
        for i in range(6):
            pixels = np.zeros((8, 8, 3), np.uint8)
            pixels[..., 0], pixels[..., 1] = 50 * c, 10 * i
            Image.fromarray(pixels).save(tmp_path / name / f"{name}-{i}.tif")
    (tmp_path / "ADI" / "notes.txt").write_text("no image")
    return tmp_path


def test_every_image_has_the_class_of_its_folder(folder):
    loaded = data.load_class_folders(folder, count=None, size=4)
    assert loaded.class_names == CLASSES
    assert (len(loaded.train_x), len(loaded.test_x), loaded.shape) == (16, 2, (4, 4, 3))
    x, y = np.concatenate([loaded.train_x, loaded.test_x]), np.concatenate([loaded.train_y, loaded.test_y])
    np.testing.assert_allclose(x[:, 0, 0, 0] * 255, 50 * y, atol=1e-4)
    assert len({tuple(p) for p in np.round(255 * x[:, 0, 0]).astype(int).tolist()}) == 18


def test_equal_seeds_give_equal_samples(folder):
    one, same, other = (data.load_class_folders(folder, count=9, size=4, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.train_x, same.train_x)
    assert not np.array_equal(one.train_x, other.train_x)
    assert len(one.train_x) + len(one.test_x) == 9


def test_images_become_smaller_by_averaging_over_areas(folder):
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    for path in folder.glob("*/*.tif"):
        Image.fromarray(pixels).save(path)
    loaded = data.load_class_folders(folder, count=4, size=2)
    areas = pixels.reshape(2, 4, 2, 4, 3).mean(axis=(1, 3)) / 255
    np.testing.assert_allclose(loaded.train_x[0], areas, atol=1e-6)


class TestSaysWhatIsWrong:
    def fails(self, path, match, **how):
        with pytest.raises(InvalidArgumentError, match=match):
            data.load_class_folders(path, **{"count": None, "size": 4, **how})

    def test_with_the_folder(self, folder, tmp_path):
        self.fails(tmp_path / "none", "none'; expected a folder with a folder of images")
        self.fails(folder / "ADI", "expected two folders or more, one for each class")

    def test_with_a_class(self, folder):
        (folder / "EMPTY").mkdir()
        self.fails(folder, "EMPTY'; expected images")

    def test_with_an_image(self, folder):
        (folder / "BACK" / "BACK-3.tif").write_bytes(b"not an image")
        self.fails(folder, "BACK-3.tif is not a readable image")

    def test_with_sizes(self, folder):
        self.fails(folder, "size is 9; expected 1 to 8; the side of", size=9)
        self.fails(folder, "count is 20; expected 2 to 18", count=20)
        self.fails(folder, "test_fraction is 1", test_fraction=1)


def test_the_public_archive_is_found_by_name(folder, tmp_path, monkeypatch):
    with pytest.raises(data.DataNotFoundError, match="NCT-CRC-HE-100K is not in"):
        data.load("nct_crc_he", tmp_path)
    monkeypatch.delenv("EQUITANGENTS_DATA", raising=False)
    with pytest.raises(data.DataNotFoundError, match="no data folder is set"):
        data.load("nct_crc_he")
    assert not data.available("nct_crc_he", tmp_path)
    (tmp_path / "NCT-CRC-HE-100K").mkdir()
    assert data.available("nct_crc_he", tmp_path)
    asked = []
    monkeypatch.setattr(
        "equitangents_studies.data.folder.load_class_folders", lambda path, **how: asked.append((path, how))
    )
    data.load("nct_crc_he", tmp_path)
    assert asked[0][0] == tmp_path / "NCT-CRC-HE-100K"
    assert "Kather" in asked[0][1]["citation"]
