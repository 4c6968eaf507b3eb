"""Checksums: of records, of files, and as a last line in a file that says what it is.

Readers of .npy stop before that line, and for readers of .npz it is the comment of a zip file: who reads these reads
them.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from equitangents.errors import StoreError

_MARK = b"\nequitangents "
_BLOCK = 2**24  # bytes that are checked at once
_MOST = 2**16 - 1  # bytes of the last line: those of the comment of a zip file
_NO_COMMENT = b"PK\x05\x06"  # how the last 22 bytes of a zip file without comment begin
_LAST = 22


def checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record that JSON can hold."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def append_checksum(path: Path, about: dict[str, Any] | None = None) -> None:
    """Add the last line to a file that is complete."""
    with path.open("rb+") as file:
        text = _MARK + json.dumps(about or {}, sort_keys=True).encode() + b" "
        length = len(text) + 9
        if length > _MOST:
            raise StoreError("path", str(path), "a last line of a checksum", "it is too long")
        zipped = file.read(2) == _NO_COMMENT[:2]
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LAST))
        if zipped and file.read().startswith(_NO_COMMENT):
            file.seek(size - 2)
            file.write(length.to_bytes(2, "little"))
        found = zlib.crc32(text, _checksum(file, size))
        file.seek(size)
        file.write(text + b"%08x\n" % found)


def checked(file: BinaryIO) -> dict[str, Any] | None:
    """What the last line says; None for a file without one, StoreError where its checksum is another one."""
    size = file.seek(0, os.SEEK_END)
    begin = max(0, size - _MOST)
    file.seek(begin)
    end = file.read()
    place = end.rfind(_MARK)
    if place < 0:
        file.seek(0)
        if file.read(2) == _NO_COMMENT[:2] and not (end[-_LAST:].startswith(_NO_COMMENT) and end.endswith(b"\0\0")):
            raise _damaged(file, "does not end as it says")
        return None
    text, found = end[place:-9], end[-9:]
    if found != b"%08x\n" % zlib.crc32(text, _checksum(file, begin + place)):
        raise _damaged(file, "does not have its checksum")
    about: dict[str, Any] = json.loads(text[len(_MARK) :])
    return about


def check(file: BinaryIO) -> None:
    """Raise StoreError for a file whose checksum is another one; then go back to its beginning."""
    checked(file)
    file.seek(0)


def checked_content(path: Path) -> bytes:
    """All of a file before its last line, if it has one; StoreError where its checksum is another one."""
    with path.open("rb") as file:
        about = checked(file)
        file.seek(0)
        whole = file.read()
    return whole if about is None else whole[: whole.rindex(_MARK)]


def _checksum(file: BinaryIO, size: int) -> int:
    """CRC-32 of the first `size` bytes."""
    found = 0
    file.seek(0)
    while size:
        block = file.read(min(size, _BLOCK))
        if not block:
            raise _damaged(file, "ends too early")
        found = zlib.crc32(block, found)
        size -= len(block)
    return found


def _damaged(file: BinaryIO, why: str) -> StoreError:
    return StoreError(f"{getattr(file, 'name', 'a file')} is damaged: it {why}")
