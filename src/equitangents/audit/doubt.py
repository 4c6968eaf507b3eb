"""Why a verdict is open, and what would decide it: for the first sentence, failing assertions and exit statuses."""

from __future__ import annotations

from equitangents.audit.measure.floors import FACTOR, Floors
from equitangents.audit.measure.judge import Hidden, Judgement, hidden
from equitangents.audit.report.findings import Verdict
from equitangents.audit.report.sections import ContractSection, Doubt, Headline
from equitangents.audit.report.words import number, of, tolerance_said


def doubt(
    verdict: Verdict, contract: ContractSection, judgement: Judgement, floors: Floors, dtype: str, inputs: int
) -> Doubt | None:
    """Why a verdict is open; None of verdicts that are not."""
    headline = judgement.headline
    if verdict == "stochastic":
        return Doubt(
            "noise",
            f"two evaluations of one input differ by {number(floors.noise)}; the model without its noise (dropout off, "
            "a seed for every input), or the mean of many calls as one model, would decide",
        )
    if verdict != "undecided":
        return None
    if judgement.scales.nothing:
        zero = headline.error.worst == 0 and judgement.scales.sizes.max() == 0
        said = "are 0, which shows no symmetry; inputs on which they are not, or" if zero else "vanish up to rounding;"
        return Doubt("vanishing", f"all outputs {said} output_scale, a size to judge them against, would decide")
    why = hidden(judgement)
    if why == "spread":
        return Doubt(
            "spread",
            f"outputs differ between these inputs by no more than rounding in {dtype} does to them, which hides any "
            f"violation; {_FINER} would decide",
        )
    if why is not None:
        return Doubt("floor", _of_floor(headline, why, dtype))
    mark = f"twice the floor, {number(FACTOR * headline.floor)}" if headline.tolerance is None else "the tolerance"
    held = f"the interval of some {contract.noun}'s mean error holds {mark}"
    return Doubt("interval", f"{held}; more inputs than these {inputs} would decide")


def _of_floor(headline: Headline, why: Hidden, dtype: str) -> str:
    """What the floor is made of, what it hides, and what would lower it."""
    resampled = why == "interpolation" or (why == "tolerance" and headline.rounding < headline.floor / 2)
    cause, better = ("interpolation", _SMOOTHER) if resampled else (f"rounding in {dtype}", _FINER)
    size, limit = (headline.rounding if why == "rounding" else headline.floor), FACTOR * headline.floor
    done = f"{cause} alone changes these outputs by {number(size)} {of(headline.unit)}"
    hides = f"which hides violations up to {number(limit)}"
    if why == "tolerance":
        hides = f"more than the tolerance of {tolerance_said(headline.tolerance)}"
    return f"{done}, {hides}; {better}, or a tolerance above {number(limit)}, would decide"


_FINER = "the model in float64, or outputs centred about their mean"
_SMOOTHER = "elements that move pixels exactly (quarter turns, whole shifts), or larger and smoother inputs"

UNMOVED = Doubt(
    "inputs",
    "no element moves any of these inputs (blank, or symmetric themselves); inputs that the group moves would decide",
)
INTERRUPTED = Doubt("interrupted", "the audit was interrupted before it was decided; a full one would decide")
