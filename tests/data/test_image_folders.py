"""Folders of images: one a class, with masks, or read as they are needed; what does not fit is refused by name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from equitangents import data
from equitangents.errors import InvalidArgumentError
from equitangents_studies.data import open_image_folder

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


@pytest.mark.parametrize(
    ("change", "how", "said"),
    [
        (lambda f: f / "none", {}, "none'; expected a folder with a folder of images"),
        (lambda f: f / "ADI", {}, "expected two folders or more, one for each class"),
        (lambda f: (f / "EMPTY").mkdir(), {}, "EMPTY'; expected images"),
        (lambda f: (f / "BACK" / "BACK-3.tif").write_bytes(b"no"), {}, "BACK-3.tif is not a readable image"),
        (None, {"size": 9}, "size is 9; expected 1 to 8; the side of"),
        (None, {"count": 20}, "count is 20; expected 2 to 18"),
        (None, {"test_fraction": 1}, "test_fraction is 1"),
    ],
)
def test_what_is_wrong_is_said(folder, change, how, said):
    at = change(folder) if change else folder
    with pytest.raises(InvalidArgumentError, match=said):
        data.load_class_folders(at if isinstance(at, Path) else folder, **{"count": None, "size": 4, **how})


def test_the_public_archive_is_found_by_name(folder, tmp_path, monkeypatch):
    monkeypatch.delenv("EQUITANGENTS_DATA", raising=False)
    for place, said in ((tmp_path, "NCT-CRC-HE-100K is not in"), (None, "no data folder is set")):
        with pytest.raises(data.DataNotFoundError, match=said):
            data.load("nct_crc_he", place)
    assert not data.available("nct_crc_he", tmp_path)
    (tmp_path / "NCT-CRC-HE-100K").mkdir()
    assert data.available("nct_crc_he", tmp_path)
    asked = []
    load = lambda path, **how: asked.append((path, how))
    monkeypatch.setattr("equitangents_studies.data.folder.load_class_folders", load)
    data.load("nct_crc_he", tmp_path)
    assert asked[0][0] == tmp_path / "NCT-CRC-HE-100K"
    assert "Kather" in asked[0][1]["citation"]


def written(folder, name, image, mask):
    for part, values in (("images", image), ("masks", mask)):
        (folder / part).mkdir(exist_ok=True)
        if values is not None:
            Image.fromarray(np.asarray(values, np.uint8)).save(folder / part / f"{name}.png")


def grey(height=4, width=4, value=100):
    return np.full((height, width), value)


def test_images_and_masks_are_paired_by_name_and_averaged_down(tmp_path):
    mask = np.zeros((4, 4))
    mask[:2, :2], mask[2, 2] = 7, 255
    written(tmp_path, "b", grey(), mask)
    written(tmp_path, "a", grey(value=255), grey(value=0))
    found = data.load_mask_folder(tmp_path, 2)
    assert found.file_names == ("a", "b")
    assert found.images.shape == found.masks.shape == (2, 2, 2, 1)
    np.testing.assert_allclose(found.images[:, 0, 0, 0], [1, 100 / 255], rtol=1e-6)
    np.testing.assert_allclose(found.masks[1, ..., 0], [[1, 0], [0, 0.25]])
    assert not found.masks[0].any()


def test_the_largest_centred_square_is_taken_of_both(tmp_path):
    image = np.tile(np.arange(6), (2, 1))
    written(tmp_path, "wide", 40 * image, image == 3)
    found = data.load_mask_folder(tmp_path, 2)
    np.testing.assert_allclose(found.images[0, 0, :, 0] * 255, [80, 120], rtol=1e-6)
    np.testing.assert_allclose(found.masks[0, :, :, 0], [[0, 1], [0, 1]])


def test_one_colour_image_makes_all_of_them_colour(tmp_path):
    written(tmp_path, "a", grey(), grey())
    written(tmp_path, "b", np.stack([grey(), 0 * grey(), 0 * grey()], axis=-1), grey())
    assert data.load_mask_folder(tmp_path, 4).images.shape == (2, 4, 4, 3)


def test_sixteen_bits_become_numbers_up_to_1_as_of_other_loaders(tmp_path):
    written(tmp_path, "a", None, grey())
    Image.fromarray(np.array([[1000, 3000]] * 2, np.uint16)).save(tmp_path / "images" / "a.png")
    Image.fromarray(np.ones((2, 2), np.uint8)).save(tmp_path / "masks" / "a.png")
    np.testing.assert_allclose(data.load_mask_folder(tmp_path, 2).images[0, 0, :, 0] * 65535, [1000, 3000], rtol=1e-6)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ({"a": (grey(), None)}, "expected masks/|with such endings"),
        ({"a": (grey(), grey()), "b": (None, grey())}, "expected images/"),
        ({"a": (grey(), grey(4, 5))}, "4×4 and 5×4"),
        ({"a": (grey(1, 1), grey(1, 1))}, "pixels is 2"),
        ({}, "expected folders images and masks"),
        ({"text": (grey(), grey())}, r"text\.png is not a readable image"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, pairs, said):
    for name, (image, mask) in pairs.items():
        written(tmp_path, name, image, mask)
    if "text" in pairs:
        (tmp_path / "images" / "text.png").write_text("no image")
    with pytest.raises(InvalidArgumentError, match=said):
        data.load_mask_folder(tmp_path, 2)


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
