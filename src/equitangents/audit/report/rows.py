"""The table of an audit: a first line of at most 120 characters, then labelled rows, the same in every form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from equitangents.audit.report.numbers import (
    NAMED,
    UNITS,
    MeanEstimate,
    ends,
    folded,
    format_number,
    interval,
    listed,
    number,
    standing,
)
from equitangents.audit.report.sections import (
    DECIDES,
    HOW,
    LAYER_REASONS,
    REASONS,
    Findings,
    RuleResult,
    SetResult,
)
from equitangents.report.render import Table

LENGTH = 120
"""The most characters of a first line."""
HEAD = ["", "of", "value", "interval", "noise floor", "unit"]


def first_line(report: Findings) -> str:
    """Verdict, error with its interval, noise floor and group, in at most `LENGTH` characters."""
    headline = report.headline
    write = format_number if report.unscaled else number
    known = (
        [report.verdict] if report.verdict not in ("broken", "undecided") else [report.verdict, f"({report.reason})"]
    )
    error, floor = interval(headline.error.estimate, write), write(headline.floor)
    line = f"{' '.join(known)}: error {error} {report.unit}, noise floor {floor}, "
    return line + folded(report.contract.group, max(LENGTH - len(line), 1))


def table(report: Findings) -> Table:
    """The main table of the report."""
    parts = (_decision, _errors, _outputs, _off_data, _causes, _helps, _sample)  # in the order in which they are read
    return Table("", HEAD, [row for part in parts for row in part(report)], text=True)


def _row(label: str, of: str = "", value: str = "", interval: str = "", floor: str = "", unit: str = "") -> list[str]:
    """One row under `HEAD`."""
    return [label, of, value, interval, floor, unit]


def _measured(label: str, of: str, error: MeanEstimate, unit: str, floor: float | None = None) -> list[str]:
    """A row of a mean with its interval and noise floor."""
    return [label, of, number(error.mean), ends(error), number(floor), unit]


def _decision(report: Findings) -> Iterator[list[str]]:
    yield _row("model", folded(report.model.name))
    yield _row("reason", report.reason, REASONS[report.reason])
    if report.reason in DECIDES:
        yield _row("would decide", "", DECIDES[report.reason])
    if report.headline.tolerance is not None:
        yield _row("tolerance", "", number(report.headline.tolerance))


def _errors(report: Findings) -> Iterator[list[str]]:
    headline, by_spread = report.headline, report.relative.error_by_spread
    if not report.unscaled:
        yield _measured("error", "", headline.error.estimate, report.unit, headline.floor)
    if headline.unit == "spread":
        yield _measured("error", "", report.error.estimate, UNITS["norm"], report.floor)
    if headline.unit == "norm" and by_spread is not None:
        yield _measured("error", "", by_spread.estimate, UNITS["spread"], report.relative.floor_by_spread)
    if headline.steady is not None:
        yield _measured("error without rounding", "", headline.steady, UNITS[headline.steady_unit or headline.unit])
    if (w := report.witness) is not None:
        yield _row("worst", f"input {w.index}, {w.label}", number(w.error), unit=report.unit)
    single = report.counterexample
    if single is not None:
        at = f"input {single.index}, {single.label}"
        yield _row("single input", at, number(single.error), "", number(single.floor), report.unit)
    task = report.relative
    if task.task is not None and task.task_error is not None:
        yield _row(task.task, "inputs as given", format_number(task.task_error))
        yield _row(task.task, "moved inputs", format_number(task.transformed_task_error or 0.0))
    for u in report.undefined[:NAMED]:
        yield _row("NaN or infinite", u.label, str(u.inputs), unit="inputs")
    same = report.orbit.same_predictions
    if same is not None:
        moving = report.contract.outputs[0].action != "invariant"
        if moving:
            yield _measured("labels that move with the inputs", "", same, UNITS["classes"])
        else:
            change = MeanEstimate(1 - same.mean, 1 - same.high, 1 - same.low)
            yield _measured("labels that change", "", change, UNITS["classes"])


def _outputs(report: Findings) -> Iterator[list[str]]:
    outputs = report.contract.outputs
    for o in outputs:
        if o.vanishes:
            yield _row("vanishes", folded(o.name), format_number(o.rms or 0.0), unit="root mean square")
        if len(outputs) > 1 and not (o.vanishes and o.scale is None):
            yield _measured("output", folded(o.name), o.judged, report.unit_of(o), o.floor)
        if o.compared is not None:
            yield _row("error is", folded(o.name), o.compared)
        if o.matching is not None:
            for what, share in vars(o.matching).items():
                if share is not None:
                    yield _measured(MATCHED[what], folded(o.name), share, "of items")
        if o.fails_under and not (len(outputs) == 1 and len(o.fails_under) == len(report.elements)):
            of = f"{len(o.fails_under)} of {len(report.elements)} {report.contract.noun}s"
            yield _row("fails under", folded(o.name), listed(o.fails_under), unit=of)


MATCHED = {"iou": "IoU of matched boxes", "missed": "items missed", "extra": "items extra"}


def _off_data(report: Findings) -> Iterator[list[str]]:
    for s in report.sets[1:]:
        yield _measured("off the data", s.name, s.judged, report.unit, s.judged_floor)


def _causes(report: Findings) -> Iterator[list[str]]:
    layers = report.layers
    if layers is not None:
        yield _row("layers", "", LAYER_REASONS[layers.reason])
        if layers.guilty is not None:
            yield _row("starts in", folded(layers.guilty))
    for rule in report.rules:
        yield from _of_rule(rule)
    if report.ensemble is not None:
        members = f"{report.ensemble.members} members"
        for label, e in zip(("one member", members, "infinitely many members"), report.ensemble.errors, strict=True):
            yield _measured("ensemble", label, e, f"{UNITS['norm']}, root mean square")


def _of_rule(rule: RuleResult) -> Iterator[list[str]]:
    """The rule of one output, the errors with and without it, and the equivalent output_action."""
    name = folded(rule.output)
    yield _row("rule of outputs", name, rule.rule if rule.found else "none found")
    if rule.error is not None:
        yield _measured("error with the rule", name, rule.error, UNITS[rule.unit])
    if rule.invariant is not None:
        yield _measured("error without the rule", name, rule.invariant, UNITS[rule.unit])
    if rule.agreement is not None:
        yield _measured("labels that follow the rule", name, rule.agreement, UNITS["classes"])
    if rule.found and rule.by_hand is not None:
        yield _row("output_action", name, rule.by_hand)


def _helps(report: Findings) -> Iterator[list[str]]:
    if report.verdict not in ("broken", "equivariant on its data"):
        return
    for m in report.remedies:
        if m.after is not None:
            yield _measured("would help", m.name, m.after, report.unit)
            yield _row("cost", m.name, str(m.cost), unit=m.cost_unit)
            if m.task_before is not None and m.task_after is not None and report.relative.task is not None:
                change = f"{format_number(m.task_before)} → {format_number(m.task_after)}"
                yield _row(report.relative.task, m.name, change)
        else:
            yield _row("not tried", m.name, HOW[m.how])


def _sample(report: Findings) -> Iterator[list[str]]:
    if not report.model.deterministic:
        yield _row("noise of the model", "", number(report.model.noise), unit=UNITS["norm"])
    if report.unmoved:
        yield _row("inputs that nothing moves", "", str(report.unmoved), unit="inputs")
    if report.contract.layout is not None:
        yield _row("layout", "", report.contract.layout)
    for part in report.missing:
        yield _row("left out", part.section, folded(part.reason, 200))


def above(sets: Sequence[SetResult], limit: float | None) -> list[SetResult]:
    """The sets off the data whose error is above a limit and their noise floors."""
    return [s for s in sets if s.kind != "data" and s.above and standing(s.judged, s.judged_floor, limit) == "above"]
