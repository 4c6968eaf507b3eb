"""Folders of images, one a class, read as they are needed; what does not fit is refused by name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from equitangents import data
from equitangents.errors import InvalidArgumentError
from equitangents_studies.data import open_image_folder


def test_the_public_archive_is_found_by_name_and_averaged_down(tmp_path, monkeypatch):
    monkeypatch.delenv("EQUITANGENTS_DATA", raising=False)
    for place, said in ((tmp_path, "NCT-CRC-HE-100K is not in"), (None, "no data folder is set")):
        with pytest.raises(data.DataNotFoundError, match=said):
            data.load("nct_crc_he", place)
    assert not data.available("nct_crc_he", tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    for label in ("ADI", "TUM"):
        (tmp_path / "NCT-CRC-HE-100K" / label).mkdir(parents=True)
        for i in range(6):
            Image.fromarray(pixels).save(tmp_path / "NCT-CRC-HE-100K" / label / f"{i}.tif")
    found = data.load("nct_crc_he", tmp_path)
    assert (found.class_names, len(found.train_x), len(found.test_x)) == (("ADI", "TUM"), 11, 1)
    np.testing.assert_allclose(found.train_x[0], pixels.reshape(32, 2, 32, 2, 3).mean(axis=(1, 3)) / 255, atol=1e-6)
    assert "Kather" in found.citation


RNG = np.random.default_rng(0)


def fill(folder, classes=("cat", "dog"), count=5, shape=(6, 6), suffix=".png"):
    """Random images, by their names below `folder`."""
    held = {}
    for name in classes:
        (folder / name).mkdir(parents=True)
        for i in range(count):
            pixels = RNG.integers(0, 256, (*shape, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{i}{suffix}")
            held[f"{name}/{i}{suffix}"] = pixels
    return held


def test_every_image_is_in_one_part_and_pixels_are_those_of_its_file(tmp_path):
    held = fill(tmp_path)
    found = open_image_folder(tmp_path, test_fraction=0.3, seed=1)
    assert (len(found.train), len(found.test), found.class_names) == (7, 3, ("cat", "dog"))
    assert {*found.train.names, *found.test.names} == set(held)
    for part in (found.train, found.test):
        x = part.read(np.arange(len(part)), 6)
        assert np.array_equal(x, np.stack([held[name] for name in part.names]))
        assert [found.class_names[label] for label in part.labels] == [name.split("/")[0] for name in part.names]


def test_the_layout_of_imagenet_has_its_own_test_images(tmp_path):
    fill(tmp_path / "train", suffix=".JPEG")
    fill(tmp_path / "val", count=2, suffix=".jpg")
    found = open_image_folder(tmp_path)
    assert (len(found.train), len(found.test)) == (10, 4)
    assert all(name.startswith("val/") for name in found.test.names)
    assert found.train.read(np.array([3]), 4).shape == (1, 4, 4, 3)


def test_listing_reads_no_image_and_reading_only_those_asked_for(tmp_path, monkeypatch):
    fill(tmp_path)
    opened, real = [], Image.open
    monkeypatch.setattr(Image, "open", lambda path, **how: (opened.append(path), real(path, **how))[1])
    found = open_image_folder(tmp_path)
    part = found.train[np.array([4, 2])]
    assert opened == []
    part.read(np.array([1]), 6)
    assert opened == [tmp_path / found.train.names[2]]


def test_the_centre_of_an_oblong_image_is_seen_and_crops_lie_within_it(tmp_path):
    held = fill(tmp_path, count=2, shape=(6, 10))
    part = open_image_folder(tmp_path, test_fraction=0.25).train
    assert np.array_equal(part.read(np.array([0]), 6)[0], held[part.names[0]][:, 2:8])
    whole = np.array([[1.0, 0.5, 0.0, 0.0, 1.0]])  # all of the area, no mirror
    mirrored = np.array([[1.0, 0.5, 0.0, 0.0, 0.0]])
    a, b = (part.read(np.array([0]), 6, crops=crops)[0] for crops in (whole, mirrored))
    assert np.array_equal(a, b[:, ::-1])
    with ThreadPoolExecutor(2) as workers:
        crops = RNG.random((3, 5))
        several = part.read(np.array([0, 1, 0]), 4, crops=crops, workers=workers)
    assert np.array_equal(several, part.read(np.array([0, 1, 0]), 4, crops=crops))


def test_another_file_or_split_has_another_digest(tmp_path):
    fill(tmp_path)
    first = open_image_folder(tmp_path)
    assert open_image_folder(tmp_path).digest == first.digest
    assert open_image_folder(tmp_path, seed=1).digest != first.digest
    (tmp_path / "cat" / "0.png").rename(tmp_path / "cat" / "9.png")
    assert open_image_folder(tmp_path).digest != first.digest


def test_what_cannot_be_used_is_refused(tmp_path):
    fill(tmp_path / "a" / "train")
    with pytest.raises(InvalidArgumentError, match="expected 'val' or 'test'"):
        open_image_folder(tmp_path / "a")
    fill(tmp_path / "a" / "val", classes=("cat", "cow"))
    with pytest.raises(InvalidArgumentError, match="equal classes in its two folders; cow"):
        open_image_folder(tmp_path / "a")
    fill(tmp_path / "b")
    with pytest.raises(InvalidArgumentError, match="test_fraction is 1"):
        open_image_folder(tmp_path / "b", test_fraction=1)
    (tmp_path / "b" / "cat" / "0.png").write_bytes(b"no image")
    found = open_image_folder(tmp_path / "b")
    part = found.train if "cat/0.png" in found.train.names else found.test
    with pytest.raises(InvalidArgumentError, match=r"cat/0\.png is not a readable image"):
        part.read(np.arange(len(part)), 6)
