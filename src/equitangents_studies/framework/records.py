"""Measurements under named coordinates: the same record is rows of a CSV, points of a figure and numbers of a claim."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.report import Table, with_interval
from equitangents.statistics import Estimate
from equitangents_studies.framework.folder import Columns


@dataclass(frozen=True)
class Records:
    """Estimates, each at its coordinates; `names` are those of the coordinates, `rows` hold their values.

    Example:
        >>> squares = Records.over(lambda n, sign: Estimate(sign * n**2, 0, 9), n=(1, 2), sign=(1, -1))
        >>> squares.where(sign=1).values.tolist()
        [1, 4]
        >>> squares.table("square")
        {'n': [1, 1, 2, 2], 'sign': [1, -1, 1, -1], 'square': [1, -1, 4, -4], 'low': [0, 0, 0, 0], 'high': [9, 9, 9, 9]}
    """

    names: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    estimates: tuple[Estimate, ...]
    words: Callable[..., str] | None = None

    @classmethod
    def over(
        cls, compute: Callable[..., Estimate], words: Callable[..., str] | None = None, **coordinates: Sequence[Any]
    ) -> Records:
        """`compute` at every combination of `coordinates`, the last fastest; `words` label them in sentences."""
        rows = tuple(itertools.product(*coordinates.values()))
        names = tuple(coordinates)
        return cls(names, rows, tuple(compute(**dict(zip(names, row, strict=True))) for row in rows), words)

    def where(self, **fixed: object) -> Records:
        """The records at the given coordinates."""
        at = {self.names.index(name): value for name, value in fixed.items()}
        chosen = [i for i, row in enumerate(self.rows) if all(row[k] == value for k, value in at.items())]
        kept = lambda values: tuple(values[i] for i in chosen)
        return replace(self, rows=kept(self.rows), estimates=kept(self.estimates))

    def times(self, factor: float) -> Records:
        """Every number and its interval multiplied by `factor`."""
        return replace(self, estimates=tuple(e.times(factor) for e in self.estimates))

    def column(self, name: str) -> np.ndarray:
        """A coordinate of every record."""
        return np.array([row[self.names.index(name)] for row in self.rows])

    @property
    def values(self) -> np.ndarray:
        """The numbers alone."""
        return np.array([e.value for e in self.estimates])

    @property
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the intervals."""
        return np.array([e.low for e in self.estimates]), np.array([e.high for e in self.estimates])

    def table(self, value: str = "value") -> Columns:
        """One row per record: its coordinates, its number under the name `value`, its interval."""
        coordinates = {name: [row[i] for row in self.rows] for i, name in enumerate(self.names)}
        numbers = {key: [getattr(e, of) for e in self.estimates] for key, of in ((value, "value"), ("low", "low"))}
        return {**coordinates, **numbers, "high": [e.high for e in self.estimates]}

    def labelled(self) -> Mapping[str, Estimate]:
        """Numbers by their labels, as `words` has them, else "members 3, step 10"."""
        plain = lambda **at: ", ".join(f"{name} {value}" for name, value in at.items())
        words = self.words or plain
        return {
            words(**dict(zip(self.names, row, strict=True))): e
            for row, e in zip(self.rows, self.estimates, strict=True)
        }


def columns(names: Sequence[str], rows: Iterable[Sequence[object]]) -> Columns:
    """Rows as columns under `names`, where an estimate fills three: its value and the ends of its interval.

    Raises InvalidArgumentError for a row of another length.

    >>> columns(("n", "error", "low", "high"), [(10, Estimate(0.2, 0.1, 0.4))])
    {'n': [10], 'error': [0.2], 'low': [0.1], 'high': [0.4]}
    """
    ends = lambda x: (x.value, x.low, x.high) if isinstance(x, Estimate) else (x,)
    kept = [tuple(cell for x in row for cell in ends(x)) for row in rows]
    for row in kept:
        if len(row) != len(names):
            raise InvalidArgumentError("row", len(row), len(names), ", ".join(names), verb="has entries,")
    return {name: [row[i] for row in kept] for i, name in enumerate(names)}


def in_words(estimate: Estimate) -> str:
    """A number with its interval."""
    return with_interval(estimate.value, estimate.interval)


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table of the page, in whose cells estimates stand with their intervals."""
    cell = lambda x: in_words(x) if isinstance(x, Estimate) else str(x)
    return Table(caption, header, [[cell(x) for x in row] for row in rows])
