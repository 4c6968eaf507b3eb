"""What tests of stores share: a small problem, the bytes of a store, and damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from equitangents import nn
from equitangents.scale import GramStore

NET = nn.Sequential(nn.Dense(1, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1))


def store(path: Path, rows: int = 22, tile: int | None = 4) -> GramStore:
    return GramStore(path, NET, np.random.default_rng(0).normal(size=(rows, 3)), tile=tile)


def content(path: Path) -> dict[str, bytes]:
    """Every file in a folder, also hidden ones."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def damage(path: Path, rng: np.random.Generator) -> str:
    """Do something to a random file of a store, and say what."""
    files = sorted(file for file in path.rglob("*") if file.is_file())
    file = files[rng.integers(len(files))]
    good = file.read_bytes()
    kind = ("flip", "cut", "zeros", "gone", "longer")[rng.integers(5)]
    at = int(rng.integers(len(good)))
    bad = {
        "flip": good[:at] + bytes([good[at] ^ (1 << int(rng.integers(8)))]) + good[at + 1 :],
        "cut": good[:at],
        "zeros": bytes(len(good)),
        "longer": good + b"\0",
        "gone": b"",
    }[kind]
    file.write_bytes(bad)
    if kind == "gone":
        file.unlink()
    return f"{kind} at byte {at} of {file.relative_to(path)}"
