"""Images in a folder, for `fit` and `predict`, with their form saved in the model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import equitangents
from equitangents.errors import InvalidArgumentError

if TYPE_CHECKING:
    from equitangents.scale.reading import LazyArray

TABLES = (".csv", ".tsv", ".txt")
_ZARR = ("zarr.json", ".zarray", ".zgroup", ".zattrs")
_SIDE = 2**20  # pixels of a side, at most

Stage = Callable[[str], None]


def are_images(data: str, targets: str | None = None) -> bool:
    """Whether `--data` is a folder of images; raises InvalidArgumentError for a folder of neither images nor Zarr."""
    folder = Path(data).expanduser()
    if "://" in data or not folder.is_dir() or any((folder / name).exists() for name in _ZARR):
        return False
    if targets is not None and Path(targets).suffix.lower() in TABLES:
        return True
    if not equitangents.data.labelled_images.images_in(folder):
        expected = "images (PNG, JPEG, TIFF or BMP), one folder a class or a table of labels, or a Zarr array or group"
        raise InvalidArgumentError("data", data, expected)
    return True


def read_labelled(o: Any, stage: Stage) -> Any:
    """The labelled images (`et.data.LabelledImages`) of --data, described on stderr."""
    images = equitangents.data.load_labelled_images(
        o.data, o.targets, size=o.size, together=o.keep_together, skip_bad=o.skip_bad, progress=_progress(stage, o.data)
    )
    typer.echo("\n".join([f"{o.data}: {len(images):,} images of {images.form}", *images.notes]), err=True)
    return images


def read_like(data: str, model: Path, skip_bad: bool, stage: Stage) -> Any:
    """Images in the form of the training images; raises InvalidArgumentError if they do not fit."""
    form = form_of(model)
    if form is None:
        raise InvalidArgumentError("data", data, "arrays, since the model was fitted to arrays", "or fit on a folder")
    images = equitangents.data.load_images_like(data, form, skip_bad=skip_bad, progress=_progress(stage, data))
    for line in images.notes:
        typer.echo(line, err=True)
    return images


def check_array(x: LazyArray, model: Path) -> None:
    """Raise if an array has another scale than the training images, [0, 1]."""
    import numpy as np

    form = form_of(model)
    if form is None or form.unit == "its own" or not x.shape[0]:
        return
    first = np.asarray(x[: min(x.shape[0], 100)])
    largest = float(np.max(np.abs(first.astype(np.float64)))) if first.dtype.kind in "buif" and first.size else 0.0
    if largest > 2:  # noise goes beyond 1
        raise InvalidArgumentError(
            "data", largest, "pixels in [0, 1], as the model was fitted to", "divide by 255", verb="has numbers up to"
        )


def form_of(model: Path) -> Any:
    """The form of the training images of a saved model; None for arrays."""
    from equitangents.ensembles.infinite.saving import about_model
    from equitangents.ensembles.saved_folder import damaged

    entries = about_model(model)["images"]
    if entries is None:
        return None
    with suppress(TypeError):
        form: Any = equitangents.data.labelled_images.ImageForm(**entries)
        if 0 < form.height < _SIDE and 0 < form.width < _SIDE and form.channels in (1, 3):
            return form
    raise damaged(model, "the form of its images cannot be")


def _progress(stage: Stage, data: str) -> Callable[[int, int], None]:
    stage(f"listing {data}")

    def progress(done: int, count: int) -> None:
        if done == count or done % max(1, count // 100) == 0:  # 100 times
            stage(f"reading images: {done:,} of {count:,}")

    return progress
