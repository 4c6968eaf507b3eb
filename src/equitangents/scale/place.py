"""Where stores lie: a folder of this machine, or a place in an object store, given by its URL.

Folders and files are `pathlib.Path`; an `ObjectPath` has those of its methods that stores need. Objects appear whole or
not at all, so that one put stands for a temporary file and its new name. Credentials and addresses are those of the
environment of each process; none is ever sent to a worker. A store that does not answer is asked again by obstore.
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
from equitangents.files import MOST, file_bytes, whole_file
from equitangents.formatting import memory_size

PATIENCE = timedelta(seconds=180)  # for which a request is made again while an object store does not answer
_PAUSES: Any = {"init_backoff": timedelta(seconds=0.2), "max_backoff": timedelta(seconds=5), "base": 2}
SCHEMES = ("s3", "gs", "az")
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/(?P<second>/?)")  # one letter and a colon is a disk of Windows


@dataclass(frozen=True, order=True)
class ObjectPath:
    """An object, or all that begin with its name: `key` in the bucket or container `root`, such as s3://bucket."""

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
        """The place beside it of this name."""
        return ObjectPath(self.root, posixpath.join(posixpath.dirname(self.key), name))

    def resolve(self) -> ObjectPath:
        """Itself: there are no links."""
        return self

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: there are no folders."""

    def exists(self) -> bool:
        """Whether there is such an object, or one below it."""
        return self.size() is not None or next(self.sizes(), None) is not None

    def size(self) -> int | None:
        """Bytes of the object; None where there is none."""
        with _requests(self), suppress(FileNotFoundError):
            return int(bucket(self.root).head(self.key)["size"])
        return None

    def sizes(self) -> Iterator[tuple[str, int]]:
        """(what follows `key/`, bytes) of all objects below it, by one request for a thousand."""
        start = len(self.key) + 1 if self.key else 0
        with _requests(self):
            found = [each for some in bucket(self.root).list(self.key or None) for each in some]
        for each in found:
            yield each["path"][start:], each["size"]

    def read_bytes(self, most: int | None = None) -> bytes:
        """What the object holds; FileNotFoundError where there is none, OSError where it is more than `most` bytes."""
        with _requests(self):
            found = bucket(self.root).get(self.key)
            if most is not None and (size := int(found.meta["size"])) > most:
                raise OSError(errno.EFBIG, f"it takes {size:,} bytes; expected at most {most:,}", str(self))
            return bytes(found.bytes())

    def write_bytes(self, content: bytes, *, once: bool = False) -> None:
        """Put the object in place, whole; `once`: FileExistsError where there is one."""
        with _requests(self):
            try:
                bucket(self.root).put(self.key, content, mode="create" if once else "overwrite")
            except _library().exceptions.AlreadyExistsError:
                raise FileExistsError(errno.EEXIST, "there is such an object", str(self)) from None

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object; that there is none is no error."""
        with _requests(self), suppress(FileNotFoundError):
            bucket(self.root).delete(self.key)

    def remove_all(self) -> None:
        """Remove all objects below it; `zarr.json` of its own first, so that no reader takes the rest for whole."""
        (self / "zarr.json").unlink()
        keys = [f"{self.key}/{name}" for name, _ in self.sizes()]
        with _requests(self):
            for start in range(0, len(keys), 1000):
                bucket(self.root).delete(keys[start : start + 1000])


Place = Path | ObjectPath


def write_whole(at: Place, content: bytes, *, once: bool = False) -> None:
    """Have a file or an object hold `content`, once all of it is there; `once`: FileExistsError where there is one."""
    if isinstance(at, ObjectPath):
        at.write_bytes(content, once=once)
    else:
        with whole_file(at, once=once) as partial:
            partial.write_bytes(content)


def sweep(folder: Place) -> None:
    """Remove what dead processes were writing in a folder and those within; of objects nothing is there in part."""
    if isinstance(folder, Path):
        for name, _, _ in os.walk(folder, topdown=False):
            files.sweep(Path(name))


def place(name: str, path: FileName | ObjectPath) -> Place:
    """A folder or file of this machine, or one in an object store, s3://, gs:// or az://.

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
    """A path of this machine; InvalidArgumentError for an object store, where such files cannot lie."""
    url = None if isinstance(path, ObjectPath) else _URL.match(os.fspath(path))
    if isinstance(path, ObjectPath) or (url is not None and url["scheme"].lower() != "file"):
        raise InvalidArgumentError(name, str(path), "a path of this machine")
    return cast(Path, place(name, path))


def content(at: Place) -> bytes:
    """What a file or an object of JSON holds; OSError, before it is read, where that is more than `MOST` bytes."""
    return at.read_bytes(MOST) if isinstance(at, ObjectPath) else file_bytes(at)


class DamagedTileError(ValueError):
    """A tile whose bytes are not those that were written."""


@contextmanager
def store_errors(unwritable: str, kept: str | Callable[[], str] = "") -> Iterator[None]:
    """Errors of the file system as StoreErrors of one line, from `unwritable` to `kept`, or to what that then says."""
    try:
        yield
    except OSError as error:
        file = f" ({error.filename})" if error.filename else ""
        raise StoreError(f"{unwritable}: {error.strerror or error}{file}{kept() if callable(kept) else kept}") from None


def check_room(at: Place, needed: int, task: str, there: str = ", and the disk") -> None:
    """StoreError where the disk on which `at` is, or would be, has no room for `needed` bytes, which `task` takes."""
    if isinstance(at, ObjectPath):  # whose bytes nobody counts
        return
    while not at.exists() and at != at.parent:
        at = at.parent
    free = shutil.disk_usage(at).free
    if needed > free:
        remedy = "make room, or give a path on another disk"
        raise StoreError(f"{task} {memory_size(needed)}{there} has {memory_size(free)} left; {remedy}")


def remove_all(at: Place) -> None:
    """Remove a folder and all that is in it, or all objects below a name."""
    if isinstance(at, ObjectPath):
        at.remove_all()
    else:
        shutil.rmtree(at, ignore_errors=True)


def zarr_node(at: Place) -> dict[str, Any]:
    """What Zarr's functions are told to open, by keyword: the folder, or a name in an object store."""
    if isinstance(at, Path):
        return {"store": at}
    from zarr.storage import ObjectStore

    return {"store": ObjectStore(bucket(at.root), read_only=True), "path": at.key}


@cache
def bucket(root: str) -> Any:
    """The client of a bucket or container, one a process; credentials and address are the environment's."""
    _library()
    from obstore.store import from_url

    # as many requests as there is time for, with growing pauses between them
    return from_url(root, retry_config={"max_retries": 1000, "retry_timeout": PATIENCE, "backoff": _PAUSES})


def _library() -> Any:
    require("obstore.exceptions", "scale", "an object store")
    return require("obstore", "scale", "an object store")


@contextmanager
def _requests(path: ObjectPath) -> Iterator[None]:
    """What an object store refuses as an OSError, so that its errors are those of a disk."""
    try:
        yield
    except _library().exceptions.BaseError as error:
        raise OSError(errno.EIO, _message(error), str(path)) from None


def _message(error: Exception) -> str:
    """What a store says, else the first line of an error, without the address of a request and its signature."""
    text = str(error).strip()
    message = re.search("<Message>(.*?)</Message>", text, re.DOTALL)
    line = message[1] if message else next(iter(text.splitlines()), type(error).__name__)
    return " ".join(re.sub(r"https?://\S+", "the store", line).split())[:300]
