"""A report in a few lines for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equitangents.audit.report.sections import Estimate
from equitangents.audit.report.verdict import number, with_interval

if TYPE_CHECKING:
    from equitangents.audit.report.result import AuditReport


def before_probabilities(report: AuditReport) -> str:
    """Where members are judged by other numbers than the whole, what these are."""
    told = report.model.kind == "deep ensemble" and report.orbit.outputs == "probabilities"
    return " (outputs before they become probabilities)" if told else ""


def summary(report: AuditReport) -> str:
    """The sentence, then one line for each part that has something to say."""
    lines = [report.sentence, *(f"  {line}" for line in details(report))]
    return "\n".join(lines)


def details(report: AuditReport) -> list[str]:
    """One line a part."""
    orbit, lines = report.orbit, []
    if orbit.same_predictions is not None:
        lines.append(f"same prediction along orbits: {interval(orbit.same_predictions)}")
    lines.append(f"relative orbit standard deviation: {interval(orbit.relative_std)}")
    if orbit.divergence is not None:
        lines.append(f"divergence of probabilities: {orbit.divergence.mean:.3g} bits")
    lines += [f"on {s.name} ({s.inputs} inputs): {interval(s.error)}, floor {number(s.floor)}" for s in report.sets[1:]]
    lines += [f"Lie derivative, {d.generator}: {d.value.mean:.3g} per {d.unit}" for d in report.lie]
    if report.verdict == "broken" and report.irreps is not None and report.irreps.shares:
        largest = max(report.irreps.shares, key=lambda s: s.share.mean)
        lines.append(f"largest share of the violation: {largest.name}, {largest.share.mean:.0%}")
    if report.layers is not None:
        lines.append(f"layers: {report.layers.reason}")
    if report.ensemble is not None:
        e = report.ensemble
        lines.append(
            f"{e.members} members{before_probabilities(report)}: {number(e.member_error.mean)} each, "
            f"{number(e.mean_error.mean)} together, {number(e.limit.mean)} for infinitely many"
        )
    if report.data is not None:
        known = {True: "no sign that the data lack the symmetry", False: "the data do not have the symmetry"}
        finding = known.get(report.data.symmetric, "too few inputs to say whether the data have the symmetry")  # type: ignore[arg-type]
        lines.append(f"data: {finding} (p = {report.data.p_value:.2g})")
    return lines


def interval(e: Estimate) -> str:
    """A share with its interval, where there is one."""
    return with_interval(e)
