"""Images of one's own with masks: paired by name, cut to squares and averaged down; what does not fit is refused."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from equitangents import data
from equitangents.errors import InvalidArgumentError


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
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, pairs, said):
    for name, (image, mask) in pairs.items():
        written(tmp_path, name, image, mask)
    with pytest.raises(InvalidArgumentError, match=said):
        data.load_mask_folder(tmp_path, 2)


def test_a_file_that_is_no_image_is_named(tmp_path):
    written(tmp_path, "a", grey(), grey())
    (tmp_path / "images" / "a.png").write_text("no image")
    with pytest.raises(InvalidArgumentError, match=r"a\.png is not a readable image"):
        data.load_mask_folder(tmp_path, 2)
