"""What a violation ‖f(ρ_X(g)x) − ρ_Y(g)f(x)‖ is divided by, output by output:

norm       ‖f(x)‖ of the same input, which a large constant part of f makes large
spread     how far outputs differ between inputs and their moved copies (`measure.spread`)
absolute   a size that the user gives, or 1 where all outputs vanish
classes    1: outputs are class numbers, and the error is the share that changes
probability  √2: of outputs that are probabilities, so that it is 1 where all of it goes from one class to another
share      1: errors are shares by themselves, of pixels whose class changes or of boxes that do not overlap
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from equitangents.audit.measure.floors import AbsoluteFloors
from equitangents.audit.measure.orbits import Orbits
from equitangents.audit.records import Tolerances
from equitangents.audit.report.numbers import FACTOR, Unit
from equitangents.errors import InvalidArgumentError
from equitangents.metrics.measure import ratio

_CLEAR = 8.0  # a spread below so many roundings is rounding
_SIGNAL = 1e-10  # differences below this share of the outputs are no signal that rounding could hide


@dataclass(frozen=True, eq=False)
class Scales:
    """The possible divisors of every output."""

    sizes: Float[np.ndarray, "outputs N"]
    spreads: Float[np.ndarray, " outputs"]
    """nan where outputs do not differ between inputs by more than rounding."""
    given: Float[np.ndarray, " outputs"]
    """nan where the user gave none."""
    classes: Bool[np.ndarray, " outputs"]
    probabilities: Bool[np.ndarray, " outputs"]
    """Which are probabilities, and judged as such."""
    hidden: Bool[np.ndarray, " outputs"]
    """Which differ between inputs by so little, if at all, that rounding hides it: beside a large constant part."""
    shares: Bool[np.ndarray, " outputs"]
    """Which of these `classes` are not class numbers, but masks of them, or sets of boxes."""
    sets: Bool[np.ndarray, " outputs"]
    """Which outputs are sets in any order."""
    alike: Bool[np.ndarray, " outputs"]
    """Which are the same for all inputs, moved or not, up to rounding."""
    vanishing: Bool[np.ndarray, " outputs"]
    """Whether an output is no larger than its rounding for all inputs, moved or not."""

    @property
    def judged(self) -> Bool[np.ndarray, " outputs"]:
        """Outputs that take part in the verdict: not those that vanish and have no scale, unless all are such."""
        part = ~self.vanishing | np.isfinite(self.given)
        return part if part.any() else np.ones_like(part)

    @property
    def nothing(self) -> bool:
        """Whether every output vanishes and none has a scale."""
        return bool((self.vanishing & ~np.isfinite(self.given)).all())

    @property
    def constant(self) -> bool:
        """Whether every output that is judged is the same for all inputs, and none has a scale."""
        return bool((self.alike & ~np.isfinite(self.given))[self.judged].all())

    def unit_of(self, output: int, unit: Unit) -> Unit:
        """What an output's errors are divided by where the headline's are divided by `unit`."""
        if np.isfinite(self.given[output]):
            return "absolute"
        if self.classes[output]:
            return "share" if self.shares[output] else "classes"
        if self.probabilities[output]:
            return "probability"
        return "norm" if unit == "spread" and np.isnan(self.spreads[output]) else unit

    def relative(self, unit: Unit, table: np.ndarray, rows: Any = slice(None), own: bool = True) -> np.ndarray:
        """A table (outputs, …, n) of norms over the divisors of this unit, for some rows of the sample.

        An output's scale and that of probabilities go before the unit, unless `own` is False.
        """
        divisors = self._divisors(unit, rows, own)
        while divisors.ndim < table.ndim:
            divisors = divisors[:, None]
        return ratio(table, divisors)

    def largest(self, unit: Unit, table: np.ndarray, rows: Any = slice(None), own: bool = True) -> np.ndarray:
        """`relative`, the largest over the outputs that are judged: (…, n)."""
        return np.max(self.relative(unit, table, rows, own)[self.judged], axis=0)

    def _divisors(self, unit: Unit, rows: Any, own: bool) -> Float[np.ndarray, "outputs n"]:
        sizes = self.sizes[:, rows]
        fixed = self.spreads if unit == "spread" else np.full_like(self.given, 1.0 if unit == "absolute" else math.nan)
        fixed = np.where(self.classes, 1.0, fixed)
        if own:
            fixed = np.where(self.probabilities, math.sqrt(2), fixed)
            fixed = np.where(np.isfinite(self.given), self.given, fixed)
        return np.where(np.isnan(fixed)[:, None], sizes, fixed[:, None])


def make_scales(orbits: Orbits, floors: AbsoluteFloors | None, told: Tolerances) -> Scales:
    """The divisors of outputs whose rounding is known (of other sets of inputs it is not, and nothing vanishes)."""
    none = np.zeros(len(orbits.spreads))
    roundings, drowned = (none, none > 0) if floors is None else (floors.roundings, floors.drowned)
    rms = lambda a: np.sqrt(np.mean(a**2, axis=tuple(range(1, a.ndim))))
    still = rms(orbits.separate) <= 2 * FACTOR * roundings
    alike = ~(orbits.spreads > _CLEAR * roundings)
    drowning = np.isfinite(orbits.spreads) & (roundings > _SIGNAL * rms(orbits.separate_sizes))
    own = orbits.probabilities and orbits.classes and told.relative_to == "larger"
    return Scales(
        sizes=orbits.separate_sizes,
        spreads=np.where(alike, math.nan, orbits.spreads),
        given=given_scales(told.output_scale, orbits.output_names),
        probabilities=(np.arange(len(none)) == 0) & own & ~orbits.class_numbers,
        hidden=alike & drowning,
        alike=(alike & np.isfinite(orbits.spreads)) | orbits.one_class,
        classes=orbits.class_numbers | orbits.shares,
        shares=orbits.shares,
        sets=np.array([o in orbits.matched for o in range(len(orbits.spreads))]),
        vanishing=drowned & still & ~orbits.class_numbers & ~orbits.shares,
    )


def given_scales(value: Any, names: list[str]) -> Float[np.ndarray, " outputs"]:
    """The scale of every output; nan where none was given."""
    if value is None:
        return np.full(len(names), math.nan)
    if not isinstance(value, Mapping):
        return np.full(len(names), float(value))
    unknown = [str(name) for name in value if str(name) not in names]
    if unknown:
        raise InvalidArgumentError("output_scale", unknown, list(names), verb="names")
    by_name = {str(name): float(part) for name, part in value.items()}
    return np.array([by_name.get(name, math.nan) for name in names])
