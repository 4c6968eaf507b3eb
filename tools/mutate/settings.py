"""What all faults share: the libraries to import once."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """`warm`: modules that are imported before any test is run."""

    warm: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Settings:
        """From settings.toml of the folder of faults."""
        file = folder / "settings.toml"
        return cls(tuple(tomllib.loads(file.read_text())["warm"])) if file.exists() else cls()
