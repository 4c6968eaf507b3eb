"""One judgement of all violations, from which verdict, table, page and exit status follow.

The unit is the one in which the mean error is larger, of ‖f(x)‖ and the spread between inputs, unless it was asked
for; probabilities are their own. An output fails under an element if the interval of its mean error lies above twice
its floor there.

What a violation ‖f(ρ_X(g)x) − ρ_Y(g)f(x)‖ is divided by, output by output:

norm       ‖f(x)‖ of the same input, which a large constant part of f makes large
spread     how far outputs differ between inputs and their moved copies (`measure.spread`)
absolute   a size that the user gives, or 1 where all outputs vanish
classes    1: outputs are class numbers, and the error is the share that changes
probability  √2: of outputs that are probabilities, so that it is 1 where all of it goes from one class to another
share      1: errors are shares by themselves, of pixels whose class changes or of boxes that do not overlap
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtri

from equitangents.audit.contract.trees import InputLeaves
from equitangents.audit.measure.floors import ROUNDING, UNINFORMATIVE, OutputNoiseFloors
from equitangents.audit.measure.orbits import Orbits
from equitangents.audit.measure.task import AuditTask, Resampler, spread_of
from equitangents.audit.report.numbers import FACTOR, MeanEstimate, Spread, Unit, standing
from equitangents.audit.report.sections import (
    Counterexample,
    Headline,
    Reason,
    RuleResult,
    SetKind,
    UndefinedPose,
    Verdict,
)
from equitangents.audit.settings import AuditSettings
from equitangents.errors import InvalidArgumentError
from equitangents.metrics.measure import ratio

SINGLE = 4.0
"""A single error above so many of its floors is no chance."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """Errors and floors in the headline's unit, for every output, element and input."""

    scales: OutputScales
    headline: Headline
    by_spread: Spread | None
    """The error relative to the spread between inputs; None where no output has one."""
    spread_floor: float | None
    elements: list[Spread]
    """The error under every element, the largest over the outputs that are judged."""
    element_floors: Float[np.ndarray, " E"]
    outputs: list[MeanEstimate]
    """The mean error of every output, over all elements."""
    output_element_floors: Float[np.ndarray, "outputs E"]
    at_floor: Bool[np.ndarray, "outputs E"]
    above: Bool[np.ndarray, "outputs E"]
    """Which fail: above twice the floor and, by an interval that holds for all at once, above the tolerance."""
    within: bool
    """Whether all elements are within the tolerance."""
    far: Bool[np.ndarray, "outputs E N"]
    """Which single errors are so far above all floors there (and the tolerance) that each would be a counterexample."""
    counterexample: Counterexample | None = None
    """One of these that was confirmed by itself; sought where no mean is above its floor."""
    undefined: list[UndefinedPose] = field(default_factory=list)
    """Elements under which the model gave NaN or infinite values; errors are those of the other inputs."""
    settled: bool = False
    """Whether all of the error that is no rounding, where that was looked at, is no more than rounding does."""


def judge(task: AuditTask, orbits: Orbits, floors: OutputNoiseFloors) -> Judgement:
    """The judgement of a task's orbits."""
    told = task.settings
    scales = make_scales(orbits, floors, told)
    judged, inputs = scales.judged, task.over_inputs(task.x.n)
    errors_in = lambda unit: scales.largest(unit, orbits.separate)
    floors_in = lambda unit: of_inputs(scales, unit, floors)
    has_spread = bool((np.isfinite(scales.spreads) & judged).any())
    unit, asked = choose_unit(scales, told, errors_in)
    errors, floor_table = errors_in(unit), floors_in(unit)
    element_floors = floor_table[judged].max(axis=0)
    elements = [spread_of(inputs.mean(row), row) for row in errors]
    separate = scales.relative(unit, orbits.separate)
    at_floor, above = _compare(inputs, separate, floor_table, elements, judged, told.tolerance)
    over_both = task.resampler(task.x.n)
    headline = Headline(
        unit=unit,
        asked=asked,
        error=over_both.spread(errors),
        floor=float(element_floors.mean()),
        tolerance=told.tolerance,
        bound=float(np.max([e.bounded.high for e in elements])),
        rounding=float(scales.relative(unit, floors.always, floors.rows)[judged].mean(axis=1).max()),
    )
    by_spread = over_both.spread(scales.largest("spread", orbits.separate, own=False)) if has_spread else None
    return Judgement(
        scales=scales,
        headline=headline,
        by_spread=by_spread,
        spread_floor=float(floors_in("spread")[judged].max(axis=0).mean()) if has_spread else None,
        elements=elements,
        element_floors=element_floors,
        outputs=[inputs.mean(part.mean(axis=0)) for part in separate],
        output_element_floors=floor_table,
        at_floor=at_floor,
        above=above,
        within=all(kept(e, headline) for e in elements),
        far=_far(scales, unit, floors, separate, told.tolerance),
    )


def choose_unit(
    scales: OutputScales, told: AuditSettings, errors_in: Callable[[Unit], np.ndarray]
) -> tuple[Unit, bool]:
    """The headline's unit, and whether it was asked for where both have a meaning."""
    judged = np.flatnonzero(scales.judged)
    if scales.nothing or np.isfinite(scales.given[judged]).all():
        return "absolute", False
    own = [scales.own[o] for o in judged]
    if set(own) <= {"share", "classes"}:
        return "share" if "share" in own else "classes", False
    free = [o for o, unit in zip(judged, own, strict=True) if unit is None and np.isnan(scales.given[o])]
    if not free:
        return "probability", False
    if scales.sets[free].all() or not np.isfinite(scales.spreads[free]).any():
        return "norm", False
    if told.relative_to != "larger":
        return told.relative_to, True
    norm, spread = (float(errors_in(unit).mean()) for unit in ("norm", "spread"))
    return "norm" if math.isfinite(norm) and norm > spread else "spread", False


def compared(
    error: Spread, floor: float, tolerance: float | None, tests: int = 1, confidence: float = 0.95
) -> tuple[bool, bool]:
    """Whether the mean error under one element is (at its floor, above it and the tolerance).

    The interval beside a tolerance holds for so many tests at once.
    """
    found, estimate = error.bounded, error.estimate
    told = found
    if tolerance is not None and tests > 1 and math.isfinite(estimate.mean) and not math.isnan(estimate.low):
        alpha = 1 - confidence
        wider = float(ndtri(1 - alpha / 2 / tests) / ndtri(1 - alpha / 2))
        told = MeanEstimate(found.mean, found.mean - (found.mean - found.low) * wider, found.high)
    return standing(found, floor) == "within", standing(told, floor, tolerance) == "above"


def kept(error: Spread, headline: Headline) -> bool:
    """Whether the error under one element is within the tolerance; False without one."""
    tolerance = headline.tolerance
    return tolerance is not None and standing(error.bounded, headline.floor, tolerance) == "within"


def _compare(
    inputs: Resampler,
    separate: np.ndarray,
    floors: np.ndarray,
    elements: list[Spread],
    judged: np.ndarray,
    tolerance: float | None,
) -> tuple[np.ndarray, np.ndarray]:
    """(at the floor, failing) for every output and element; outputs that are not judged are at their floors."""
    at_floor, above = np.ones(floors.shape, bool), np.zeros(floors.shape, bool)
    tests = int(judged.sum()) * len(elements)
    for o in np.flatnonzero(judged):
        for k, row in enumerate(separate[o]):
            error = elements[k] if tests == len(elements) else spread_of(inputs.mean(row), row)
            told = compared(error, floors[o, k], tolerance, tests, inputs.settings.confidence)
            at_floor[o, k], above[o, k] = told
    return at_floor, above


def of_inputs(scales: OutputScales, unit: Unit, floors: OutputNoiseFloors) -> Float[np.ndarray, "outputs E"]:
    """The floor of every output and element: resampling, two roundings, and the noise, mean over inputs."""
    resampled = scales.relative(unit, floors.resampled, floors.rows).mean(axis=2)
    return resampled + scales.relative(unit, floors.always, floors.rows).mean(axis=1)[:, None]


def _far(
    scales: OutputScales, unit: Unit, floors: OutputNoiseFloors, separate: np.ndarray, tolerance: float | None
) -> Bool[np.ndarray, "outputs E N"]:
    """Errors above `SINGLE` times the largest floor of any input there, of outputs that are judged.

    None of elements whose floor hides everything: on white noise single errors of fine rotations mean nothing.
    """
    floor = scales.relative(unit, floors.resampled + floors.always[:, None], floors.rows)
    told = (floor.mean(axis=2, keepdims=True) <= UNINFORMATIVE) & scales.judged[:, None, None]
    return (separate > np.maximum(SINGLE * floor.max(axis=2, keepdims=True), tolerance or 0.0)) & told


_NO_ERROR = MeanEstimate(0.0, 0.0, 0.0)
Hidden = Literal["tolerance", "spread", "rounding", "interpolation"]


def hidden(judgement: Judgement) -> Hidden | None:
    """What of the floors hides violations that the verdict would have to speak of; None where nothing does.

    "tolerance": twice the floor is above it. Without one "spread": outputs differ between inputs by no more than
    rounding; "rounding" and "interpolation": the floor is larger than what may be called so.
    """
    headline = judgement.headline
    if headline.tolerance is not None:
        return None if standing(_NO_ERROR, headline.floor, headline.tolerance) == "within" else "tolerance"
    return unexact(judgement)


def unexact(judgement: Judgement) -> Hidden | None:
    """The part of the noise floor that is too large to be rounding, or interpolation; None if no part is."""
    headline, scales = judgement.headline, judgement.scales
    if headline.unit == "norm" and not headline.asked and (scales.hidden & scales.judged).any():
        return "spread"
    if judgement.settled:
        return "interpolation" if not headline.floor - headline.rounding <= UNINFORMATIVE else None
    if not headline.rounding <= ROUNDING:
        return "rounding"
    return "interpolation" if not headline.floor <= UNINFORMATIVE else None


def decide(judgement: Judgement, floors: OutputNoiseFloors) -> tuple[Verdict, Reason]:
    """ "broken" if some output fails under some element, "equivariant" if all are at their floors, which hide nothing.

    One counterexample suffices. With a tolerance, violations up to it are "equivariant within tolerance", and only
    those beyond it "broken". A random model that is not seen to fail is "undecided". And why.
    """
    headline = judgement.headline
    if judgement.undefined:
        return "broken", "not finite"
    if judgement.scales.nothing:  # exact zeros, too: a dead model shows no symmetry
        return "undecided", "vanishing"
    if judgement.above.any():
        return "broken", _fault(judgement)
    if judgement.scales.constant:
        return "undecided", "constant"
    hides = hidden(judgement)
    if hides is None:
        exact = (judgement.at_floor.all() or judgement.settled) and floors.deterministic and unexact(judgement) is None
        if exact and (judgement.within or headline.tolerance is None):
            return "equivariant", "at noise floor"
        if judgement.within:
            return "equivariant within tolerance", "within the tolerance"
    if not floors.deterministic:
        return "undecided", "noise"
    return "undecided", headline.hiding if hides == "tolerance" else hides or "interval"


def _fault(judgement: Judgement) -> Reason:
    headline = judgement.headline
    if headline.tolerance is not None:
        return "above the tolerance"
    if judgement.counterexample is not None:
        return "single input"
    low = not headline.steady and headline.error.estimate.mean <= FACTOR * headline.floor
    return "some elements" if low else "above noise floor"


NO_GROUP = "transforms form no group, by which it is measured"
"""Why parts that go by products, inverses and averages are missing."""


@dataclass(frozen=True, eq=False)
class Measured:
    """What the pass over the data gave, and what else was asked for."""

    task: AuditTask
    """The audit of the inputs and elements that count."""
    y: np.ndarray | None
    sought: list[RuleResult] | None
    """What was found of how the outputs move, where that was asked for."""
    sets: list[tuple[str, SetKind, InputLeaves]]
    """Other inputs, off the data."""
    orbits: Orbits
    floors: OutputNoiseFloors
    judgement: Judgement
    verdict: Verdict
    reason: Reason
    """Why the verdict is what it is."""
    same: MeanEstimate | None
    """Share of predictions that stay the same; None without classes."""


_CLEAR = 8.0  # a spread below so many roundings is rounding
_SIGNAL = 1e-10  # differences below this share of the outputs are no signal that rounding could hide


@dataclass(frozen=True, eq=False)
class OutputScales:
    """The possible divisors of every output."""

    sizes: Float[np.ndarray, "outputs N"]
    spreads: Float[np.ndarray, " outputs"]
    """nan where outputs do not differ between inputs by more than rounding."""
    given: Float[np.ndarray, " outputs"]
    """nan where the user gave none."""
    own: list[Unit | None]
    """What is divided by one number whatever the headline is: class numbers, shares, and outputs that are
    probabilities and judged as such; None of others."""
    hidden: Bool[np.ndarray, " outputs"]
    """Which differ between inputs by so little, if at all, that rounding hides it: beside a large constant part."""
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
        return self.own[output] or ("norm" if unit == "spread" and np.isnan(self.spreads[output]) else unit)

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
        known = {"classes": 1.0, "share": 1.0} | ({"probability": math.sqrt(2)} if own else {})
        fixed = np.array([known.get(str(one), other) for one, other in zip(self.own, fixed, strict=True)])
        if own:
            fixed = np.where(np.isfinite(self.given), self.given, fixed)
        return np.where(np.isnan(fixed)[:, None], sizes, fixed[:, None])


def make_scales(orbits: Orbits, floors: OutputNoiseFloors | None, told: AuditSettings) -> OutputScales:
    """The divisors of outputs whose rounding is known (of other sets of inputs it is not, and nothing vanishes)."""
    none = np.zeros(len(orbits.spreads))
    roundings, drowned = (none, none > 0) if floors is None else (floors.roundings, floors.drowned)
    rms = lambda a: np.sqrt(np.mean(a**2, axis=tuple(range(1, a.ndim))))
    still = rms(orbits.separate) <= 2 * FACTOR * roundings
    alike = ~(orbits.spreads > _CLEAR * roundings)
    drowning = np.isfinite(orbits.spreads) & (roundings > _SIGNAL * rms(orbits.separate_sizes))
    own: list[Unit | None] = [
        "share" if share else "classes" if number else None
        for share, number in zip(orbits.shares, orbits.class_numbers, strict=True)
    ]
    if orbits.probabilities and orbits.classes and told.relative_to == "larger":
        own[0] = own[0] or "probability"
    return OutputScales(
        sizes=orbits.separate_sizes,
        spreads=np.where(alike, math.nan, orbits.spreads),
        given=given_scales(told.output_scale, orbits.output_names),
        own=own,
        hidden=alike & drowning,
        alike=(alike & np.isfinite(orbits.spreads)) | orbits.one_class,
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
