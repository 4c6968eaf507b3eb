"""Checksums: of records, and as a last line in a file that says what it is.

Readers of .npy stop before that line, and for readers of .npz it is the comment of a zip file.
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


def append_checksum(path: Path, about: dict[str, Any]) -> None:
    """Add the last line to a file that is complete."""
    with path.open("rb+") as file:
        text = _MARK + json.dumps(about, sort_keys=True).encode() + b" "
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
    """What the last line says; None for a file without one, or one that is not what was written."""
    size = file.seek(0, os.SEEK_END)
    begin = max(0, size - _MOST)
    file.seek(begin)
    end = file.read()
    place = end.rfind(_MARK)
    text, found = end[place:-9], end[-9:]
    if place < 0 or found != b"%08x\n" % zlib.crc32(text, _checksum(file, begin + place)):
        return None
    about: dict[str, Any] = json.loads(text[len(_MARK) :])
    return about


def _checksum(file: BinaryIO, size: int) -> int:
    """CRC-32 of the first `size` bytes."""
    found = 0
    file.seek(0)
    for start in range(0, size, _BLOCK):
        found = zlib.crc32(file.read(min(_BLOCK, size - start)), found)
    return found
