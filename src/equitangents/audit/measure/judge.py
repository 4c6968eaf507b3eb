"""One judgement of all violations, from which verdict, table, page and exit status follow.

The unit is ‖f(x)‖ or the standard deviation over inputs ("spread"), whichever gives the larger mean error, unless one
is chosen; probabilities have their own. An output fails under an element if the interval of its mean error there lies
above twice its noise floor.

What a violation ‖f(ρ_X(g)x) − ρ_Y(g)f(x)‖ is divided by, output by output:

norm       ‖f(x)‖ of the same input, which a large constant part of f makes large
spread     standard deviation of outputs over inputs and their moved copies (`measure.orbits.RunningDeviation`)
absolute   a size that the user gives, or 1 where all outputs vanish
classes    1: outputs are class numbers, and the error is the share that changes
probability  √2: of outputs that are probabilities, so that it is 1 where all of it goes from one class to another
share      1: the error is a share itself, of pixels whose class changes or of boxes that do not overlap
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
from equitangents.audit.measure.task import AuditTask, Resampler, distribution_of
from equitangents.audit.report.numbers import FACTOR, Distribution, MeanEstimate, Unit, standing
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
"""A single error above this many noise floors is not chance."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """Errors and noise floors in the headline's unit, for every output, element and input."""

    scales: OutputScales
    headline: Headline
    by_deviation: Distribution | None
    """The error relative to the standard deviation over inputs; None if no output has one."""
    deviation_floor: float | None
    elements: list[Distribution]
    """The error under every element, the largest over the outputs that are judged."""
    element_floors: Float[np.ndarray, " E"]
    outputs: list[MeanEstimate]
    """The mean error of every output, over all elements."""
    output_element_floors: Float[np.ndarray, "outputs E"]
    at_floor: Bool[np.ndarray, "outputs E"]
    above: Bool[np.ndarray, "outputs E"]
    """Which fail: above twice the noise floor and, by a simultaneous interval, above the tolerance."""
    within: bool
    """Whether all elements are within the tolerance."""
    far: Bool[np.ndarray, "outputs E N"]
    """Which single errors are far enough above all noise floors there (and the tolerance) to be counterexamples."""
    counterexample: Counterexample | None = None
    """A far error that was confirmed; sought if no mean is above its noise floor."""
    undefined: list[UndefinedPose] = field(default_factory=list)
    """Elements under which the model gave NaN or infinite values; errors are those of the other inputs."""
    settled: bool = False
    """Whether the error beyond rounding, if it was measured, is no larger than rounding."""


def judge(task: AuditTask, orbits: Orbits, floors: OutputNoiseFloors) -> Judgement:
    """Judge the orbits of a task."""
    settings = task.settings
    scales = make_scales(orbits, floors, settings)
    judged, inputs = scales.judged, task.over_inputs(task.x.n)
    errors_in = lambda unit: scales.largest(unit, orbits.separate)
    floors_in = lambda unit: of_inputs(scales, unit, floors)
    has_deviation = bool((np.isfinite(scales.deviations) & judged).any())
    unit, chosen = choose_unit(scales, settings, errors_in)
    errors, floor_table = errors_in(unit), floors_in(unit)
    element_floors = floor_table[judged].max(axis=0)
    elements = [distribution_of(inputs.mean(row), row) for row in errors]
    separate = scales.relative(unit, orbits.separate)
    at_floor, above = _compare(inputs, separate, floor_table, elements, judged, settings.tolerance)
    over_both = task.resampler(task.x.n)
    headline = Headline(
        unit=unit,
        asked=chosen,
        error=over_both.distribution(errors),
        floor=float(element_floors.mean()),
        tolerance=settings.tolerance,
        bound=float(np.max([e.bounded.high for e in elements])),
        rounding=float(scales.relative(unit, floors.always, floors.rows)[judged].mean(axis=1).max()),
    )
    by_deviation = (
        over_both.distribution(scales.largest("spread", orbits.separate, own=False)) if has_deviation else None
    )
    return Judgement(
        scales=scales,
        headline=headline,
        by_deviation=by_deviation,
        deviation_floor=float(floors_in("spread")[judged].max(axis=0).mean()) if has_deviation else None,
        elements=elements,
        element_floors=element_floors,
        outputs=[inputs.mean(part.mean(axis=0)) for part in separate],
        output_element_floors=floor_table,
        at_floor=at_floor,
        above=above,
        within=all(kept(e, headline) for e in elements),
        far=_far(scales, unit, floors, separate, settings.tolerance),
    )


def choose_unit(
    scales: OutputScales, settings: AuditSettings, errors_in: Callable[[Unit], np.ndarray]
) -> tuple[Unit, bool]:
    """The headline's unit, and whether the user chose it where both have a meaning."""
    judged = np.flatnonzero(scales.judged)
    own = ["absolute" if np.isfinite(scales.given[o]) else scales.own[o] for o in judged]
    if scales.nothing or set(own) == {"absolute"}:
        return "absolute", False
    if set(own) <= {"share", "classes"}:
        return "share" if "share" in own else "classes", False
    free = [o for o, unit in zip(judged, own, strict=True) if unit is None]
    if not free:
        return "probability" if "probability" in own else "absolute", False
    if scales.sets[free].all() or not np.isfinite(scales.deviations[free]).any():
        return "norm", False
    if settings.relative_to != "larger":
        return settings.relative_to, True
    norm, spread = (float(errors_in(unit).mean()) for unit in ("norm", "spread"))
    return "norm" if math.isfinite(norm) and norm > spread else "spread", False


def compared(
    error: Distribution, floor: float, tolerance: float | None, tests: int = 1, confidence: float = 0.95
) -> tuple[bool, bool]:
    """Whether the mean error under one element is (at its noise floor, above it and the tolerance).

    With a tolerance, the interval holds for this many tests at once.
    """
    bounded, estimate = error.bounded, error.estimate
    tested = bounded
    if tolerance is not None and tests > 1 and math.isfinite(estimate.mean) and not math.isnan(estimate.low):
        alpha = 1 - confidence
        wider = float(ndtri(1 - alpha / 2 / tests) / ndtri(1 - alpha / 2))
        tested = MeanEstimate(bounded.mean, bounded.mean - (bounded.mean - bounded.low) * wider, bounded.high)
    return standing(bounded, floor) == "within", standing(tested, floor, tolerance) == "above"


def kept(error: Distribution, headline: Headline) -> bool:
    """Whether the error under one element is within the tolerance; False without one."""
    tolerance = headline.tolerance
    return tolerance is not None and standing(error.bounded, headline.floor, tolerance) == "within"


def _compare(
    inputs: Resampler,
    separate: np.ndarray,
    floors: np.ndarray,
    elements: list[Distribution],
    judged: np.ndarray,
    tolerance: float | None,
) -> tuple[np.ndarray, np.ndarray]:
    """(at the noise floor, failing) for every output and element; outputs that are not judged are at the floor."""
    at_floor, above = np.ones(floors.shape, bool), np.zeros(floors.shape, bool)
    tests = int(judged.sum()) * len(elements)
    for o in np.flatnonzero(judged):
        for k, row in enumerate(separate[o]):
            error = elements[k] if tests == len(elements) else distribution_of(inputs.mean(row), row)
            both = compared(error, floors[o, k], tolerance, tests, inputs.settings.confidence)
            at_floor[o, k], above[o, k] = both
    return at_floor, above


def of_inputs(scales: OutputScales, unit: Unit, floors: OutputNoiseFloors) -> Float[np.ndarray, "outputs E"]:
    """Noise floor of every output and element: resampling, two roundings and the model's noise, mean over inputs."""
    resampled = scales.relative(unit, floors.resampled, floors.rows).mean(axis=2)
    return resampled + scales.relative(unit, floors.always, floors.rows).mean(axis=1)[:, None]


def _far(
    scales: OutputScales, unit: Unit, floors: OutputNoiseFloors, separate: np.ndarray, tolerance: float | None
) -> Bool[np.ndarray, "outputs E N"]:
    """Errors above `SINGLE` times the largest noise floor of any input under that element, of outputs that are judged.

    None for elements whose noise floor hides everything: on white noise single errors of fine rotations mean nothing.
    """
    floor = scales.relative(unit, floors.resampled + floors.always[:, None], floors.rows)
    visible = (floor.mean(axis=2, keepdims=True) <= UNINFORMATIVE) & scales.judged[:, None, None]
    return (separate > np.maximum(SINGLE * floor.max(axis=2, keepdims=True), tolerance or 0.0)) & visible


_NO_ERROR = MeanEstimate(0.0, 0.0, 0.0)
Hidden = Literal["tolerance", "spread", "rounding", "interpolation"]


def hidden(judgement: Judgement) -> Hidden | None:
    """The part of the noise floor that hides violations and prevents a verdict; None if no part does.

    "tolerance": twice the noise floor is above the tolerance. Without a tolerance, "spread": outputs differ between
    inputs by no more than rounding; "rounding", "interpolation": that part of the floor is too large to ignore.
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
    """Verdict and reason: "broken" if an output fails under an element, "equivariant" if all are at their noise floors.

    One counterexample suffices. With a tolerance, violations up to it are "equivariant within tolerance", larger ones
    "broken". A random model without a visible failure is "undecided".
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
"""Why parts that need products, inverses or averages are missing."""


@dataclass(frozen=True, eq=False)
class Measured:
    """Results of the pass over the data, with the task and the other inputs."""

    task: AuditTask
    """The audit of the inputs and elements that count."""
    y: np.ndarray | None
    sought: list[RuleResult] | None
    """Fitted rules of the outputs, for output_action="find"."""
    sets: list[tuple[str, SetKind, InputLeaves]]
    """Other inputs, off the data."""
    orbits: Orbits
    floors: OutputNoiseFloors
    judgement: Judgement
    verdict: Verdict
    reason: Reason
    """Why the verdict was reached."""
    same: MeanEstimate | None
    """Share of predictions that stay the same; None without classes."""


_CLEAR = 8.0  # a standard deviation below this many roundings is rounding
_SIGNAL = 1e-10  # differences below this share of the outputs are no signal that rounding could hide


@dataclass(frozen=True, eq=False)
class OutputScales:
    """The possible divisors of every output."""

    sizes: Float[np.ndarray, "outputs N"]
    deviations: Float[np.ndarray, " outputs"]
    """Standard deviations over inputs; nan if outputs differ between inputs by no more than rounding."""
    given: Float[np.ndarray, " outputs"]
    """output_scale; nan for outputs without one."""
    own: list[Unit | None]
    """Unit of outputs whose divisor is fixed: class numbers, shares, and outputs judged as probabilities; else None."""
    hidden: Bool[np.ndarray, " outputs"]
    """Which differ between inputs by no more than rounding, next to a large constant part."""
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
        return self.own[output] or ("norm" if unit == "spread" and np.isnan(self.deviations[output]) else unit)

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
        fixed = (
            self.deviations if unit == "spread" else np.full_like(self.given, 1.0 if unit == "absolute" else math.nan)
        )
        known = {"classes": 1.0, "share": 1.0} | ({"probability": math.sqrt(2)} if own else {})
        fixed = np.array([known.get(str(one), other) for one, other in zip(self.own, fixed, strict=True)])
        if own:
            fixed = np.where(np.isfinite(self.given), self.given, fixed)
        return np.where(np.isnan(fixed)[:, None], sizes, fixed[:, None])


def make_scales(orbits: Orbits, floors: OutputNoiseFloors | None, settings: AuditSettings) -> OutputScales:
    """The divisors of outputs. Without `floors` (other sets of inputs) rounding is taken as 0, and nothing vanishes."""
    none = np.zeros(len(orbits.deviations))
    roundings, drowned = (none, none > 0) if floors is None else (floors.roundings, floors.drowned)
    rms = lambda a: np.sqrt(np.mean(a**2, axis=tuple(range(1, a.ndim))))
    still = rms(orbits.separate) <= 2 * FACTOR * roundings
    alike = ~(orbits.deviations > _CLEAR * roundings)
    drowning = np.isfinite(orbits.deviations) & (roundings > _SIGNAL * rms(orbits.separate_sizes))
    own: list[Unit | None] = [
        "share" if share else "classes" if number else None
        for share, number in zip(orbits.shares, orbits.class_numbers, strict=True)
    ]
    if orbits.probabilities and orbits.classes and settings.relative_to == "larger":
        own[0] = own[0] or "probability"
    return OutputScales(
        sizes=orbits.separate_sizes,
        deviations=np.where(alike, math.nan, orbits.deviations),
        given=output_scales(settings.output_scale, orbits.output_names, ~(orbits.class_numbers | orbits.shares)),
        own=own,
        hidden=alike & drowning,
        alike=(alike & np.isfinite(orbits.deviations)) | orbits.one_class,
        sets=np.array([o in orbits.matched for o in range(len(orbits.deviations))]),
        vanishing=drowned & still & ~orbits.class_numbers & ~orbits.shares,
    )


def output_scales(value: Any, names: list[str], sized: Bool[np.ndarray, " outputs"]) -> Float[np.ndarray, " outputs"]:
    """output_scale of every output; nan for outputs without one, and for classes and shares, which have no size."""
    if not isinstance(value, Mapping):
        return np.where(sized, math.nan if value is None else float(value), math.nan)
    known = [name for name, has in zip(names, sized, strict=True) if has]
    unknown = [str(name) for name in value if str(name) not in known]
    if unknown:
        why = "classes and shares have no size"
        raise InvalidArgumentError("output_scale", unknown, known or None, why, verb="names")
    by_name = {str(name): float(part) for name, part in value.items()}
    return np.array([by_name.get(name, math.nan) for name in names])
