"""Data sets kept in one folder: which folder, and how an archive in it, or a folder of images, becomes a Dataset.

An archive `<name>.npz` holds `train_x`, `test_x` (uint8, (N, H, W) or (N, H, W, C)), `train_y`, `test_y` (integers)
and, where known, `class_names` and `train_tile`, `test_tile`.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from equitangents.errors import EquitangentsError, InvalidArgumentError
from equitangents.extending import UNREADABLE, check_arrays
from equitangents_studies.data.catalogue import SOURCES, Source
from equitangents_studies.data.class_folders import load_class_folders
from equitangents_studies.data.dataset import Dataset
from equitangents_studies.data.digits import digits

ENVIRONMENT_VARIABLE = "EQUITANGENTS_DATA"
_HOW_TO_SET = f"give the folder with data_dir=... (--data-dir on the command line) or set {ENVIRONMENT_VARIABLE}"


class DataNotFoundError(EquitangentsError, FileNotFoundError):
    """A data file is not where it was looked for; the message names the file, the folder and how to set it."""


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
    """Whether `load(name, data_dir)` would find its file."""
    if name == "digits":
        return True
    folder = data_folder(data_dir)
    if folder is None:
        return False
    source = _source(name)
    return (folder / source.folder).is_dir() if source.folder else (folder / source.file).is_file()


def load(name: str, data_dir: str | Path | None = None) -> Dataset:
    """The data set called `name`, images as float32 `(N, H, W, C)` in [0, 1].

    "digits" ships with scikit-learn; every other set is read from `<name>.npz` in `data_dir`, or in the folder named
    by the environment variable EQUITANGENTS_DATA; "nct_crc_he" is 10,000 random images of the folder NCT-CRC-HE-100K
    there (`load_class_folders` reads others). Nothing is downloaded: see `equitangents_studies.data.download`.

    Raises InvalidArgumentError for an unknown name or a malformed file, DataNotFoundError where the file is missing.
    """
    if name == "digits":
        return digits()
    source = _source(name)
    path = _path(source, data_dir)
    if source.folder:
        return load_class_folders(path, name=source.name, citation=source.citation)
    return _read(path, source)


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise InvalidArgumentError(f"unknown data set {name!r}; known are {', '.join(names())}")
    return SOURCES[name]


def _path(source: Source, data_dir: str | Path | None) -> Path:
    folder, wanted = data_folder(data_dir), source.folder or source.file
    fetch = f", or fetch it with equitangents_studies.data.download({source.name!r}, folder)" if source.home else ""
    if folder is None:
        raise DataNotFoundError(f"{wanted} is needed and no data folder is set; {_HOW_TO_SET}{fetch}")
    if not folder.is_dir():
        raise DataNotFoundError(f"{wanted} was looked for in {folder}, which is not a folder; {_HOW_TO_SET}{fetch}")
    path = folder / wanted
    if not (path.is_dir() if source.folder else path.is_file()):
        raise DataNotFoundError(f"{wanted} is not in {folder}; put it there, {_HOW_TO_SET}{fetch}")
    return path


def _read(path: Path, source: Source) -> Dataset:
    try:
        with path.open("rb") as file:
            check_arrays(file)
            archive = np.load(file, allow_pickle=False)
            arrays = {key: archive[key] for key in archive.files}
    except UNREADABLE as error:
        raise InvalidArgumentError(f"{path} is not a readable NumPy archive: {error}") from None
    missing = [key for key in ("train_x", "train_y", "test_x", "test_y") if key not in arrays]
    if missing:
        raise InvalidArgumentError(f"{path} lacks {', '.join(missing)}; it holds {', '.join(arrays) or 'nothing'}")
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


def _unit_interval(x: np.ndarray, path: Path) -> np.ndarray:
    if x.dtype != np.uint8 or x.ndim not in (3, 4):
        raise InvalidArgumentError(
            f"images in {path} are {x.dtype} of shape {x.shape}; expected uint8 (N, H, W) or (N, H, W, C)"
        )
    x = x if x.ndim == 4 else x[..., None]
    return x.astype(np.float32) / np.float32(255)
