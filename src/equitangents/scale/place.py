"""Locations of stores: a folder on this machine, or a place in an object store, given by its URL.

Folders and files are `pathlib.Path`; an `ObjectPath` has the methods of Path that stores need. Objects appear complete
or not at all, so that one put replaces writing a temporary file and renaming it. Credentials and addresses come from
each process's environment; none is sent to workers. obstore retries requests without an answer.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

from equitangents import files
from equitangents._types import FileName
from equitangents.errors import InvalidArgumentError, StoreError, require
from equitangents.files import MOST, atomic_file, file_bytes
from equitangents.formatting import memory_size

PATIENCE = timedelta(seconds=180)  # for which a request is made again while an object store does not answer
_PAUSES: Any = {"init_backoff": timedelta(seconds=0.2), "max_backoff": timedelta(seconds=5), "base": 2}
SCHEMES = ("s3", "gs", "az")
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/(?P<second>/?)")  # one letter and a colon is a disk of Windows


@dataclass(frozen=True, order=True)
class ObjectPath:
    """An object, or all whose names begin with it: `key` in the bucket or container `root`, such as s3://bucket."""

    root: str
    key: str = ""

    def __str__(self) -> str:
        return f"{self.root}/{self.key}"

    def __truediv__(self, part: str) -> ObjectPath:
        return ObjectPath(self.root, posixpath.join(self.key, part))

    @property
    def name(self) -> str:
        """The last part of its key."""
        return posixpath.basename(self.key)

    def with_name(self, name: str) -> ObjectPath:
        """The place with this name in the same parent."""
        return ObjectPath(self.root, posixpath.join(posixpath.dirname(self.key), name))

    def resolve(self) -> ObjectPath:
        """The place itself: there are no links."""
        return self

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: there are no folders."""

    def exists(self) -> bool:
        """Whether there is an object at or below this name."""
        return self.size() is not None or next(self.sizes(), None) is not None

    def size(self) -> int | None:
        """Bytes of the object; None if there is none."""
        with _requests(self), suppress(FileNotFoundError):
            return int(bucket(self.root).head(self.key)["size"])
        return None

    def sizes(self) -> Iterator[tuple[str, int]]:
        """(name after `key/`, bytes) of all objects below it, a thousand per request."""
        start = len(self.key) + 1 if self.key else 0
        with _requests(self):
            found = [each for some in bucket(self.root).list(self.key or None) for each in some]
        for each in found:
            yield each["path"][start:], each["size"]

    def read_bytes(self, most: int | None = None) -> bytes:
        """The object's content; FileNotFoundError if there is none, OSError if it is larger than `most` bytes."""
        with _requests(self):
            found = bucket(self.root).get(self.key)
            if most is not None and (size := int(found.meta["size"])) > most:
                raise OSError(errno.EFBIG, f"it takes {size:,} bytes; expected at most {most:,}", str(self))
            return bytes(found.bytes())

    def write_bytes(self, content: bytes, *, once: bool = False) -> None:
        """Store the object atomically; `once`: FileExistsError if it exists."""
        with _requests(self):
            try:
                bucket(self.root).put(self.key, content, mode="create" if once else "overwrite")
            except _library().exceptions.AlreadyExistsError:
                raise FileExistsError(errno.EEXIST, "there is such an object", str(self)) from None

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object; no error if there is none."""
        with _requests(self), suppress(FileNotFoundError):
            bucket(self.root).delete(self.key)

    def remove_all(self) -> None:
        """Remove all objects below it, its `zarr.json` first, so that no reader takes the rest for complete."""
        (self / "zarr.json").unlink()
        keys = [f"{self.key}/{name}" for name, _ in self.sizes()]
        with _requests(self):
            for start in range(0, len(keys), 1000):
                bucket(self.root).delete(keys[start : start + 1000])


Place = Path | ObjectPath


def write_whole(at: Place, content: bytes, *, once: bool = False) -> None:
    """Write `content` atomically to a file or an object; `once`: FileExistsError if it exists."""
    if isinstance(at, ObjectPath):
        at.write_bytes(content, once=once)
    else:
        with atomic_file(at, once=once) as partial:
            partial.write_bytes(content)


def sweep(folder: Place) -> None:
    """Remove dead processes' unfinished files from a folder and its subfolders; objects are never unfinished."""
    if isinstance(folder, Path):
        for name, _, _ in os.walk(folder, topdown=False):
            files.sweep(Path(name))


def place(name: str, path: FileName | ObjectPath) -> Place:
    """A folder or file on this machine, or a place in an object store, s3://, gs:// or az://.

    InvalidArgumentError, which names the argument `name`, for other URLs; MissingLibraryError without obstore.
    """
    if isinstance(path, ObjectPath):
        return path
    text = os.fspath(path)
    url = _URL.match(text)
    if url is None:
        return Path(path).expanduser()
    parts = urlsplit(text)
    key = posixpath.normpath(parts.path).strip("/")
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(url2pathname(parts.path))
    wrong = not parts.netloc or key in ("", ".") or key.startswith("..") or parts.query or parts.fragment
    if parts.scheme not in SCHEMES or not url["second"] or wrong:
        raise InvalidArgumentError(name, text, "a path of this machine, or scheme://bucket/name of s3, gs or az")
    found = ObjectPath(f"{parts.scheme}://{parts.netloc}", key)
    try:
        bucket(found.root)
    except _library().exceptions.BaseError as error:
        raise InvalidArgumentError(name, text, "a place that can be opened", _message(error)) from None
    return found


def local(name: str, path: FileName | ObjectPath) -> Path:
    """A path on this machine; InvalidArgumentError for object stores, which cannot hold such files."""
    url = None if isinstance(path, ObjectPath) else _URL.match(os.fspath(path))
    if isinstance(path, ObjectPath) or (url is not None and url["scheme"].lower() != "file"):
        raise InvalidArgumentError(name, str(path), "a path of this machine")
    return cast(Path, place(name, path))


def content(at: Place) -> bytes:
    """The content of a JSON file or object; OSError, before reading, if it is larger than `MOST` bytes."""
    return at.read_bytes(MOST) if isinstance(at, ObjectPath) else file_bytes(at)


class DamagedTileError(ValueError):
    """A tile whose bytes differ from those written."""


@contextmanager
def store_errors(unwritable: str, kept: str | Callable[[], str] = "") -> Iterator[None]:
    """Context in which file errors become one-line StoreErrors: `unwritable`, the error, and `kept` (or its result)."""
    try:
        yield
    except OSError as error:
        file = f" ({error.filename})" if error.filename else ""
        raise StoreError(f"{unwritable}: {error.strerror or error}{file}{kept() if callable(kept) else kept}") from None


def check_room(at: Place, needed: int, task: str, there: str = ", and the disk") -> None:
    """StoreError if the disk of `at` lacks the `needed` bytes for `task`."""
    if isinstance(at, ObjectPath):  # whose bytes nobody counts
        return
    while not at.exists() and at != at.parent:
        at = at.parent
    free = shutil.disk_usage(at).free
    if needed > free:
        remedy = "make room, or give a path on another disk"
        raise StoreError(f"{task} {memory_size(needed)}{there} has {memory_size(free)} left; {remedy}")


def remove_all(at: Place) -> None:
    """Remove a folder with all its content, or all objects below a name."""
    if isinstance(at, ObjectPath):
        at.remove_all()
    else:
        shutil.rmtree(at, ignore_errors=True)


def zarr_node(at: Place) -> dict[str, Any]:
    """Keyword arguments for Zarr's functions that open this place: a folder, or a name in an object store."""
    if isinstance(at, Path):
        return {"store": at}
    from zarr.storage import ObjectStore

    return {"store": ObjectStore(bucket(at.root), read_only=True), "path": at.key}


@cache
def bucket(root: str) -> Any:
    """The client of a bucket or container, one per process, with credentials and address from the environment."""
    _library()
    from obstore.store import from_url

    # as many requests as there is time for, with growing pauses between them
    return from_url(root, retry_config={"max_retries": 1000, "retry_timeout": PATIENCE, "backoff": _PAUSES})


def _library() -> Any:
    require("obstore.exceptions", "scale", "an object store")
    return require("obstore", "scale", "an object store")


@contextmanager
def _requests(path: ObjectPath) -> Iterator[None]:
    """Context in which errors of an object store become OSErrors, like those of a disk."""
    try:
        yield
    except _library().exceptions.BaseError as error:
        raise OSError(errno.EIO, _message(error), str(path)) from None


def _message(error: Exception) -> str:
    """An object store's message, or the first line of an error, without the request's address and signature."""
    text = str(error).strip()
    message = re.search("<Message>(.*?)</Message>", text, re.DOTALL)
    line = message[1] if message else next(iter(text.splitlines()), type(error).__name__)
    return " ".join(re.sub(r"https?://\S+", "the store", line).split())[:300]
