"""The faults to plant, one TOML file a package of the sources.

    wide = ["tests/groups"]                       # what is run where a fault's own tests see nothing

    [[file]]
    path = "src/equitangents/groups/irreps.py"
    tests = ["tests/groups/test_irreps.py"]       # that should see faults in this file, the fastest first
    faults = [
      { says = "the identity is lost", find = 'a + b', put = 'a' },
    ]

`find` occurs exactly once in the file. `reason` says of a fault why no test can see it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

NATIVE = "native/"


class FaultError(Exception):
    """A fault that cannot be planted as it is written."""


@dataclass(frozen=True)
class Fault:
    """One change of one file: `find` is replaced by `put`."""

    package: str
    path: str
    says: str
    find: str
    put: str
    tests: tuple[str, ...]
    wide: tuple[str, ...]
    reason: str | None = None
    place: tuple[int, int, int, int] | None = None  # of a drawn fault: what changes, as ast counts lines and columns
    becomes: str = ""  # of a drawn fault: what stands there then

    @property
    def name(self) -> str:
        """Such as "groups: irreps.py: the identity is lost"."""
        return f"{self.package}: {Path(self.path).name}: {self.says}"

    @property
    def native(self) -> bool:
        """Whether it lies in the compiled engine."""
        return self.path.startswith(NATIVE)

    def planted(self, source: str) -> str:
        """The file with the fault; raises FaultError unless `find` occurs exactly once."""
        count = source.count(self.find)
        if count != 1:
            raise FaultError(f"{self.name}: {self.find!r} occurs {count} times in {self.path}; expected once")
        return source.replace(self.find, self.put)


def load(folder: Path, root: Path) -> list[Fault]:
    """All faults of a folder, checked against the sources under `root`."""
    faults: list[Fault] = []
    for file in sorted(folder.glob("*.toml")):
        if file.name != "settings.toml":
            faults += _of_package(file.stem, tomllib.loads(file.read_text()))
    problems = [p for fault in faults if (p := _problem(fault, root))]
    names = [fault.name for fault in faults]
    problems += [f"{name}: two faults have this name" for name in sorted({n for n in names if names.count(n) > 1})]
    if problems:
        raise FaultError("\n".join(problems))
    return faults


def explained(drawn: Sequence[Fault], listed: Sequence[Fault], root: Path) -> list[Fault]:
    """Drawn faults, each with the reason of the listed one, if there is one, that changes its file in the same way."""
    change = lambda fault: (fault.path, fault.planted((root / fault.path).read_text()))
    reasons = {change(fault): fault.reason for fault in listed if fault.reason is not None}
    return [replace(fault, reason=reasons.get(change(fault))) for fault in drawn]


def _of_package(package: str, content: dict[str, Any]) -> list[Fault]:
    return [
        Fault(
            package=package,
            path=file["path"],
            says=fault["says"],
            find=fault["find"],
            put=fault["put"],
            tests=tuple(fault.get("tests", file["tests"])),
            wide=tuple(content["wide"]),
            reason=fault.get("reason"),
        )
        for file in content["file"]
        for fault in file["faults"]
    ]


def _problem(fault: Fault, root: Path) -> str | None:
    """What is wrong with a fault, or None."""
    for place in (fault.path, *(test.partition("::")[0] for test in (*fault.tests, *fault.wide))):
        if not (root / place).exists():
            return f"{fault.name}: there is no {place}"
    if fault.native and ";" in fault.find + fault.put:
        return f"{fault.name}: faults of the compiled engine are expressions, and this one holds a statement"
    try:
        fault.planted((root / fault.path).read_text())
    except FaultError as error:
        return str(error)
    return None
