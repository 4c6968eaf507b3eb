"""The finding in a few words, the first thing that is read: what holds or not, by how much, of what, and where.

And of a verdict that is open why it is, and what would decide it: failing assertions and exit statuses say so, too.
"""

from __future__ import annotations

import math

from equitangents.audit.measure.floors import Floors
from equitangents.audit.measure.judge import Hidden, Judgement, hidden
from equitangents.audit.measure.measured import Measured
from equitangents.audit.report.findings import Findings
from equitangents.audit.report.numbers import FACTOR, Estimate, of
from equitangents.audit.report.part_sections import LayerSection
from equitangents.audit.report.sections import ContractSection, Doubt, ElementResult, Headline, OutputContract
from equitangents.audit.report.words import (
    NAMED,
    NEARLY,
    beyond,
    interval,
    listed,
    matching_said,
    number,
    rule_said,
    sets_said,
    share_of,
    tolerance_said,
    within,
)
from equitangents.report.numbers import format_number

INVARIANT = "invariant"


def sentence(m: Measured, report: Findings) -> str:
    """What the audit found, in one sentence for its headline, what one must know to act on it, and how outputs move."""
    outputs = report.contract.outputs
    said = _finding(m, report) + vanishing(outputs) + _unmoved(m, report.contract) + _data(report)
    whole = " ".join([said, *(rule_said(rule, len(outputs) > 1) for rule in report.rules)])
    return f"Partial, interrupted: {whole}" if report.partial else whole


def _finding(m: Measured, report: Findings) -> str:
    verdict, contract, judgement = report.verdict, report.contract, m.judgement
    beyond_it = beyond(verdict, report.shown, report.sets)
    elsewhere = sets_said(beyond_it, report.unit_said)
    kind = INVARIANT if all(o.action == INVARIANT for o in contract.outputs) else "equivariant"
    name, group, headline, outputs = report.model.name, contract.group, judgement.headline, contract.outputs
    measured = f"{error_said(judgement, outputs, m.same)}{compared_said(outputs)}, floor {number(headline.floor)}"
    measured += "" if headline.steady is None else f", {_steady_said(headline)}"
    where, kept = _where(report.layers), "" if headline.unit == "probability" else _kept(m.same)
    tolerance, open_ = tolerance_said(headline.tolerance), "" if m.doubt is None else m.doubt.said
    exactly = "" if headline.tolerance is None else f" to within {tolerance}"
    if verdict == "equivariant":
        how = "to rounding" if exact(contract) else "as well as the interpolation of its inputs allows"
        return f"{name} is {kind} under {group} {how}: {measured}."
    if verdict == "equivariant on its data":
        alone = f"{name} is {kind} under {group} on its data alone{exactly}"
        return f"{alone}: mean error {elsewhere}; on its data {measured}{kept}.{_random(m.floors)}"
    if verdict == "equivariant within tolerance":
        single = _single(judgement, "; but ")
        return f"{name} is {kind} under {group} to within {tolerance}: {measured}{kept}{single}.{_random(m.floors)}"
    if verdict == "stochastic":
        hides = f"which hides whether it is {kind} under {group}"
        return f"{name} is stochastic, {hides}: {open_}. Measured: {measured}.{where}"
    if verdict == "undecided":
        found = error_said(judgement, outputs, None) if judgement.scales.nothing else measured
        single = _single(judgement, "; ")
        doubt = f"Whether {name} is {kind} under {group}{exactly} cannot be told from these inputs: {open_}"
        return f"{doubt}. Measured: {found}{single}."
    fails = f"{name} is not {kind} under {group}{exactly}: "
    rest = f"{_failing(report)}{_random(m.floors)}{where}"
    rare = _rare(m)
    far = f"{_worst(report.elements, judgement)}{rare}{kept}"
    if judgement.undefined:
        return f"{fails}{_undefined(judgement)}; elsewhere {measured}{far}.{rest}"
    if headline.tolerance is None and judgement.counterexample is not None:
        return f"{fails}{_single(judgement, '')}{rare}; {measured}{kept}.{rest}"
    if headline.tolerance is None and not headline.steady and headline.error.estimate.mean <= FACTOR * headline.floor:
        return f"{fails}{_above(report, headline)} ({measured}).{rest}"
    if headline.tolerance is None and within(headline) <= NEARLY:
        fails = f"{name} is not exactly {kind} under {group}, but to within {number(within(headline))}: "
        rest = f"{f' Off its data it is not: mean error {elsewhere}.' if beyond_it else ''}{rest}"
    return f"{fails}{measured}{far}.{rest}"


def _steady_said(headline: Headline) -> str:
    """What of the error is no rounding, with its interval; of its own unit where that is another than the error's."""
    assert headline.steady is not None
    unit = headline.steady_unit or headline.unit
    whose = "" if unit == headline.unit else f" {of(unit)}"
    return f"without rounding {interval(headline.steady)}{whose}"


def _above(report: Findings, headline: Headline) -> str:
    """Which exact elements show what interpolation hides under the others."""
    above = [e for e in report.elements if e.above]
    own = sum((e.judged or e.error).estimate.mean for e in above) / max(len(above), 1)
    return (
        f"{len(above)} of {len(report.elements)} {report.contract.noun}s are above their floors, by mean errors of "
        f"{number(own)} {of(headline.unit)}; the floors hide the others"
    )


def error_said(judgement: Judgement, outputs: list[OutputContract], same: Estimate | None) -> str:
    """The headline's error with its interval and unit, then the same error in the other unit.

    Of classifiers how many predictions change, and by how much a probability does. Outputs whose errors are relative to
    something else than the headline's are named, but for masks and sets.
    """
    unit, estimate = judgement.headline.unit, judgement.headline.error.estimate
    if unit == "classes":
        return f"the class changes in {interval(estimate)} of cases"
    if unit == "probability":
        return f"{labels_said(same, outputs[0].action)}, probabilities change by {interval(estimate)} on average"
    if unit == "share":
        return f"mean error {interval(estimate)}"
    if judgement.scales.nothing:
        return f"mean violation {format_number(estimate.mean)}"
    if unit == "absolute":
        return f"mean error {interval(estimate)} of output_scale"
    said = f"mean relative error {share_of(estimate, unit)}"
    norm, spread = judgement.by_norm.estimate, judgement.by_spread
    own = "".join(f"{o.name}: {of(o.unit)}; " for o in outputs if o.unit in ("absolute", "classes", "probability"))
    if unit == "spread":
        return f"{said} ({own}{share_of(Estimate(norm.mean, math.nan, math.nan), 'norm')})"
    second = judgement.headline.reason if spread is None else f"{number(spread.estimate.mean)} {of('spread')}"
    return f"{said} ({own}{second})"


def labels_said(same: Estimate | None, action: str) -> str:
    """How many predicted labels change, or move as they should."""
    if same is None:
        return "predicted labels are not compared"
    if action != INVARIANT:
        return f"{number(same.mean)} of predicted labels move with the inputs"
    return "no predicted label changes" if same.mean == 1 else f"{number(1 - same.mean)} of predicted labels change"


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


def _single(judgement: Judgement, before: str) -> str:
    """The input that disproves by itself, with its error and its floor; "" if there is none."""
    found = judgement.counterexample
    if found is None:
        return ""
    at = f"input {found.index} with {found.label}"
    if judgement.headline.unit == "classes":
        return f"{before}the class of {at} changes"
    error = f"{number(found.error)} {of(judgement.headline.unit)}"
    return f"{before}{at} is off by {error}, its own floor {number(found.floor)}"


def _rare(m: Measured) -> str:
    """How rare violations are where few inputs show them."""
    count, inputs = int(m.judgement.far.any(axis=(0, 1)).sum()), m.task.x.n
    if not 0 < 2 * count < inputs:
        return ""
    return f"; {count} of {inputs} inputs {'is' if count == 1 else 'are'} far above the floor"


def _undefined(judgement: Judgement) -> str:
    """Where outputs are NaN or infinite."""
    parts = [f"{u.inputs} with {u.label} (the first input {u.index})" for u in judgement.undefined[:NAMED]]
    more = len(judgement.undefined) - len(parts)
    also = f" and others with {more} more" if more > 0 else ""
    return f"it gives NaN or infinite values for some moved inputs, finite before: {', '.join(parts)}{also}"


def _unmoved(m: Measured, contract: ContractSection) -> str:
    """How many inputs nothing moves, and how many remain."""
    count, left = m.task.unmoved, m.task.x.n
    if not count or m.task.sample is None:
        return ""
    are = "is moved by no element and was" if count == 1 else f"are moved by no {contract.noun} and were"
    return f" {count} of {count + left} inputs {are} left out: {left} remain."


def _data(report: Findings) -> str:
    """A sentence: the data do not have the symmetry, which a model that lacks it may have learned."""
    if report.data is None or report.data.symmetric is not False or report.verdict == "equivariant":
        return ""
    return f" The data do not have the symmetry themselves (p = {report.data.p_value:.2g})."


def _worst(elements: list[ElementResult], judgement: Judgement) -> str:
    if judgement.headline.unit == "classes":
        return ""
    k, i = judgement.worst
    return f"; worst {number(judgement.headline.error.worst)} at input {i} with {elements[k].label}"


def _kept(same: Estimate | None) -> str:
    return "" if same is None else f"; {number(same.mean)} of predictions stay the same"


def _failing(report: Findings) -> str:
    """Which output fails under which elements, where it is not all of them; at least, where a single input decided."""
    contract, everything = report.contract, len(report.elements)
    single = report.counterexample is not None
    fails = "fails at least under" if single else "fails under"
    failing = [o for o in contract.outputs if o.fails_under]
    if len(contract.outputs) == 1:
        labels = failing[0].fails_under if failing else []
        some = 0 < len(labels) < everything
        return f" It {fails} {listed(labels)} ({len(labels)} of {everything} {contract.noun}s)." if some else ""
    parts = []
    for o in failing[:NAMED]:
        labels = o.fails_under
        which = (
            f"fails under every {contract.noun} ({everything})"
            if len(labels) == everything
            else (f"{fails} {listed(labels)} ({len(labels)} of {everything} {contract.noun}s)")
        )
        parts.append(f"{o.name} {which}")
    more = len(failing) - len(parts)
    kept = [o.name for o in contract.outputs if not o.fails_under and not (o.vanishes and o.scale is None)]
    good = f"; {listed(kept)} {'does' if len(kept) == 1 else 'do'} not" if kept and not single else ""
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


def doubt(m: Measured) -> Doubt | None:
    """Why a verdict is open; None of verdicts that are not."""
    judgement, headline, dtype = m.judgement, m.judgement.headline, m.orbits.dtype.name
    if m.verdict == "stochastic":
        return Doubt(
            "noise",
            f"two evaluations of one input differ by {number(m.floors.noise)}; the model without its noise (dropout "
            "off, a seed for every input), or the mean of many calls as one model, would decide",
        )
    if m.verdict != "undecided":
        return None
    if judgement.scales.nothing:
        zero = headline.error.worst == 0 and judgement.scales.sizes.max() == 0
        said = "are 0, which shows no symmetry; inputs on which they are not, or" if zero else "vanish up to rounding;"
        return Doubt("vanishing", f"all outputs {said} output_scale, a size to judge them against, would decide")
    if judgement.scales.constant:
        kind = "classes are" if judgement.scales.classes.all() else "outputs are"
        said = f"{kind} the same for all these inputs, moved or not, up to rounding in {dtype}, which shows no symmetry"
        return Doubt("constant", f"{said}; inputs on which they differ, or {_FINER}, would decide")
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
    held = f"the interval of some {'element' if m.group else 'strength'}'s mean error holds {mark}"
    return Doubt("interval", f"{held}; more inputs than these {m.task.x.n} would decide")


def _of_floor(headline: Headline, why: Hidden, dtype: str) -> str:
    """What the floor is made of, what it hides, and what would lower it."""
    resampled = why == "interpolation" or (why == "tolerance" and headline.rounding < headline.floor / 2)
    cause, better = ("interpolation", _SMOOTHER) if resampled else (f"rounding in {dtype}", _FINER)
    size, limit = (headline.rounding if why == "rounding" else headline.floor), FACTOR * headline.floor
    done = f"{cause} alone changes these outputs by {number(size)} {of(headline.unit)}"
    hides = f"which hides violations up to {number(limit)}"
    if why == "tolerance":
        hides = f"{hides}, more than the tolerance of {tolerance_said(headline.tolerance)}"
    return f"{done}, {hides}; {better}, or a tolerance above {number(limit)}, would decide"


_FINER = "the model in float64, or outputs centred about their mean"
_SMOOTHER = "elements that move pixels exactly (quarter turns, whole shifts), or larger and smoother inputs"

UNMOVED = Doubt(
    "inputs",
    "no element moves any of these inputs (blank, or symmetric themselves); inputs that the group moves would decide",
)
INTERRUPTED = Doubt("interrupted", "the audit was interrupted before it was decided; a full one would decide")
