"""What a store says about itself, as JSON with a checksum, and what two of them do not have in common."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, BinaryIO

import google_crc32c

_BLOCK = 2**24  # bytes whose checksum is computed at once


def checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record that JSON can hold."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def file_checksum(file: BinaryIO) -> int:
    """CRC32C of an open file, from where it stands to its end."""
    found = google_crc32c.Checksum()
    while part := file.read(_BLOCK):
        found.update(part)
    return int.from_bytes(found.digest(), "big")


def differing(words: Mapping[str, str], held: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """What is not the same in two records, by the `words` for their entries; empty where nothing differs."""
    return ", ".join(said for name, said in words.items() if held.get(name) != asked[name])
