"""Invariance over the strength of changes that form no group."""

from __future__ import annotations

from dataclasses import dataclass

from equitangents.audit.report.sections.errors import Estimate


@dataclass(frozen=True)
class StrengthResult:
    """The error at one strength."""

    strength: float
    error: Estimate
    """Mean over the inputs of ‖f(T_s x) − f(x)‖ in `unit`; its interval is over the inputs."""
    floor: float
    """What rounding and chance explain, in the same unit."""
    at_floor: bool
    above: bool
    """Whether the error lies above twice its floor and, if there is a tolerance, above that, by its interval."""
    same_predictions: Estimate | None
    """Share of the inputs whose predicted class stays; null without class scores."""


@dataclass(frozen=True)
class TransformResult:
    """One curve: the error over the strength of one transform."""

    name: str
    unit: str
    """What errors are relative to, as in `headline`."""
    still: float | None
    """The strength at which nothing changes, where it is known."""
    points: list[StrengthResult]
    """By rising strength."""
    said: str
    """The curve in one sentence."""
