"""Images of one's own: `x` and `y` in a NumPy archive, with `x_test` and `y_test` or split by seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from equitangents.errors import InvalidArgumentError, NotFiniteError, ShapeError
from equitangents.extending import UNREADABLE, check_arrays, refusal
from equitangents_studies.data.dataset import Dataset, balanced

_TEST_SHARE = 0.25


def load_own(path: str | Path, *, seed: int = 0) -> Dataset:
    """The data set in the archive `path`: `x` (N, H, W) or (N, H, W, C), numbers, and `y` (N,), labels of any type.

    Without `x_test` and `y_test` a quarter of every class, drawn by `seed`, is the test set. `class_names` are the
    sorted labels. Numbers of type uint8 are divided by 255.

    Raises InvalidArgumentError for a file that is missing, is no archive, lacks an array or holds one image again and
    again, ShapeError for arrays that do not fit each other, NotFiniteError for NaN.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise InvalidArgumentError(f"data is {str(path)!r}, and there is no such file")
    try:
        with path.open("rb") as file:
            check_arrays(file)
            archive = np.load(file, allow_pickle=False)
            arrays = {key: archive[key] for key in archive.files}
    except UNREADABLE as error:
        if "allow_pickle" in str(error):  # an array of objects
            raise InvalidArgumentError(f"{path} is not loaded: {refusal(None)}") from None
        raise InvalidArgumentError(f"{path} is not a readable NumPy archive: {error}") from None
    held = ", ".join(arrays) or "nothing"
    for pair in (("x", "y"), ("x_test", "y_test")):
        missing = [key for key in pair if key not in arrays]
        if missing and (pair == ("x", "y") or len(missing) == 1):
            raise InvalidArgumentError(f"{path} lacks {', '.join(missing)}; it holds {held}")
    parts = [("x", "y")] + ([("x_test", "y_test")] if "x_test" in arrays else [])
    images = [_images(arrays[x], x, path) for x, _ in parts]
    labels = [_labels(arrays[y], y, len(arrays[x]), path) for x, y in parts]
    classes, index = np.unique(np.concatenate(labels), return_inverse=True)
    if len(classes) < 2:
        raise InvalidArgumentError(f"y in {path} holds one class, {classes[0].item()!r}; there must be at least 2")
    if len(images[0]) > 1 and (images[0] == images[0][:1]).all():
        raise InvalidArgumentError(f"x in {path} holds {len(images[0]):,} times the same image")
    y = np.split(index.astype(np.int64), [len(labels[0])])
    if len(parts) == 1:
        rows = balanced(y[0], len(y[0]), np.random.default_rng(seed), f"images of {path.name!r}")
        cut = max(1, round(_TEST_SHARE * len(rows)))
        train, test = np.sort(rows[cut:]), np.sort(rows[:cut])
        images, y = [images[0][train], images[0][test]], [y[0][train], y[0][test]]
    if images[0].shape[1:] != images[1].shape[1:]:
        raise ShapeError(f"x in {path} has images of shape {images[0].shape[1:]}, x_test of {images[1].shape[1:]}")
    return Dataset(path.name, images[0], y[0], images[1], y[1], tuple(str(c) for c in classes.tolist()))


def _images(x: np.ndarray, name: str, path: Path) -> np.ndarray:
    if x.ndim not in (3, 4) or x.dtype.kind not in "buif" or 0 in x.shape:
        raise ShapeError(
            f"{name} in {path} is {x.dtype} of shape {x.shape}; expected numbers (N, H, W) or (N, H, W, C)"
        )
    if not np.isfinite(x).all():
        raise NotFiniteError(f"{name} in {path} holds NaN or infinite values")
    scale = np.float32(255) if x.dtype == np.uint8 else np.float32(1)
    return (x if x.ndim == 4 else x[..., None]).astype(np.float32) / scale


def _labels(y: np.ndarray, name: str, count: int, path: Path) -> np.ndarray:
    if y.ndim != 1 or y.dtype.kind not in "buifUS" or len(y) != count:
        raise ShapeError(f"{name} in {path} is {y.dtype} of shape {y.shape}; expected {count} labels, shape ({count},)")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise NotFiniteError(f"{name} in {path} holds NaN or infinite values")
    return y
