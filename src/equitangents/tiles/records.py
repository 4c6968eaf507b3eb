"""What a store says about itself, as JSON with a checksum, and what two of them do not have in common."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import Any, BinaryIO

_BLOCK = 2**24  # bytes whose checksum is computed at once


def checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record that JSON can hold."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def file_checksum(file: BinaryIO) -> int:
    """CRC-32 of an open file, from where it stands to its end."""
    found = 0
    while part := file.read(_BLOCK):
        found = zlib.crc32(part, found)
    return found


def differing(words: Mapping[str, str], held: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """What is not the same in two records, by the `words` for their entries; empty where nothing differs."""
    return ", ".join(said for name, said in words.items() if held.get(name) != asked[name])
