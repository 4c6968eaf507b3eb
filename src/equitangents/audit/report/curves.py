"""A curve of invariance over strength, in one sentence that follows from its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from equitangents.audit.report.sections.elements import StrengthResult
from equitangents.audit.report.words import interval, number, of


def curve_said(name: str, points: Sequence[StrengthResult], unit: str, tolerance: float | None) -> str:
    """Where the error is largest, at which strengths it is at its floor or within the tolerance, and predictions."""
    finite = [p for p in points if math.isfinite(p.error.mean)]
    worst = max(finite or points, key=lambda p: p.error.mean)
    if all(p.at_floor for p in points):
        return f"{name}: at the floor at every strength {_span(points)}"
    parts = [f"{name}: mean error {interval(worst.error)} {of(unit)} at {worst.strength:g}, where it is largest"]
    if tolerance is not None:
        parts.append(_where(points, lambda p: _high(p) <= tolerance, f"within {number(tolerance)}"))
    parts.append(_where(points, lambda p: p.at_floor, "at the floor"))
    kept = [p for p in points if p.same_predictions is not None]
    if kept:
        least = min(kept, key=lambda p: p.same_predictions.mean if p.same_predictions is not None else 1.0)
        assert least.same_predictions is not None
        same = interval(least.same_predictions)
        parts.append(
            "all predictions stay the same at every strength"
            if least.same_predictions.mean == 1
            else f"{same} of predictions stay the same at {least.strength:g}, the fewest"
        )
    return "; ".join(parts)


def _where(points: Sequence[StrengthResult], holds: Callable[[StrengthResult], bool], said: str) -> str:
    """At which of the strengths something holds: runs of neighbours from their first to their last."""
    runs: list[list[StrengthResult]] = []
    last = -2
    for i, p in enumerate(points):
        if holds(p):
            if i == last + 1:
                runs[-1].append(p)
            else:
                runs.append([p])
            last = i
    if not runs:
        return f"{said} at no strength"
    return f"{said} {' and '.join(_span(run) for run in runs)}"


def _span(points: Sequence[StrengthResult]) -> str:
    if len(points) == 1:
        return f"at {points[0].strength:g}"
    return f"from {points[0].strength:g} to {points[-1].strength:g} ({len(points)} strengths)"


def _high(p: StrengthResult) -> float:
    return p.error.mean if math.isnan(p.error.high) else p.error.high
