"""The finding in a few words, the first thing that is read: what holds or not, by how much, of what, and where."""

from __future__ import annotations

from equitangents.audit.measure.floors import FACTOR, UNINFORMATIVE, Floors
from equitangents.audit.measure.judge import Judgement
from equitangents.audit.report.findings import Verdict
from equitangents.audit.report.sections import (
    ContractSection,
    ElementResult,
    Estimate,
    LayerSection,
    OutputContract,
)
from equitangents.audit.report.words import NAMED, NEARLY, interval, listed, matching_said, number, of, tolerance_said
from equitangents.report.verdict import format_number

INVARIANT = "invariant"


def sentence(
    name: str,
    verdict: Verdict,
    contract: ContractSection,
    elements: list[ElementResult],
    judgement: Judgement,
    floors: Floors,
    layers: LayerSection | None,
    same: Estimate | None,
) -> str:
    """What the audit found, in one sentence for its headline."""
    kind = INVARIANT if all(o.action == INVARIANT for o in contract.outputs) else "equivariant"
    group, headline, outputs = contract.group, judgement.headline, contract.outputs
    measured = f"{error_said(judgement, outputs)}{compared_said(outputs)}, floor {number(headline.floor)}"
    blank = vanishing(outputs)
    where = _where(layers)
    tolerance = tolerance_said(headline.tolerance)
    if verdict == "equivariant":
        how = "to rounding" if exact(contract) else "as well as the interpolation of its inputs allows"
        return f"{name} is {kind} under {group} {how}: {measured}.{blank}"
    if verdict == "equivariant within tolerance":
        random = _random(floors)
        return f"{name} is {kind} under {group} to within {tolerance}: {measured}{_kept(same)}.{random}{blank}"
    if verdict == "stochastic":
        return (
            f"{name} is stochastic: two evaluations of one input differ by {number(floors.noise)}, which hides any "
            f"violation of {group} ({measured}).{where}{blank}"
        )
    if verdict == "undecided":
        return _undecided(name, kind, contract, judgement, measured) + blank
    rest = f"{_failing(contract, elements, judgement)}{_random(floors)}{where}{blank}"
    far = f"{_worst(elements, judgement)}{_kept(same)}"
    if headline.tolerance is not None:
        return f"{name} is not {kind} under {group} to within {tolerance}: {measured}{far}.{rest}"
    if headline.error.estimate.mean <= FACTOR * headline.floor:  # exact elements show what interpolation hides
        above = [e for e in elements if e.above]
        own = sum((e.judged or e.error).estimate.mean for e in above) / max(len(above), 1)
        return (
            f"{name} is not {kind} under {group}: {len(above)} of {len(elements)} {contract.noun}s are above their "
            f"floors, by mean relative errors of {number(own)}; the floors hide the others ({measured}).{rest}"
        )
    if headline.bound <= NEARLY:
        return (
            f"{name} is not exactly {kind} under {group}, but to within {number(headline.bound)}: "
            f"{measured}{far}.{rest}"
        )
    return f"{name} is not {kind} under {group}: {measured}{far}.{rest}"


def error_said(judgement: Judgement, outputs: list[OutputContract]) -> str:
    """The headline's error with its interval and unit, then the same error in the other unit.

    Outputs whose errors are relative to something else than the headline's are named, but for masks and sets.
    """
    unit, estimate = judgement.headline.unit, judgement.headline.error.estimate
    if unit == "classes":
        return f"the class changes in {interval(estimate)} of cases"
    if unit == "share":
        return f"mean error {interval(estimate)}"
    said = f"mean relative error {interval(estimate)} {of(unit)}"
    if judgement.scales.nothing:
        return f"mean violation {format_number(estimate.mean)}"
    if unit == "absolute":
        return f"mean error {interval(estimate)} of output_scale"
    norm, spread = judgement.by_norm.estimate.mean, judgement.by_spread
    own = "".join(f"{o.name}: {of(o.unit)}; " for o in outputs if o.unit in ("absolute", "classes"))
    if unit == "spread":
        return f"{said} ({own}{number(norm)} of ‖f(x)‖)"
    second = judgement.headline.reason if spread is None else f"{number(spread.estimate.mean)} {of('spread')}"
    return f"{said} ({own}{second})"


def compared_said(outputs: list[OutputContract]) -> str:
    """What the error of masks and sets is, and what was matched: " (1 − matched IoU), 93 % IoU of matched boxes, …"."""
    found = [o for o in outputs if o.compared is not None]
    if len(outputs) == 1:
        return "".join(f" ({o.compared}){matching_said(o)}" for o in found)
    return "".join(f"; {o.name} by {o.compared}{matching_said(o)}" for o in found)


def exact(contract: ContractSection) -> bool:
    """Whether no input is resampled."""
    return all(i.exact for i in contract.inputs)


def vanishing(outputs: list[OutputContract]) -> str:
    """Which outputs vanish, and what they are judged against."""
    gone = [o for o in outputs if o.vanishes]
    if not gone:
        return ""
    names, one = listed([o.name for o in gone]), len(gone) == 1
    size = format_number(max(o.rms or 0.0 for o in gone))
    said = f" {names} {'vanishes' if one else 'vanish'} for all inputs: root mean square {size}, no more than rounding"
    if all(o.scale is not None for o in gone):
        return f"{said}; judged against output_scale {listed([f'{o.scale:g}' for o in gone])}."
    if all(o.judged is not None and o.judged.mean == 0 for o in gone):
        return f"{said}, and the same for moved inputs."
    it = "it is" if one else "they are"
    return f"{said}, so {it} not judged; output_scale gives a size to judge {'it' if one else 'them'} against."


def _undecided(name: str, kind: str, contract: ContractSection, judgement: Judgement, measured: str) -> str:
    headline = judgement.headline
    if judgement.scales.nothing:
        doubt = f"Whether {name} is {kind} under {contract.group} cannot be told from these inputs"
        return f"{doubt}: {error_said(judgement, contract.outputs)}."
    within = "" if headline.tolerance is None else f" to within {tolerance_said(headline.tolerance)}"
    why = ""
    if headline.tolerance is not None and headline.floor > headline.tolerance:
        why = " (the floor alone is larger than that)"
    elif headline.floor > UNINFORMATIVE:
        cause = "rounding" if exact(contract) else "interpolation"
        why = f" ({cause} alone changes these outputs too much)"
    return f"Whether {name} is {kind} under {contract.group}{within} cannot be told from these inputs{why}: {measured}."


def _worst(elements: list[ElementResult], judgement: Judgement) -> str:
    if judgement.headline.unit == "classes":
        return ""
    k, i = judgement.worst
    return f"; worst {number(judgement.headline.error.worst)} at input {i} with {elements[k].label}"


def _kept(same: Estimate | None) -> str:
    return "" if same is None else f"; {number(same.mean)} of predictions stay the same"


def _failing(contract: ContractSection, elements: list[ElementResult], judgement: Judgement) -> str:
    """Which output fails under which elements, where it is not all of them."""
    failing = [o for o in contract.outputs if o.fails_under]
    everything = len(elements)
    if len(contract.outputs) == 1:
        labels = failing[0].fails_under if failing else []
        some = 0 < len(labels) < everything
        return f" It fails under {listed(labels)} ({len(labels)} of {everything} {contract.noun}s)." if some else ""
    parts = []
    for o in failing[:NAMED]:
        labels = o.fails_under
        which = (
            f"every {contract.noun} ({everything})"
            if len(labels) == everything
            else (f"{listed(labels)} ({len(labels)} of {everything} {contract.noun}s)")
        )
        parts.append(f"{o.name} fails under {which}")
    more = len(failing) - len(parts)
    kept = [o.name for o in contract.outputs if not o.fails_under and not (o.vanishes and o.scale is None)]
    good = f"; {listed(kept)} {'does' if len(kept) == 1 else 'do'} not" if kept else ""
    return f" {'; '.join(parts)}{f' and {more} more outputs fail' if more > 0 else ''}{good}." if parts else ""


def _random(floors: Floors) -> str:
    return "" if floors.deterministic else f" It is stochastic, too, by {number(floors.noise)}."


def _where(layers: LayerSection | None) -> str:
    if layers is None or layers.guilty is None:
        return ""
    if layers.expected:
        return (
            f" The error grows most in {layers.steepest}; that the first layer with weights breaks the symmetry is as "
            "expected of a network that is not built to be equivariant."
        )
    return f" The violation starts in {layers.guilty}."
