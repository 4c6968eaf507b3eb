"""Your own images with labels: one folder a class, or a table of file and label."""

from __future__ import annotations

import csv
import difflib
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError
from equitangents.extending import check_fits, check_whole, unquoted
from equitangents_studies.data.class_folders import class_files
from equitangents_studies.data.images import (
    SUFFIXES,
    Read,
    averaged_square,
    coloured,
    is_image_name,
    kind_of,
    pixels_of,
    read_image,
)

if TYPE_CHECKING:
    from PIL.Image import Image

_COLUMNS = ("file", "label")
_TURNED = (5, 6, 7, 8)  # orientations of EXIF with the sides exchanged
_ORIENTATION = 0x0112
_ALIKE = 8.0  # times: ratio of the largest to the smallest maximum of images in a unit of their own

Progress = Callable[[int, int], None]


@final
@dataclass(frozen=True)
class ImageForm:
    """Common form of images: height, width, channels and unit, and how other images may be converted to it.

    brought: whether larger images are cropped to the largest centred square and averaged down. grey_too: whether grey
    files are converted to colour. largest: the largest absolute pixel value, for files in another unit.
    """

    height: int
    width: int
    channels: int
    unit: str
    brought: bool
    grey_too: bool
    largest: float

    def __str__(self) -> str:
        return (
            f"{self.height}×{self.width} pixels, {'grey' if self.channels == 1 else 'colour'}, {_unit_name(self.unit)}"
        )


@final
@dataclass(frozen=True, eq=False, repr=False)
class LabelledImages:
    """`x` (N, H, W, C), `files` (N) relative to `folder`; `y` (N,) labels, or None; `notes`: a line per change.

    together: (N,) the source that images have in common; None if it is unknown.
    """

    folder: Path
    files: tuple[str, ...]
    x: Float[np.ndarray, "n height width channels"]
    y: np.ndarray | None
    form: ImageForm
    notes: tuple[str, ...]
    together: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.files)


class _Header(NamedTuple):
    """Header of an image file."""

    name: str
    height: int
    width: int
    channels: int
    unit: str


def load_labelled_images(
    path: str | Path,
    targets: str | Path | None = None,
    *,
    size: int | None = None,
    together: str | None = None,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> LabelledImages:
    """The images in `path`, one folder a class (CLASS/*.png), or those that the table `targets` names.

    Images of one source, such as the tiles of a slide, belong together: those of one folder CLASS/SOURCE/*.png, or with
    one entry in the column `together` of the table.

    The table is CSV with the columns file, relative to `path`, and label; whole numbers and text are classes, other
    numbers real targets. Images of one size are unchanged; else the largest centred square of each is averaged down to
    the smallest side there is, or to `size`. They are grey if all files are, else in colour; 8 and 16 bits become [0,
    1]; EXIF's orientation is followed. Files that cannot be read are an error; with `skip_bad` they are left out, and
    named in `notes`. `progress(read, total)` is called on the way.

    Raises InvalidArgumentError that names the file, folder, line or class that cannot be used, MemoryLimitError where
    the images together do not fit.

    >>> load_labelled_images("there/is/none")
    Traceback (most recent call last):
    equitangents.errors.InvalidArgumentError: data is 'there/is/none'; expected a folder
    """
    folder = _folder(path)
    notes: tuple[str, ...] = ()
    if targets is None:
        if not any(p.is_dir() and not p.name.startswith(".") for p in folder.iterdir()):
            table = "give a table with the columns file and label as well (--targets labels.csv)"
            raise InvalidArgumentError("data", str(folder), "a folder with a folder a class", table)
        files, classes = class_files(folder, deep=True, name="data")
        names, y = list(files.names), np.array([classes[label] for label in files.labels])
        left = sum(is_image_name(p) for p in folder.iterdir())
        sources = _folders(names, together)
    else:
        names, y, sources = _table(Path(targets).expanduser(), folder, together)
        left = len(set(images_in(folder)) - set(names))
    if left:
        notes = (f"{left:,} images without a label are left out",)
    readable = _Readable(folder, skip_bad)
    headers = readable.headers(names)
    form, more = _common(headers, None if size is None else check_whole("size", size, 1))
    x, headers = _read(readable, headers, form, progress)
    form = replace(form, largest=float(np.max(np.abs(x))))
    kept = {header.name for header in headers}
    rows = [i for i, name in enumerate(names) if name in kept]
    y, sources = y[rows], None if sources is None else sources[rows]
    kept_files = tuple(names[i] for i in rows)
    return LabelledImages(folder, kept_files, x, y, form, (*notes, *readable.notes, *more, *_counted(y)), sources)


def load_images_like(
    path: str | Path, form: ImageForm, *, skip_bad: bool = False, progress: Progress | None = None
) -> LabelledImages:
    """All images in `path` and its subfolders, sorted by name, in a given `form`.

    Raises InvalidArgumentError that names the first file of another size, other channels or another unit, before any
    image is decoded; `y` is None. Files that cannot be read are an error, or left out (`skip_bad`).
    """
    folder = _folder(path)
    names = images_in(folder)
    if not names:
        raise InvalidArgumentError("data", str(folder), "a folder with images", ", ".join(SUFFIXES))
    readable = _Readable(folder, skip_bad)
    headers = readable.headers(names)
    for header in headers:
        _check_like(folder, header, form)
    x, headers = _read(readable, headers, form, progress)
    largest = float(np.max(np.abs(x)))
    if form.unit == "its own" and not form.largest / _ALIKE <= largest <= form.largest * _ALIKE:
        unit = "bring both to the unit of the training set"
        raise InvalidArgumentError("data", largest, form.largest, unit, verb="has numbers up to")
    return LabelledImages(folder, tuple(header.name for header in headers), x, None, form, readable.notes)


def images_in(folder: Path) -> list[str]:
    """Names of all images in a folder and its subfolders, relative and sorted, without hidden files."""
    found = (p.relative_to(folder) for p in folder.rglob("*") if is_image_name(p))
    return sorted(p.as_posix() for p in found if not any(part.startswith(".") for part in p.parts))


def _folder(path: str | Path) -> Path:
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise InvalidArgumentError("data", str(path), "a folder")
    return folder


def _folders(names: list[str], together: str | None) -> np.ndarray | None:
    """The folder CLASS/SOURCE of each image, or the image itself if it is in none; None if all images are in none."""
    if together is not None:
        raise InvalidArgumentError(
            "together", together, "one folder a source in those of the classes", "or a table (--targets labels.csv)"
        )
    places = [PurePosixPath(name) for name in names]
    if all(len(place.parts) == 2 for place in places):
        return None
    return np.array([str(place.parent if len(place.parts) > 2 else place) for place in places])


def _table(path: Path, folder: Path, together: str | None) -> tuple[list[str], np.ndarray, np.ndarray | None]:
    """(file names, labels, sources or None) of a table; an error names the line that cannot be used."""
    columns = (*_COLUMNS,) if together is None else (*_COLUMNS, together.strip().lower())
    if not path.is_file():
        raise InvalidArgumentError("targets", str(path), "a file")
    check_fits(str(path), 8 * path.stat().st_size, "give a shorter one")
    try:
        text = path.read_text("utf-8-sig")
        first = text.partition("\n")[0]
        mark = max(",;\t", key=first.count)
        rows = list(csv.reader(text.splitlines(), delimiter=mark, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidArgumentError("targets", str(path), "a table of text in UTF-8", str(error)) from None
    heads = [head.strip().lower() for head in rows[0]] if rows else []
    if any(heads.count(column) != 1 for column in columns):
        near = {
            other: column
            for column in columns
            if column not in heads
            for other in difflib.get_close_matches(column, set(heads) - set(columns), n=1)
        }
        call = "; ".join(f"call {other!r} {column!r}" for other, column in near.items())
        raise InvalidArgumentError("targets", first.strip()[:80], columns, call, verb="names the columns")
    at = [heads.index(column) for column in columns]
    names: dict[str, str] = {}
    sources = []
    for number, row in enumerate(rows[1:], 2):
        if not any(cell.strip() for cell in row):
            continue
        wrong = partial(InvalidArgumentError, f"line {number} of {path}")
        if len(row) != len(heads):
            raise wrong(len(row), f"{len(heads)}, the columns of the first line", verb="has")
        name, label, *source = (unquoted(row[column].strip()) for column in at)
        place = PurePosixPath(name.replace("\\", "/"))
        if not name or not label:
            raise wrong("label" if name else "file", verb="has no")
        if place.is_absolute() or ".." in place.parts or ":" in place.parts[0]:
            raise wrong(name, "a file in the folder of the images", verb="names")
        if not (folder / place).is_file():
            raise wrong(name, "a file that exists", verb="names")
        if str(place) in names:
            raise wrong(name, "each file once", verb="names")
        if source == [""]:
            raise wrong(columns[-1], verb="has no")
        names[str(place)] = label
        sources += source
    if not names:
        raise InvalidArgumentError("targets", str(path), "a line for each image")
    return list(names), _labels(list(names.values())), None if together is None else np.array(sources)


def _labels(texts: list[str]) -> np.ndarray:
    """Labels from text: integers if all are whole numbers, floats if all are numbers, else text."""
    try:
        if all(str(int(text)) == text for text in texts):
            return np.array([int(text) for text in texts])
    except ValueError:
        pass
    try:
        numbers = np.array([float(text) for text in texts])
    except (ValueError, OverflowError):
        return np.array(texts)
    real = any(not number.is_integer() for number in numbers.tolist() if math.isfinite(number))
    return numbers if real and np.isfinite(numbers).all() else np.array(texts)


@dataclass(frozen=True)
class _Readable:
    """Files of a folder. Unreadable files are an error; with `skip` they are left out, for the reasons in `bad`."""

    folder: Path
    skip: bool
    bad: dict[str, str] = field(default_factory=dict)

    def read(self, name: str, of: Callable[[Image], Read]) -> Read | None:
        """`of` applied to the image in a file; None if it is left out."""
        try:
            return read_image(self.folder / name, of)
        except InvalidArgumentError as error:
            if not self.skip:
                raise InvalidArgumentError(f"{error}; remove it, or leave it out by skip_bad (--skip-bad)") from None
            self.bad[name] = str(error)
            return None

    def headers(self, names: list[str]) -> list[_Header]:
        """Headers of all files that can be opened; InvalidArgumentError if there are none."""
        return self.some([header for name in names if (header := self.read(name, partial(_header, name))) is not None])

    def some(self, headers: list[_Header]) -> list[_Header]:
        """`headers`; InvalidArgumentError if they are empty."""
        if not headers:
            raise InvalidArgumentError("data", str(self.folder), "images that can be read")
        return headers

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for each file that is left out."""
        return tuple(f"skipped: {why}" for why in self.bad.values())


def _header(name: str, image: Image) -> _Header:
    width, height = image.size
    if image.getexif().get(_ORIENTATION) in _TURNED:
        width, height = height, width
    return _Header(name, height, width, *kind_of(image))


def _common(headers: list[_Header], size: int | None) -> tuple[ImageForm, tuple[str, ...]]:
    """The form that all images can take, and notes about the conversion."""
    units = {header.unit: header.name for header in headers}
    if len(units) > 1:
        (unit, name), (other, _) = list(units.items())[:2]
        raise InvalidArgumentError(name, _unit_name(unit), _unit_name(other), "as the first one", verb="has")
    least = min(headers, key=lambda header: min(header.height, header.width))
    side = min(least.height, least.width)
    if size is not None and side < size:
        raise InvalidArgumentError("size", size, f"at most {side}", f"the side of {least.name}")
    sizes = Counter((header.height, header.width) for header in headers)
    channels = Counter(header.channels for header in headers)
    brought, notes = size is not None or len(sizes) > 1, []
    height, width = (size or side,) * 2 if brought else next(iter(sizes))
    others = len(headers) - sizes[height, width]
    if others:
        why = "requested size" if size else f"smallest side, that of {least.name}"
        notes.append(
            f"{others:,} of {len(headers):,} images are cut to the largest centred square and averaged down to "
            f"{height}×{width} pixels, the {why}"
        )
    if len(channels) > 1:
        notes.append(f"{channels[1]:,} grey images are taken as colours")
    form = ImageForm(height, width, max(channels), next(iter(units)), brought, len(channels) > 1, math.nan)
    return form, tuple(notes)


def _check_like(folder: Path, header: _Header, form: ImageForm) -> None:
    wrong = partial(InvalidArgumentError, str(folder / header.name), verb="has")
    if header.unit != form.unit:
        raise wrong(_unit_name(header.unit), _unit_name(form.unit), "as the training set")
    if header.channels != form.channels and not (header.channels == 1 and form.grey_too):
        raise wrong(header.channels, form.channels, "the channels of the training set")
    size, wanted = (header.height, header.width), (form.height, form.width)
    if size != wanted and (not form.brought or min(size) < form.height):
        remedy = "or larger" if form.brought else f"`fit --size {min(wanted)}` takes larger ones, too"
        raise wrong(size, wanted, remedy, verb="is of shape")


def _read(
    readable: _Readable, headers: list[_Header], form: ImageForm, progress: Progress | None
) -> tuple[np.ndarray, list[_Header]]:
    """All images that can be decoded, (N, H, W, C) in float32, and their headers."""
    count = len(headers)
    shape = (count, form.height, form.width, form.channels)
    check_fits(f"{count:,} images of {form}", 4 * math.prod(shape), "give fewer images, or a smaller size")
    x = np.empty(shape, np.float32)
    for i, header in enumerate(headers):
        pixels = readable.read(header.name, _upright)
        if progress is not None:
            progress(i + 1, count)
        if pixels is None:
            continue
        if pixels.shape[:2] != (form.height, form.width):
            pixels = averaged_square(pixels, form.height)
        x[i] = coloured(pixels) if form.channels == 3 else pixels
    rows = [i for i, header in enumerate(headers) if header.name not in readable.bad]
    kept = readable.some([headers[i] for i in rows])
    return (x if len(rows) == count else x[rows]), kept


def _upright(image: Image) -> np.ndarray:
    from PIL import ImageOps

    kind = image.format
    image = ImageOps.exif_transpose(image)
    image.format = kind  # which a copy forgets
    return pixels_of(image)


def _counted(y: np.ndarray) -> tuple[str, ...]:
    """One line: the number of images of each class."""
    if y.dtype.kind == "f":
        return ()
    counts = Counter(y.tolist())
    some = [f"{label} {number:,}" for label, number in sorted(counts.items())]
    return (f"{len(counts)} classes: " + ", ".join(some[:12]) + (", …" if len(some) > 12 else ""),)


def _unit_name(unit: str) -> str:
    return "numbers of its own" if unit == "its own" else unit
