"""What stands in tables and drawings: errors and floors in the headline's unit, and the words for it."""

from __future__ import annotations

import math

from equitangents.audit.report.findings import Findings
from equitangents.audit.report.part_sections import Checkpoint, EnsembleSection, Remedy
from equitangents.audit.report.sections import (
    ElementResult,
    Estimate,
    Headline,
    OutputContract,
    SetResult,
    Spread,
)
from equitangents.audit.report.words import of

_ALIKE = 1e-5
"""Members whose part of the violation is this share of the whole differ by rounding alone."""


def headline_of(report: Findings) -> Headline:
    """The headline; of a report that was made without one, the error relative to ‖f(x)‖."""
    bound = max((e.error.estimate.high for e in report.elements), default=report.error.estimate.high)
    return report.headline or Headline("norm", "", report.error, report.floor, bound)


def unit_of(report: Findings) -> str:
    """ "of ‖f(x)‖", "of the spread between inputs", …"""
    headline = headline_of(report)
    return "in the outputs' own unit" if unscaled(report) else of(headline.unit)


def unit_of_output(o: OutputContract, report: Findings) -> str:
    """What one output's error is relative to, in words; it may have a unit of its own."""
    if o.unit is None or (o.unit == "absolute" and o.scale is None):
        return unit_of(report)
    return of(o.unit)


def unscaled(report: Findings) -> bool:
    """Whether all outputs vanish, and errors are not relative to anything."""
    return headline_of(report).unit == "absolute" and all(o.scale is None for o in report.contract.outputs)


def error_of(e: ElementResult) -> Spread:
    """The error under one element, in the headline's unit where there is one."""
    return e.judged or e.error


def floor_of(e: ElementResult) -> float:
    """The floor of one element, in the headline's unit where there is one."""
    return e.floor if e.judged_floor is None else e.judged_floor


def set_error(s: SetResult) -> Estimate:
    """The error on one set of inputs, in the headline's unit where there is one."""
    return s.judged or s.error


def set_floor(s: SetResult) -> float:
    """The floor on one set of inputs, in the headline's unit where there is one."""
    return s.floor if s.judged_floor is None else s.judged_floor


def output_error(o: OutputContract) -> Estimate:
    """The error of one output, in the headline's unit where there is one."""
    return o.judged or o.error


def checkpoint_error(c: Checkpoint) -> Estimate:
    """The error at one checkpoint, in the headline's unit where there is one."""
    return c.judged or c.error


def checkpoint_elements(c: Checkpoint) -> list[float]:
    """A checkpoint's error under every element."""
    return c.judged_elements or c.elements


def before_after(m: Remedy) -> tuple[Estimate | None, Estimate | None]:
    """A remedy's error before and after."""
    alone = lambda value: None if value is None else Estimate(value, value, value)
    return m.before or alone(m.error_before), m.after or alone(m.error_after)


def ensemble_errors(e: EnsembleSection) -> tuple[Estimate, Estimate, Estimate]:
    """Root mean square errors of one member, of the mean of all, and of infinitely many: one quantity."""
    one, now = rooted(e.sizes[0].squared_error), rooted(e.sizes[-1].squared_error)
    return one, now, now if alike(e) else e.limit


def rooted(squared: Estimate) -> Estimate:
    """The square roots of a mean square and its interval."""
    root = lambda value: math.sqrt(max(value, 0.0))
    return Estimate(root(squared.mean), root(squared.low), root(squared.high))


def alike(ensemble: EnsembleSection) -> bool:
    """Whether all members have the same violation, up to rounding."""
    return ensemble.finite <= _ALIKE * math.sqrt(max(ensemble.sizes[0].squared_error.mean, 0.0))
