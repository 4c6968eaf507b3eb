"""A last line in a file that says what it is, with a checksum of every byte before it.

Readers of .npy stop before it, and for readers of .npz it is the comment of a zip file: who reads these reads them.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from equitangents.errors import StoreError

_MARK = b"\nequitangents "
_BLOCK = 2**24  # bytes that are checked at once
_MOST = 2**16 - 1  # bytes of a seal: those of the comment of a zip file
_NO_COMMENT = b"PK\x05\x06"  # how the last 22 bytes of a zip file without comment begin
_LAST = 22


def seal(path: Path, about: dict[str, Any] | None = None) -> None:
    """Add the line to a file that is complete."""
    with path.open("rb+") as file:
        text = _MARK + json.dumps(about or {}, sort_keys=True).encode() + b" "
        length = len(text) + 9
        if length > _MOST:
            raise StoreError(f"{path} cannot be sealed: what it is takes {length} bytes, and a seal {_MOST} at most")
        zipped = file.read(2) == _NO_COMMENT[:2]
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LAST))
        if zipped and file.read().startswith(_NO_COMMENT):
            file.seek(size - 2)
            file.write(length.to_bytes(2, "little"))
        checksum = zlib.crc32(text, _checksum(file, size))
        file.seek(size)
        file.write(text + b"%08x\n" % checksum)


def sealed(file: BinaryIO) -> dict[str, Any] | None:
    """What the last line says; None for a file without one, StoreError where its checksum is another one."""
    size = file.seek(0, os.SEEK_END)
    begin = max(0, size - _MOST)
    file.seek(begin)
    end = file.read()
    place = end.rfind(_MARK)
    if place < 0:
        file.seek(0)
        if file.read(2) == _NO_COMMENT[:2] and not (end[-_LAST:].startswith(_NO_COMMENT) and end.endswith(b"\0\0")):
            raise StoreError(f"{getattr(file, 'name', 'a file')} is damaged: it does not end as it says")
        return None
    text, checksum = end[place:-9], end[-9:]
    if checksum != b"%08x\n" % zlib.crc32(text, _checksum(file, begin + place)):
        raise StoreError(f"{getattr(file, 'name', 'a file')} is damaged: it does not have its checksum")
    about: dict[str, Any] = json.loads(text[len(_MARK) :])
    return about


def check(file: BinaryIO) -> None:
    """Raise StoreError for a file whose checksum is another one; then go back to its beginning."""
    sealed(file)
    file.seek(0)


def content(path: Path) -> bytes:
    """All of a file before its last line, if it has one; StoreError where its checksum is another one."""
    with path.open("rb") as file:
        about = sealed(file)
        file.seek(0)
        whole = file.read()
    return whole if about is None else whole[: whole.rindex(_MARK)]


def _checksum(file: BinaryIO, size: int) -> int:
    checksum, block = 0, np.empty(min(size, _BLOCK), np.uint8)
    file.seek(0)
    while size:
        read = file.readinto(block[:size].data)  # type: ignore[attr-defined]
        if not read:
            raise StoreError(f"{getattr(file, 'name', 'a file')} is damaged: it ends too early")
        checksum = zlib.crc32(block[:read].data, checksum)
        size -= read
    return checksum
