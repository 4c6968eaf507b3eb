"""What `sources.toml` tells of each data set that is read from a file: its name, its citation, its public home."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
class Source:
    """A data set kept as `<name>.npz`, or as `folder` with one folder of images a class.

    `home` lists what `download` fetches, in the order its reader wants.
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


def _source(name: str, class_names: Sequence[str] = (), home: Sequence[dict[str, str]] = (), **kept: Any) -> Source:
    return Source(name, class_names=tuple(class_names), home=tuple(RemoteFile(**file) for file in home), **kept)


_KEPT = tomllib.loads(Path(__file__).with_name("sources.toml").read_text(encoding="utf-8"))
SOURCES: dict[str, Source] = {name: _source(name, **kept) for name, kept in _KEPT["images"].items()}
MOLECULE_SOURCES: dict[str, Source] = {name: _source(name, **kept) for name, kept in _KEPT["molecules"].items()}
