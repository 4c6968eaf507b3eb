"""What more ensemble members would bring, from the law limit² + finite²/M: one quantity before and after.

Both are root mean squares over inputs and elements of the violation of a mean over members, over the root mean square
of ‖f(x)‖ or the spread between inputs. The interval before is over inputs, that of the limit over members.
"""

from __future__ import annotations

import math

from equitangents.audit.measure.scales import Unit
from equitangents.audit.report.judged import alike, rooted
from equitangents.audit.report.sections import EnsembleSection, Estimate, Remedy

_TARGET = 0.01


def more_members(ensemble: EnsembleSection | None, unit: Unit) -> Remedy:
    """The remedy, or that it is not known."""
    name, cost = "more ensemble members", "one training a member"
    if ensemble is None:
        note = (
            "the model is not an ensemble whose members differ, so that the spread between members cannot be measured"
        )
        return Remedy(name, False, None, None, None, None, cost, note)
    now = rooted(ensemble.sizes[-1].squared_error)
    factor = ensemble.by_spread if unit == "spread" and ensemble.by_spread is not None else 1.0
    limit = now if alike(ensemble) else _within(ensemble.limit, now)
    scaled = lambda e: Estimate(e.mean * factor, e.low * factor, e.high * factor)
    wanted = _wanted(ensemble, scaled(now), scaled(limit), ensemble.finite * factor)
    return Remedy(
        name=name,
        measured=False,
        error_before=now.mean,
        error_after=limit.mean,
        task_before=None,
        task_after=None,
        cost=_cost(ensemble, wanted),
        note=_said(ensemble, scaled(now), scaled(limit), wanted),
        quantity="root mean square error",
        before=scaled(now),
        after=scaled(limit),
        passes_before=ensemble.members,
        passes_after=wanted,
    )


def _within(limit: Estimate, now: Estimate) -> Estimate:
    """The limit, which is at most the error of today's mean."""
    return Estimate(min(limit.mean, now.mean), limit.low, limit.high)


def _wanted(ensemble: EnsembleSection, now: Estimate, limit: Estimate, finite: float) -> int | None:
    """The members whose mean is at `_TARGET` by the fitted law; None where none are needed, or none suffice."""
    if alike(ensemble) or now.mean <= _TARGET or limit.mean >= _TARGET:
        return None
    return max(math.ceil(finite**2 / (_TARGET**2 - limit.mean**2)), ensemble.members + 1)


def _cost(ensemble: EnsembleSection, wanted: int | None) -> str:
    """What members cost, in trainings once and in forward passes for every input."""
    M = ensemble.members
    if wanted is None:
        return f"one training a member; {M} forward passes an input now"
    return (
        f"{wanted - M:,} more trainings; {wanted:,} forward passes an input in place of {M}, {wanted / M:.3g} times "
        "the compute and the bill of predictions"
    )


def _said(ensemble: EnsembleSection, now: Estimate, limit: Estimate, wanted: int | None) -> str:
    M, target = ensemble.members, f"{100 * _TARGET:g} %"
    if alike(ensemble):
        return "more members change nothing: all members violate the symmetry in the same way"
    if now.mean <= _TARGET:
        return f"the mean of the {M} members is at {target} or below already"
    if limit.mean >= _TARGET:
        sure = f", though the interval of the limit reaches below {target}" if limit.low < _TARGET else ""
        return (
            f"no number of members is expected to bring the error below {100 * limit.mean:.3g} %{sure}; "
            "training the members on augmented data may"
        )
    sure = (
        f"; the interval of the limit reaches above {target}, so perhaps no number of members is enough"
        if limit.high > _TARGET
        else ""
    )
    return f"about {wanted:,} members, now {M}, would bring the error to {target} by the fitted law{sure}"
