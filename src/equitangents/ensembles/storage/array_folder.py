"""A folder of one JSON file and arrays, each with its checksum, that is replaced in one step.

The arrays of a save are one file, `arrays-….bin`, which is never changed. `model.json` says which one, what is in it,
and everything else: its new content takes the place of the old one in one step. Whoever reads it opens the arrays then,
and holds them whatever is saved meanwhile. Other files in the folder are left alone; what processes that were killed
left there, or beside it, is removed by the next save.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import uuid
import weakref
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equitangents import locks
from equitangents.claims import UNREADABLE, read_json
from equitangents.errors import StoreError
from equitangents.files import (
    closed,
    file_bytes,
    folder_beside,
    is_abandoned,
    is_old,
    real,
    remove_folder,
    sync_folder,
    whole_file,
)
from equitangents.tiles import records
from equitangents.tiles.store import store_errors

ABOUT = "model.json"
_BLOCK = 2**26  # bytes that are read, or written, and checked at once
_ARRAYS = re.compile(r"arrays-[0-9a-f]{32}\.bin")
_CHANGES = 1000  # of a folder that is replaced again and again, while one reads


def write_folder(path: Path, about: dict[str, Any], arrays: Sequence[np.ndarray]) -> None:
    """Save `about`, which JSON can hold, and the arrays in the folder `path`, whole or not at all.

    Raises StoreError where the disk is full, or nothing may be written.
    """
    home = real(path)
    with store_errors(f"{path} cannot be written", "; what was saved there before is kept", with_file=True):
        if not home.exists():
            new = folder_beside(home)
            try:
                _write_version(new, about, arrays, home)
            finally:
                remove_folder(new)
        else:
            _write_version(home, about, arrays)
    with contextlib.suppress(OSError):  # the model is saved; the next one tries again
        _sweep(home)


class About(dict[str, Any]):
    """What `read_about` found; it holds the file of its arrays open, that of one save."""

    def __init__(self, content: dict[str, Any], file: Path, descriptor: int) -> None:
        super().__init__(content)
        self.file, self.descriptor = file, descriptor
        weakref.finalize(self, os.close, descriptor)


def read_about(path: Path, said: str) -> dict[str, Any]:
    """What `write_folder` wrote in its JSON file; StoreError that begins with `said` for anything else."""
    home = real(path)
    for _ in range(_CHANGES):
        text, content = _content(home, path, said)
        try:
            return About(content, *_opened(home, content))
        except FileNotFoundError as error:
            if _content(home, path, said)[0] == text:  # else another one was saved in between
                missing = Path(str(error.filename)).name
                raise StoreError(f"{said} is damaged: {missing} is not there; fit the model again") from None
        except OSError as error:
            raise StoreError(f"{said} cannot be read: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise StoreError(f"{said} is damaged: {error}; fit the model again") from None
    raise StoreError(f"{said} is replaced again and again; try again when that is over")


def read_array(path: Path, about: dict[str, Any], number: int, said: str) -> np.ndarray:
    """One array, after its checksum was found right; StoreError that begins with `said` where it is not."""
    name = "its arrays"
    try:
        if not isinstance(about, About):
            about = About(about, *_opened(real(path), about))
        name = about.file.name
        return _read_array(about.descriptor, about["arrays"][number])
    except OSError as error:
        raise StoreError(f"{said} cannot be read: {name}: {error.strerror or error}") from None
    except UNREADABLE as error:
        raise StoreError(f"{said} is damaged: {name}: {error}; fit the model again") from None


class Arrays:
    """Arrays of a folder, read as they are asked for."""

    def __init__(self, path: Path, about: dict[str, Any], said: str) -> None:
        self._from, self._read = (path, about, said), dict[int, Any]()

    def __getitem__(self, number: int) -> np.ndarray:
        if number not in self._read:
            path, about, said = self._from
            self._read[number] = read_array(path, about, number, said)
        return self._read[number]


def _content(home: Path, path: Path, said: str) -> tuple[bytes, dict[str, Any]]:
    try:
        text = file_bytes(home / ABOUT)
        whole = read_json(text)
        content: dict[str, Any] = whole["content"]
        if not isinstance(content, dict) or whole["sha256"] != records.checksum(content):
            raise ValueError("it does not have its checksum")
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{said} is not a model that was saved: it holds no {ABOUT}") from None
    except OSError as error:
        raise StoreError(f"{said} cannot be read: {ABOUT}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"{said} is damaged, or not a model that was saved: {ABOUT}: {error}") from None
    return text, content


def _opened(home: Path, content: dict[str, Any]) -> tuple[Path, int]:
    """The file of the arrays, open; ValueError where it is not as long as all that it holds."""
    if not _ARRAYS.fullmatch(content["file"]):
        raise ValueError(f"file is {content['file']!r}")
    path, needed = home / content["file"], sum(map(_size, content["arrays"]))
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    size = os.fstat(descriptor).st_size
    if size != needed:
        os.close(descriptor)
        raise ValueError(f"{path.name} has {size} bytes, not {needed}")
    return path, descriptor


def _read_array(descriptor: int, entry: dict[str, Any]) -> np.ndarray:
    shape, order, size = tuple(entry["shape"]), entry["order"], _size(entry)
    if order not in ("C", "F") or not 0 <= entry["start"] <= os.fstat(descriptor).st_size - size:
        raise ValueError("its place is not one")
    numbers, checksum = np.empty(size, np.uint8), 0
    with os.fdopen(os.dup(descriptor), "rb", buffering=0) as file:
        file.seek(entry["start"])
        for start in range(0, size, _BLOCK):
            block = numbers[start : start + _BLOCK]
            read = 0
            while read < len(block):
                more = file.readinto(block[read:].data)
                if not more:
                    raise EOFError("it ends too early")
                read += more
            checksum = zlib.crc32(block.data, checksum)
    if checksum != entry["crc32"]:
        raise ValueError("it does not have its checksum")
    return numbers.view(_dtype(entry)).reshape(shape, order=order)


def _dtype(entry: dict[str, Any]) -> np.dtype:
    described: Any = entry["dtype"] if isinstance(entry["dtype"], str) else _tuples(entry["dtype"])
    dtype: np.dtype = np.lib.format.descr_to_dtype(described)
    if dtype.hasobject or not dtype.itemsize:
        raise ValueError(f"dtype is {described!r}")
    return dtype


def _tuples(described: Any) -> Any:
    """What JSON made of the fields of a dtype."""
    return [tuple(map(tuple, field)) if isinstance(field[1], list) else tuple(field) for field in described]


def _size(entry: dict[str, Any]) -> int:
    shape = entry["shape"]
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"shape is {shape!r}")
    size = _dtype(entry).itemsize
    for length in shape:
        size *= length
    return size


def _write_version(folder: Path, about: dict[str, Any], arrays: Sequence[np.ndarray], home: Path | None = None) -> None:
    """Write arrays and JSON into `folder`, and then give that the name `home`, if there is nothing of that name."""
    name = f"arrays-{uuid.uuid4().hex}.bin"
    descriptor = locks.created(folder / name)  # held until the JSON names it
    try:
        entries, start = [], 0
        for array in arrays:
            entries.append({"start": start, **_write_array(descriptor, array)})
            start += array.nbytes
        os.fsync(descriptor)
        content = about | {"file": name, "arrays": entries}
        text = json.dumps({"content": content, "sha256": records.checksum(content)}, indent=1)
        with whole_file(folder / ABOUT) as partial:
            partial.write_bytes(text.encode())
        sync_folder(folder)
        if home is not None and sys.platform == "win32":  # which renames no folder with an open file
            descriptor = closed(descriptor)
        if home is not None and not _named(folder, home):  # another process has saved there
            _write_version(home, about, arrays)
    except BaseException:
        if _current(folder) != name:
            (folder / name).unlink(missing_ok=True)
        raise
    finally:
        closed(descriptor)


def _named(folder: Path, home: Path) -> bool:
    """Whether a new folder has its name now; it has not where that is another one's."""
    try:
        os.rename(folder, home)
    except OSError:
        if home.is_dir():
            return False
        raise
    sync_folder(home.parent)
    return True


def _write_array(descriptor: int, array: np.ndarray) -> dict[str, Any]:
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    plain = np.ascontiguousarray(array.T if order == "F" else array)
    numbers, checksum = plain.reshape(-1).view(np.uint8), 0
    for start in range(0, len(numbers), _BLOCK):
        block = numbers[start : start + _BLOCK]
        checksum = zlib.crc32(block.data, checksum)
        written = 0
        while written < len(block):
            written += os.write(descriptor, block[written:].data)
    dtype = np.lib.format.dtype_to_descr(array.dtype)
    return {"shape": list(array.shape), "dtype": dtype, "order": order, "crc32": checksum}


def _current(folder: Path) -> str | None:
    """The file of arrays that the JSON names; None where there is no JSON that can be read."""
    try:
        return str(read_json(file_bytes(folder / ABOUT))["content"]["file"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _sweep(home: Path) -> None:
    """Remove what earlier saves left in the folder, and what those that were killed left in it and beside it."""
    for file in [path for path in home.iterdir() if _ARRAYS.fullmatch(path.name)]:
        # in this order: a writer has the JSON name its arrays, and then holds them no more
        if is_abandoned(file) and _current(home) not in (None, file.name):
            file.unlink(missing_ok=True)
    for left in _beside(home):
        files = [path for path in left.iterdir() if _ARRAYS.fullmatch(path.name)]
        if all(map(is_abandoned, files)) if files else is_old(left):
            for file in [*(path for path in left.iterdir() if path not in files), *files]:
                file.unlink(missing_ok=True)
            left.rmdir()


def _beside(home: Path) -> Iterator[Path]:
    """Folders that were to take the name of this one, and hold nothing but what we write."""
    ours = re.compile(rf"\.{re.escape(home.name)}-[0-9a-f]{{32}}")
    known = re.compile(rf"{_ARRAYS.pattern}|{re.escape(ABOUT)}|\.model-[0-9a-f]{{32}}\.json")
    for path in home.parent.iterdir():
        mine = ours.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
        if mine and all(known.fullmatch(file.name) for file in path.iterdir()):
            yield path
