"""Stages of a study over named coordinates, and results whose arrays have named axes.

`Stages` are a family: one stage for each combination of the coordinates in its name. A class derived from `Results`
declares for each array its coordinates and its axes; the arrays of the stages are cut and stacked accordingly.
"""

from __future__ import annotations

import dataclasses
import itertools
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast, dataclass_transform

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents_studies.framework.folder import Arrays, NamedStage, RunFolder

T = TypeVar("T")
MeasuredT = TypeVar("MeasuredT", bound="Results")
Levels = Mapping[str, Sequence[Any]]
"""The values of every coordinate."""
Point = dict[str, Any]
"""Coordinates by name."""


@dataclass(frozen=True)
class Stages:
    """A family of stages `compute(*coordinates, task)`, named by a template such as "accuracy-{law}-{group#}".

    {law} is a value, {group#} the index of one. `title` is such a template, or a function of the coordinates.
    """

    name: str
    title: str | Callable[..., str]
    compute: Callable[..., Arrays]

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Coordinates named in the braces of `name`."""
        return _mentioned(self.name)

    @property
    def label(self) -> str:
        """The name up to the first coordinate."""
        return self.name.split("{")[0].rstrip("-")

    def at(self, point: Point, levels: Levels) -> NamedStage:
        """The stage at a point."""
        values = [point[name] for name in self.coordinates]
        places = {f"{name}#": levels[name].index(x) for name, x in point.items() if name in levels}
        title = self.title.format(**point) if isinstance(self.title, str) else self.title(*values)
        return NamedStage(self.name.format(**point, **places), title, partial(self.compute, *values))


@dataclass(frozen=True, eq=False)
class StageArrays:
    """Coordinates and arrays of every stage, by the label of its family, and the `levels` of all coordinates."""

    parts: Mapping[str, Sequence[tuple[Point, Arrays]]]
    levels: Levels

    def __or__(self, other: StageArrays) -> StageArrays:
        return StageArrays({**self.parts, **other.parts}, {**self.levels, **other.levels})

    def stage(self, label: str) -> Arrays:
        """Arrays of a family with a single stage."""
        ((_, arrays),) = self.parts[label]
        return arrays

    def arrays(self, name: str) -> list[tuple[Point, np.ndarray]]:
        """Pairs (coordinates, array) of all stages that hold the array `name`, or "label.name" for one family.

        Raises InvalidArgumentError if there is none.
        """
        label, _, stored = name.rpartition(".")
        found = []
        for p in _points(_mentioned(label), self.levels):
            for stages in [self.parts.get(label.format(**p), [])] if label else self.parts.values():
                points = _points([c for c in _mentioned(stored) if not stages or c not in stages[0][0]], self.levels)
                every = [(p | at | q, arrays) for at, arrays in stages for q in points]
                if every and stored.format(**every[0][0]) in every[0][1]:
                    found += [(point, arrays[stored.format(**point)]) for point, arrays in every]
                    break
        if not found and all(self.parts.values()):  # else its part has no level
            raise InvalidArgumentError("name", name, "an array of a stage")
        return found

    def by(self, names: str, of: str, axes: str = "") -> Keyed[Any]:
        """Arrays `of`, or numbers, by coordinates, as for a field of `Results`."""
        return cast("Keyed[Any]", _read(self, of, _By(tuple(names.split()), tuple(axes.split()), of)))


def measured(folder: RunFolder, *parts: Stages, levels: Mapping[str, Iterable[Any]]) -> StageArrays:
    """Compute all stages of all families; they are independent.

    `levels` are the values of every coordinate: {"law": LAWS, "width": (8, 16)}. To select combinations, give several
    coordinates together: {"data model": [("digits", "MLP"), ("letters", "CNN")]}.
    """
    every = {name: list(values) for name, values in levels.items()}
    single = {name: values for name, values in every.items() if " " not in name}
    points = {part.label: _points(part.coordinates, every) for part in parts}
    work = {(p.label, i): p.at(point, single) for p in parts for i, point in enumerate(points[p.label])}
    found = folder.stages(work)
    return StageArrays({k: [(p, found[k, i]) for i, p in enumerate(at)] for k, at in points.items()}, single)


Keyed = dict[Any, T]
"""Values by their coordinates: by the one itself, or by a tuple of several."""


@dataclass(frozen=True)
class _By:
    names: tuple[str, ...]
    axes: tuple[str, ...]
    of: str


def by(names: str, axes: str = "", *, of: str = "") -> Any:
    """Declare a field of `Results`: a dict of arrays, keyed by the coordinates `names`, with the given `axes`.

    Both are separated by spaces. `of` is the array's name in the stages ("{kind}_error") if it differs from the
    field's; a label, the part's name up to its coordinates, selects one of several parts: "accuracy.{kind}_error".
    Without `names` the field is one array; without `axes` its values are plain numbers.
    """
    return field(metadata={"by": _By(tuple(names.split()), tuple(axes.split()), of)})


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(by, field))
class Results:
    """Base of a study's results: a frozen dataclass whose fields declared with `by` are read from stages.

    >>> class CountResults(Results):
    ...     source: str
    ...     scores: Keyed[np.ndarray] = by("law group", "member")
    >>> stages = [({"law": law}, {"scores": np.arange(6).reshape(2, 3) + n}) for law, n in (("one", 0), ("other", 9))]
    >>> results = CountResults.read(StageArrays({"": stages}, {"group": ("C2", "C4")}), source="digits")
    >>> results.scores["other", "C4"]
    array([12, 13, 14])
    """

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False)(cls)

    @classmethod
    def read(cls: type[MeasuredT], found: StageArrays, **others: object) -> MeasuredT:
        """Read all declared fields from `found`; `others` are the remaining fields.

        Raises InvalidArgumentError if an array is missing or has other axes.
        """
        declared = {name: d for name, d in _declared(cls).items() if name not in others}
        return cls(**{name: _read(found, name, d) for name, d in declared.items()}, **others)


def _declared(cls: type) -> dict[str, _By]:
    fields = dataclasses.fields(cls)
    return {f.name: f.metadata["by"] for f in fields if "by" in f.metadata}


def _read(found: StageArrays, name: str, declared: _By) -> Any:
    """Value of a field: arrays indexed along axes that are coordinates, stacked along coordinates that are axes."""
    names, axes = declared.names, declared.axes
    cells: dict[tuple[Any, ...], list[np.ndarray]] = {}
    stacked: list[str] = []
    for point, array in found.arrays(declared.of or name):
        inner = [d for d in (*names, *axes) if d not in point]
        stacked = [name for name in point if name in axes]
        lengths = [len(found.levels[d]) if d in found.levels else n for d, n in zip(inner, array.shape, strict=False)]
        if array.shape != tuple(lengths) or len(inner) != array.ndim:
            raise InvalidArgumentError(name, array.shape, list(inner), "the axes")
        cut = [d for d in inner if d in names]
        for places in itertools.product(*(range(len(found.levels[d])) for d in cut)):
            at = point | {d: found.levels[d][i] for d, i in zip(cut, places, strict=True)}
            cells.setdefault(tuple(at[n] for n in names), []).append(array[places])

    def whole(parts: list[np.ndarray]) -> Any:
        lengths = [len(found.levels[a]) for a in stacked]
        array = np.stack(parts).reshape((*lengths, *parts[0].shape))
        if stacked:
            array = np.moveaxis(array, range(len(stacked)), [axes.index(a) for a in stacked])
        return array if axes else array.item()

    values = {key if len(key) > 1 else key[0] if key else None: whole(parts) for key, parts in cells.items()}
    return values if names else values[None]


def _mentioned(text: str) -> tuple[str, ...]:
    """Names in the braces of a template, without repetition."""
    return tuple(dict.fromkeys(name.rstrip("#") for _, name, _, _ in string.Formatter().parse(text) if name))


def _points(names: Sequence[str], levels: Levels) -> list[Point]:
    """All combinations of the coordinates `names`, the last fastest; only the given ones for joint coordinates."""
    together = {name: joint for joint in levels for name in joint.split()}
    missing = [name for name in names if name not in together]
    if missing:
        raise InvalidArgumentError("levels", missing, "values of all", verb="has no values of")
    groups = list(dict.fromkeys(together[name] for name in names))
    values = [levels[joint] if " " in joint else [(value,) for value in levels[joint]] for joint in groups]
    wanted = [name for joint in groups for name in joint.split()]
    return [dict(zip(wanted, itertools.chain(*each), strict=True)) for each in itertools.product(*values)]
