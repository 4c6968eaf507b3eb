"""From numbers to a verdict and one sentence: is every element's error explained by its floor?"""

from __future__ import annotations

import math

from equitangents.audit.measure.floors import FACTOR, UNINFORMATIVE, Floors
from equitangents.audit.report.result import Verdict
from equitangents.audit.report.sections import ContractSection, ElementResult, Estimate, LayerSection, Spread
from equitangents.report.verdict import format_number

_INVARIANT = "invariant"


def decide(elements: list[ElementResult], floors: Floors) -> Verdict:
    """ "broken" if some element's interval lies above its floor, "equivariant" (or "stochastic") if no mean does."""
    if any(map(_above, elements)):
        return "broken"
    if all(e.at_floor for e in elements):
        if not floors.deterministic:
            return "stochastic"
        return "equivariant" if floors.of_elements.mean() <= UNINFORMATIVE else "undecided"
    return "undecided"


def sentence(
    name: str,
    verdict: Verdict,
    contract: ContractSection,
    elements: list[ElementResult],
    error: Spread,
    floor: float,
    worst: tuple[int, str],
    layers: LayerSection | None,
    floors: Floors,
) -> str:
    """The finding in one sentence."""
    kind = _INVARIANT if all(o.action == _INVARIANT for o in contract.outputs) else "equivariant"
    mean = f"mean relative error {number(error.estimate.mean)}, floor {number(floor)}"
    where = f" The violation starts in {layers.guilty}." if layers is not None and layers.guilty is not None else ""
    if verdict == "equivariant":
        how = "as well as the interpolation of its inputs allows" if not exact(contract) else "to rounding"
        return f"{name} is {kind} under {contract.group} {how}: {mean}."
    if verdict == "stochastic":
        return (
            f"{name} is stochastic: two evaluations of one input differ by {number(floors.noise)}, which hides any "
            f"violation of {contract.group} ({mean}).{where}"
        )
    if verdict == "undecided":
        why = " (interpolation alone changes these inputs too much)" if floor > UNINFORMATIVE else ""
        return f"Whether {name} is {kind} under {contract.group} cannot be told from these inputs{why}: {mean}."
    random = "" if floors.deterministic else f" It is stochastic, too, by {number(floors.noise)}."
    if error.estimate.mean <= FACTOR * floor:  # the exact elements show what interpolation hides in the others
        above = [e for e in elements if _above(e)]
        own = sum(e.error.estimate.mean for e in above) / len(above)
        return (
            f"{name} is not {kind} under {contract.group}: {len(above)} of {len(elements)} elements are above their "
            f"floors, by mean relative errors of {number(own)}; interpolation hides the others ({mean}).{random}{where}"
        )
    return (
        f"{name} is not {kind} under {contract.group}: mean relative error {with_interval(error.estimate)}, "
        f"floor {number(floor)}; worst {number(error.worst)} at input {worst[0]} with "
        f"{worst[1]}.{random}{where}"
    )


def _above(element: ElementResult) -> bool:
    """By the interval's lower end; without an interval (few inputs, or equal errors) by the median."""
    error = element.error
    least = error.median if math.isnan(error.estimate.low) else error.estimate.low
    return least > FACTOR * element.floor


def exact(contract: ContractSection) -> bool:
    """Whether no input is resampled."""
    return all(i.exact for i in contract.inputs)


def with_interval(e: Estimate) -> str:
    """A relative error and, where there is one, its interval in brackets."""
    return number(e.mean) if math.isnan(e.low) else f"{number(e.mean)} [{number(e.low)}, {number(e.high)}]"


def number(value: float) -> str:
    """A relative error: per cent from 0.01 % on, powers of ten below."""
    return f"{100 * value:.3g} %" if value >= 1e-4 else format_number(value)
