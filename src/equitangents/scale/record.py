"""What a store says about itself: whose Gram matrix it holds, computed by what. It refuses everything else."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from equitangents._version import __version__
from equitangents.errors import StoreError
from equitangents.kernels.store.key import VERSION
from equitangents.scale.grid import Grid

FORMAT = 1


@dataclass(frozen=True)
class Inputs:
    """Some inputs of one `shape`: how many there were at first and after each addition, and the hash of so many."""

    shape: tuple[int, ...]
    rows: tuple[int, ...]
    digests: tuple[str, ...]

    def begins_with(self, other: Inputs) -> bool:
        """Whether it is the other one, perhaps with rows added."""
        count = len(other.rows)
        return self.shape == other.shape and (self.rows[:count], self.digests[:count]) == (other.rows, other.digests)


@dataclass(frozen=True)
class Record:
    """Everything that the numbers of a store depend on; `network` and `action` in words, and by hash.

    `part` is the side of the chunks within a tile where tiles are shards.
    """

    network: str
    network_hash: str
    action: str | None
    action_hash: str | None
    x1: Inputs
    x2: Inputs | None
    engine: str
    precision: str
    tile: int
    inverses: tuple[int, ...] | None
    version: str = __version__
    numbers: int = VERSION
    format: int = FORMAT
    part: int | None = None

    @property
    def grid(self) -> Grid:
        """The tiles of the matrix."""
        return Grid(self.x1.rows, None if self.x2 is None else self.x2.rows, self.tile, self.inverses)

    @property
    def rows(self) -> int:
        """How many rows and columns there are; it only grows."""
        return self.x1.rows[-1] + (0 if self.x2 is None else self.x2.rows[-1])

    def grew_from(self, other: Record) -> bool:
        """Whether it is the other one, perhaps with rows added."""
        return differences(other, self) == [] and all(
            one is two is None or (one is not None and two is not None and one.begins_with(two))
            for one, two in ((self.x1, other.x1), (self.x2, other.x2))
        )

    def as_json(self) -> dict[str, Any]:
        """With a checksum, for `from_json`."""
        content = json.loads(json.dumps(dataclasses.asdict(self)))
        if self.part is None:  # tiles are files of their own, and records are as they were before there were shards
            del content["part"]
        return {"record": content, "sha256": _checksum(content)}

    @staticmethod
    def from_json(value: Any) -> Record:
        """The record; ValueError if that is not one, or does not have its checksum."""
        content = value.get("record") if isinstance(value, dict) else None
        if not isinstance(content, dict) or _checksum(content) != value.get("sha256"):
            raise ValueError("the record does not have its checksum")
        if content.get("format") != FORMAT:
            raise StoreError(
                f"the store has format {content.get('format')}, and this version reads format {FORMAT}; compute it "
                "anew in another folder"
            )
        plain: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in content.items()}
        for name in ("x1", "x2"):
            if plain[name] is not None:
                plain[name] = Inputs(**{key: tuple(v) for key, v in plain[name].items()})
        record = Record(**plain)
        record._check()
        return record

    def _check(self) -> None:
        """ValueError unless all is of its type: a checksum says that nothing has changed, not who wrote it."""
        given = [x for x in (self.x1, self.x2) if x is not None]
        text = [self.network, self.network_hash, self.engine, self.precision, self.version]
        text += [each for each in (self.action, self.action_hash) if each is not None]
        text += [digest for x in given for digest in x.digests]
        numbers = [self.tile, self.numbers, *(n for x in given for n in (*x.shape, *x.rows)), *(self.inverses or ())]
        if not all(isinstance(each, str) for each in text) or not all(type(each) is int for each in numbers):
            raise ValueError("the record has entries of other types")
        if min(numbers) < 0 or self.tile < 1 or not all(x.rows for x in given):
            raise ValueError("the record has sizes that nothing has")
        if self.precision not in ("float32", "float64"):
            raise ValueError(f"the record's precision is {self.precision!r}")


def differences(stored: Record, asked: Record) -> list[str]:
    """What is not the same, each as a phrase; the data are compared elsewhere."""
    told = []
    if stored.network_hash != asked.network_hash:
        same = stored.network == asked.network
        told.append(
            f"the network: {stored.network} there" + (", with other content" if same else f", {asked.network} here")
        )
    for name, one, two in (
        ("the action", stored.action, asked.action),
        ("the engine", stored.engine, asked.engine),
        ("the precision", stored.precision, asked.precision),
        ("the version of equitangents", stored.version, asked.version),
        ("the version of the numbers", stored.numbers, asked.numbers),
        ("the side of a tile", stored.tile, asked.tile),
    ):
        if one != two:
            told.append(f"{name}: {one or 'none'} there, {two or 'none'} here")
    if stored.action == asked.action and stored.action_hash != asked.action_hash:
        told.append(f"the action: {stored.action} there, of the same name and with other content here")
    if (stored.x2 is None) != (asked.x2 is None):
        told.append("the columns: " + ("none, the rows again, there" if stored.x2 is None else "x2 there, none here"))
    for name, x, y in (("x1", stored.x1, asked.x1), ("x2", stored.x2, asked.x2)):
        if x is not None and y is not None and x.shape != y.shape:
            told.append(f"the inputs {name}: of shape {x.shape} there, {y.shape} here")
    return told


def differing(words: Mapping[str, str], held: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """What is not the same in two records, by the `words` for their entries; empty where nothing differs."""
    return ", ".join(said for name, said in words.items() if held.get(name) != asked[name])


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
