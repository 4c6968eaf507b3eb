"""The result of a comparison of architectures: learning curves and factors between their samples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.extending import FileName, notebook, whole_file
from equitangents.report import with_interval
from equitangents.statistics import Estimate
from equitangents_studies.claim import plain_number
from equitangents_studies.systems.curves import ErrorName, LearningCurve
from equitangents_studies.systems.factors import (
    AS_THEY_ARE,
    Factor,
    Key,
    cell,
)


@dataclass(frozen=True)
class Affordable:
    """How many of the `available` inputs are used, of how many kernel matrices, and what that is expected to take."""

    inputs: int
    available: int
    test_inputs: int
    matrices: int
    seconds: float
    minutes: float


@dataclass(frozen=True, eq=False, repr=False)
class ArchitectureComparison:
    """Learning curves by (architecture, group), and factors between the samples that they need.

    A group "I" is the data as they are. `checks`: where an architecture does not notice a group by Theorem 4.1, by how
    much its kernel of a few inputs changed, relative to its largest entry; there is no curve of its own there.
    Intervals of all `factors` and their differences hold together at `confidence`, over repetitions, which draw from
    the same inputs.
    """

    architectures: tuple[str, ...]
    groups: tuple[str, ...]
    curves: Mapping[Key, LearningCurve]
    factors: tuple[Factor, ...]
    checks: Mapping[Key, float]
    error: ErrorName
    affordable: Affordable
    shape: tuple[int, ...]
    classes: int
    depth: int
    kernel: str
    ridge: float
    standardised: bool
    seed: int
    confidence: float

    @property
    def sizes(self) -> np.ndarray:
        """The training sets' sizes, the same for all curves."""
        return next(iter(self.curves.values())).sizes

    def factor(self, first: Key, second: Key) -> Factor:
        """The factor between two curves: of the architectures' order, or of moved data against those as they are."""
        for found in self.factors:
            if (found.first, found.second) == (first, second):
                return found
        raise InvalidArgumentError(
            "first", (first, second), "two architectures that were compared", "factors lists what was"
        )

    def curve(self, architecture: str, group: str = AS_THEY_ARE) -> LearningCurve:
        """The curve of an architecture on moved data; that on data as they are where it does not notice the group."""
        key = (architecture, group)
        found = self.curves.get((architecture, AS_THEY_ARE) if key in self.checks else key)
        if found is None:
            raise InvalidArgumentError("architecture", (architecture, group), "a curve that was measured")
        return found

    @property
    def best(self) -> tuple[str, ...]:
        """The architectures that are not shown to need more samples of the data as they are than another one."""
        plain = [f for f in self.factors if f.first[1] == AS_THEY_ARE]
        beaten = {f.first[0] for f in plain if f.verdict == "fewer"} | {
            f.second[0] for f in plain if f.verdict == "more"
        }
        return tuple(name for name in self.architectures if name not in beaten)

    @property
    def facts(self) -> dict[str, str]:
        """What was compared, by name."""
        paid, repetitions = self.affordable, next(iter(self.curves.values())).errors.shape[1]
        return {
            "Inputs": f"{paid.inputs:,} of {paid.available:,}",
            "Positions": " × ".join(map(str, self.shape[:-1])),
            "Channels": str(self.shape[-1]),
            "Classes": str(self.classes or "none: numbers"),
            "Training inputs": f"{self.sizes[0]:,} to {self.sizes[-1]:,}",
            "Repetitions": str(repetitions),
            "Test inputs": f"{paid.test_inputs:,}",
            "Error": self.error,
            "Kernel": self.kernel.upper(),
            "Hidden layers": str(self.depth),
            "Ridge": f"{self.ridge:g}",
            "Kernel matrices": str(paid.matrices),
            "Seconds expected": f"{paid.seconds:.2g}",
        }

    @property
    def table(self) -> dict[str, list[Any]]:
        """One row for every curve and size: the mean error and its interval over repetitions."""
        columns: dict[str, list[Any]] = {
            name: [] for name in ("architecture", "group", "training_inputs", "error", "low", "high")
        }
        for (name, group), curve in self.curves.items():
            for n, e in zip(curve.sizes, curve.estimates(self.error), strict=True):
                for column, value in zip(columns.values(), (name, group, int(n), e.value, e.low, e.high), strict=True):
                    column.append(value)
        return columns

    def factor_rows(self) -> list[tuple[str, str, str]]:
        """(what is compared with what, the factor and its interval, the verdict) of all factors."""
        return [(f"{_name(f.first)} against {_name(f.second)}", cell(f), f.verdict) for f in self.factors]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        blank = lambda v: plain_number(v) if isinstance(v, float) else v
        return {
            "best": list(self.best),
            "facts": self.facts,
            "architectures": list(self.architectures),
            "groups": list(self.groups),
            "error": self.error,
            "inputs": self.affordable.inputs,
            "available_inputs": self.affordable.available,
            "test_inputs": self.affordable.test_inputs,
            "estimated_seconds": self.affordable.seconds,
            "minutes": self.affordable.minutes,
            "curves": {name: [blank(v) for v in column] for name, column in self.table.items()},
            "factors": [f.to_dict() for f in self.factors],
            "unnoticed": [{"architecture": a, "group": g, "change": c} for (a, g), c in self.checks.items()],
            "depth": self.depth,
            "kernel": self.kernel,
            "ridge": self.ridge,
            "standardised": self.standardised,
            "seed": self.seed,
            "level": self.confidence,
        }

    def to_json(self, path: FileName) -> Path:
        """Write what `to_dict` gives, as JSON."""
        with whole_file(Path(path)) as partial:
            partial.write_text(json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n", encoding="utf-8")
        return Path(path)

    def _rows(self) -> list[tuple[str, str]]:
        """Labelled numbers: facts, the best, the errors of the largest training sets, factors, groups not noticed."""
        errors = [(f"Error, {_name(key)}", _shown(c.estimates(self.error)[-1])) for key, c in self.curves.items()]
        factors = [(f"Samples, {what}", f"{factor}: {verdict}") for what, factor, verdict in self.factor_rows()]
        unnoticed = [(f"Change of the kernel, {_name(key)}", f"{change:.1g}") for key, change in self.checks.items()]
        return [*self.facts.items(), ("Not beaten", ", ".join(self.best)), *errors, *factors, *unnoticed]

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {value}" for name, value in self._rows())

    def _repr_html_(self) -> str:
        return notebook.table("Architectures on these data", self._rows())


def _name(key: Key) -> str:
    return key[0] if key[1] == AS_THEY_ARE else f"{key[0]} ({key[1]})"


def _shown(e: Estimate) -> str:
    return with_interval(e.value, e.interval)
