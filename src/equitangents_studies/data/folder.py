"""Data sets in files: sources by name, reading archives and image folders as a Dataset, and downloads.

A known archive `<name>.npz` holds `train_x`, `test_x` (uint8, (N, H, W) or (N, H, W, C)), `train_y`, `test_y`
(integers) and, where known, `class_names` and `train_tile`, `test_tile`. Your own archive holds `x` and `y`, and either
`x_test` and `y_test`, or it is split by seed. Only `download` fetches sets from their public homes, and it checks the
SHA-256 of every file.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import tempfile
import tomllib
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.errors import EquitangentsError, InvalidArgumentError, NotFiniteError, ShapeError
from equitangents.extending import atomic_file, read_named, require
from equitangents_studies.data.class_folders import class_files
from equitangents_studies.data.dataset import Dataset, balanced, digits
from equitangents_studies.data.images import averaged_square, coloured, pixels_of, read_image

ENVIRONMENT_VARIABLE = "EQUITANGENTS_DATA"
_HOW_TO_SET = f"give its folder (data_dir='FOLDER') or set {ENVIRONMENT_VARIABLE}"


@dataclass(frozen=True)
class RemoteFile:
    """One file of a data set's public home, with its SHA-256 checksum."""

    url: str
    sha256: str

    @property
    def name(self) -> str:
        """The file's name, the last part of its address."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class DataSource:
    """A data set kept as `<name>.npz`, or as `folder` with one folder of images a class.

    `home` lists the files that `download` fetches, in the order that their reader expects.
    """

    name: str
    citation: str
    class_names: tuple[str, ...] = ()
    format: str = ""
    home: tuple[RemoteFile, ...] = ()
    folder: str = ""

    @property
    def file(self) -> str:
        """The file's name in the data folder."""
        return f"{self.name}.npz"


def _source(name: str, class_names: Sequence[str] = (), home: Sequence[dict[str, str]] = (), **kept: Any) -> DataSource:
    return DataSource(name, class_names=tuple(class_names), home=tuple(RemoteFile(**file) for file in home), **kept)


_KEPT = tomllib.loads(Path(__file__).with_name("sources.toml").read_text(encoding="utf-8"))
SOURCES: dict[str, DataSource] = {name: _source(name, **kept) for name, kept in _KEPT["images"].items()}
MOLECULE_SOURCES: dict[str, DataSource] = {name: _source(name, **kept) for name, kept in _KEPT["molecules"].items()}


class DataNotFoundError(EquitangentsError, FileNotFoundError):
    """A data file is missing; the message names the file, the folder and how to set it."""


def names() -> tuple[str, ...]:
    """Every name that `load` knows."""
    return ("digits", *SOURCES)


def data_folder(data_dir: str | Path | None = None) -> Path | None:
    """`data_dir` if given, else the folder named by EQUITANGENTS_DATA, else None."""
    if data_dir is not None:
        return Path(data_dir).expanduser()
    value = os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(value).expanduser() if value else None


def available(name: str, data_dir: str | Path | None = None) -> bool:
    """Whether the file of a data set exists, including molecules ("qm9", "qm7", "rmd17", "water_tensors")."""
    if name == "digits":
        return True
    folder, known = data_folder(data_dir), SOURCES | MOLECULE_SOURCES
    if name not in known:
        raise InvalidArgumentError("data set", name, [*names(), *MOLECULE_SOURCES])
    return folder is not None and in_folder(known[name], folder)


def in_folder(source: DataSource, folder: Path) -> bool:
    """Whether the file, or the folder, of a data set is in the data folder."""
    return (folder / source.folder).is_dir() if source.folder else (folder / source.file).is_file()


def load(name: str, data_dir: str | Path | None = None) -> Dataset:
    """The data set called `name`, images as float32 `(N, H, W, C)` in [0, 1].

    "digits" ships with scikit-learn; every other set is read from `<name>.npz` in `data_dir`, or in the folder named
    by the environment variable EQUITANGENTS_DATA; "nct_crc_he" is 10,000 random images of the folder NCT-CRC-HE-100K
    there. Nothing is downloaded: see `equitangents_studies.data.folder`.

    Raises InvalidArgumentError for an unknown name or a malformed file, DataNotFoundError where the file is missing.
    """
    if name == "digits":
        return digits()
    if name not in SOURCES:
        raise InvalidArgumentError("data set", name, list(names()))
    source = SOURCES[name]
    path = file_of(source, data_dir)
    if source.folder:
        return _sample(path, source)
    return _read(path, source)


def file_of(source: DataSource, data_dir: str | Path | None) -> Path:
    """Path of a data set's file or folder. Raises DataNotFoundError if it is missing."""
    folder, wanted = data_folder(data_dir), source.folder or source.file
    fetch = f", or fetch it in Python: equitangents.data.download({source.name!r}, folder)" if source.home else ""
    if folder is None:
        raise DataNotFoundError(f"{wanted} is needed and no data folder is set; {_HOW_TO_SET}{fetch}")
    if not folder.is_dir():
        raise DataNotFoundError(f"{wanted} was looked for in {folder}, which is not a folder; {_HOW_TO_SET}{fetch}")
    if not in_folder(source, folder):
        raise DataNotFoundError(f"{wanted} is not in {folder}; put it there, {_HOW_TO_SET}{fetch}")
    return folder / wanted


def _read(path: Path, source: DataSource) -> Dataset:
    arrays = read_named("data", path, ("train_x", "train_y", "test_x", "test_y"))
    labels = np.concatenate([arrays["train_y"], arrays["test_y"]])
    names_in_file = tuple(str(n) for n in arrays.get("class_names", ()))
    return Dataset(
        name=source.name,
        train_x=_unit_interval(arrays["train_x"], path),
        train_y=arrays["train_y"].astype(np.int64),
        test_x=_unit_interval(arrays["test_x"], path),
        test_y=arrays["test_y"].astype(np.int64),
        class_names=names_in_file or source.class_names or tuple(str(i) for i in range(int(labels.max()) + 1)),
        citation=source.citation,
        train_tile=arrays.get("train_tile"),
        test_tile=arrays.get("test_tile"),
    )


_SAMPLED, _SIDE, _TESTED = 10_000, 32, 1 / 12


def _sample(path: Path, source: DataSource) -> Dataset:
    """Random images of a folder with one folder of images a class, averaged down; the last ones are for testing."""
    files, classes = class_files(path)
    files = files[np.random.default_rng(0).permutation(len(files))[:_SAMPLED]]
    of = lambda name: averaged_square(coloured(read_image(path / name, pixels_of)), _SIDE)
    x, y = np.stack([of(name) for name in files.names]), files.labels
    split = len(x) - max(1, round(_TESTED * len(x)))
    return Dataset(source.name, x[:split], y[:split], x[split:], y[split:], classes, source.citation)


def _unit_interval(x: np.ndarray, path: Path) -> np.ndarray:
    if x.dtype != np.uint8 or x.ndim not in (3, 4):
        raise InvalidArgumentError(
            "images", (str(x.dtype), x.shape), "uint8 (N, H, W) or (N, H, W, C)", str(path), verb="are"
        )
    x = x if x.ndim == 4 else x[..., None]
    return x.astype(np.float32) / np.float32(255)


_TEST_SHARE = 0.25


def load_own(path: str | Path, *, seed: int = 0) -> Dataset:
    """The data set in the archive `path`: `x` (N, H, W) or (N, H, W, C), numbers, and `y` (N,), labels of any type.

    Without `x_test` and `y_test` a quarter of every class, drawn by `seed`, is the test set. `class_names` are the
    sorted labels. Numbers of type uint8 are divided by 255.

    Raises InvalidArgumentError for a file that is missing, is no archive, lacks an array or repeats one image,
    ShapeError for arrays that do not fit each other, NotFiniteError for NaN.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise InvalidArgumentError("data", str(path), "a file")
    arrays = read_named("data", path, ("x", "y"))
    tested = "x_test" in arrays or "y_test" in arrays
    if tested and not {"x_test", "y_test"} <= arrays.keys():
        raise InvalidArgumentError("data", str(path), "both x_test and y_test, or none")
    parts = [("x", "y")] + ([("x_test", "y_test")] if tested else [])
    images = [_images(arrays[x], x, path) for x, _ in parts]
    labels = [_labels(arrays[y], y, len(arrays[x]), path) for x, y in parts]
    classes, index = np.unique(np.concatenate(labels), return_inverse=True)
    if len(classes) < 2:
        raise InvalidArgumentError("y", classes[0].item(), "at least 2 classes", str(path), verb="holds one class,")
    if len(images[0]) > 1 and (images[0] == images[0][:1]).all():
        raise InvalidArgumentError(
            "x", len(images[0]), "different images", str(path), verb="holds the same image this many times:"
        )
    y = np.split(index.astype(np.int64), [len(labels[0])])
    if len(parts) == 1:
        rows = balanced(y[0], len(y[0]), np.random.default_rng(seed), f"images of {path.name!r}")
        cut = max(1, round(_TEST_SHARE * len(rows)))
        train, test = np.sort(rows[cut:]), np.sort(rows[:cut])
        images, y = [images[0][train], images[0][test]], [y[0][train], y[0][test]]
    if images[0].shape[1:] != images[1].shape[1:]:
        raise ShapeError(
            "x_test", images[1].shape[1:], images[0].shape[1:], "images as those of x", verb="has images of shape"
        )
    return Dataset(path.name, images[0], y[0], images[1], y[1], tuple(str(c) for c in classes.tolist()))


def _images(x: np.ndarray, name: str, path: Path) -> np.ndarray:
    if x.ndim not in (3, 4) or x.dtype.kind not in "buif" or 0 in x.shape:
        raise ShapeError(name, (str(x.dtype), x.shape), "numbers (N, H, W) or (N, H, W, C)", str(path), verb="is")
    if not np.isfinite(x).all():
        raise NotFiniteError(name, "NaN or infinite values", "finite numbers", str(path), verb="holds")
    scale = np.float32(255) if x.dtype == np.uint8 else np.float32(1)
    return (x if x.ndim == 4 else x[..., None]).astype(np.float32) / scale


def _labels(y: np.ndarray, name: str, count: int, path: Path) -> np.ndarray:
    if y.ndim != 1 or y.dtype.kind not in "buifUS" or len(y) != count:
        raise ShapeError(name, (str(y.dtype), y.shape), (count,), "a label for each image", verb="is")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise NotFiniteError(name, "NaN or infinite values", "finite numbers", str(path), verb="holds")
    return y


class DownloadError(EquitangentsError, OSError):
    """A file could not be fetched, or is not the file that was expected."""


def download(name: str, data_dir: str | Path | None = None, *, timeout: float = 60.0) -> Path:
    """Fetch `name` from its public home into `<data_dir>/<name>.npz` and return that path.

    An existing file is kept. Every fetched file is compared with its SHA-256; the archive appears only when complete.
    Raises InvalidArgumentError where the set has no public home or no folder is set, DownloadError where fetching
    fails or a checksum differs.
    """
    fetchable = [s.name for s in SOURCES.values() if s.home]
    if name not in fetchable:
        raise InvalidArgumentError("name", name, list(fetchable), "these can be downloaded")
    folder = data_folder(data_dir)
    if folder is None:
        raise InvalidArgumentError("data_dir", None, "a folder for the download", f"or set {ENVIRONMENT_VARIABLE}")
    source = SOURCES[name]
    target = folder / source.file
    if target.is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        files = [_fetch(remote, Path(scratch), timeout) for remote in source.home]
        arrays: dict[str, Any] = dict(_READERS[source.format](files))
    with atomic_file(target) as partial:
        np.savez_compressed(partial, **arrays, class_names=np.array(source.class_names))
    return target


def _fetch(remote: RemoteFile, folder: Path, timeout: float) -> Path:
    pooch = require("pooch", "studies", "a download")
    pooch.get_logger().setLevel("WARNING")
    http = remote.url.startswith(("http://", "https://"))
    try:
        path = pooch.retrieve(
            remote.url,
            known_hash=f"sha256:{remote.sha256}",
            fname=remote.name,
            path=folder,
            downloader=pooch.HTTPDownloader(timeout=timeout) if http else _from_disk,
        )
    except OSError as error:  # those of requests are such
        raise DownloadError(f"{remote.url} could not be fetched: {error}") from None
    except ValueError as error:
        raise DownloadError(f"{remote.url} is not the file of SHA-256 {remote.sha256}: {error}") from None
    return Path(path)


def _from_disk(url: str, target: Any, _: Any) -> None:
    """Copy from a mirror on disk: pooch does not support file: addresses."""
    with urllib.request.urlopen(url) as source, open(target, "wb") as out:
        shutil.copyfileobj(source, out)


def _read_idx(path: Path) -> np.ndarray:
    """An IDX file: two zero bytes, a type (8 = uint8), the rank, big-endian sizes, then the data."""
    with gzip.open(path, "rb") as file:
        content = file.read()
    kind, rank = content[2], content[3]
    if content[:2] != b"\0\0" or kind != 8:
        raise DownloadError(f"{path.name} is not an IDX file of bytes")
    shape = np.frombuffer(content, dtype=">i4", count=rank, offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * rank).reshape([int(s) for s in shape])


def _idx_set(files: list[Path]) -> dict[str, np.ndarray]:
    return dict(zip(("train_x", "train_y", "test_x", "test_y"), map(_read_idx, files), strict=True))


def _cifar_set(files: list[Path]) -> dict[str, np.ndarray]:
    """Records of 1 label byte and 3,072 pixel bytes, channel by channel, five training files and one test file."""
    blocks: dict[str, list[np.ndarray]] = {"train": [], "test": []}
    with tarfile.open(files[0], "r:gz") as archive:
        for member in sorted(archive.getmembers(), key=lambda m: m.name):
            stream = archive.extractfile(member) if member.name.endswith(".bin") else None
            if stream is not None:
                records = np.frombuffer(stream.read(), dtype=np.uint8).reshape(-1, 3073)
                blocks["test" if "test" in member.name else "train"].append(records)
    if not all(blocks.values()):
        raise DownloadError(f"{files[0].name} lacks its .bin files")
    arrays = {}
    for part, found in blocks.items():
        records = np.concatenate(found)
        arrays[f"{part}_x"] = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        arrays[f"{part}_y"] = records[:, 0]
    return arrays


_READERS = {"idx": _idx_set, "cifar": _cifar_set}
