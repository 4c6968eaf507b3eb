"""A report in a few lines for a terminal, and as Markdown that GitHub renders, for continuous integration."""

from __future__ import annotations

import re
from collections.abc import Sequence

from equitangents.audit.report.findings import Findings
from equitangents.audit.report.part_sections import TASK, Remedy
from equitangents.audit.report.sections import HOLDING, ElementResult, OutputContract
from equitangents.audit.report.words import WORSE, badge, by_hand, interval, listed, matching_said, number, share_of
from equitangents.formatting import duration, memory_size

LAYOUTS = {"channels_last": "(N, H, W, C), channels last", "channels_first": "(N, C, H, W), channels first"}


def before_probabilities(report: Findings) -> str:
    """Where members are judged by other numbers than the whole, what these are."""
    told = report.model.kind == "deep ensemble" and report.orbit.outputs == "probabilities"
    return " (outputs before they become probabilities)" if told else ""


def summary(report: Findings) -> str:
    """The sentence, then one line for each part that has something to say."""
    lines = [report.sentence, *(f"  {line}" for line in details(report))]
    return "\n".join(lines)


def details(report: Findings) -> list[str]:
    """One line a part."""
    orbit, relative, lines = report.orbit, report.relative, []
    norm, spread = report.error.estimate, relative.error_by_spread
    if report.shown.unit in ("norm", "spread") and spread is not None:
        lines.append(f"mean error: {share_of(norm, 'norm')}, {share_of(spread.estimate, 'spread')}")
    if report.contract.layout is not None:
        lines.append(f"images are read as {LAYOUTS[report.contract.layout]}; layout= says otherwise")
    lines += [
        f"{o.name}: {interval(o.matching.iou)} IoU of matched boxes"
        for o in report.contract.outputs
        if o.matching is not None and o.matching.iou is not None and len(report.contract.outputs) == 1
    ]
    if len(report.contract.outputs) > 1:
        lines += [output_said(o, report) for o in report.contract.outputs]
    if report.partial:
        left = [m.section for m in report.missing[1:] if m.reason.startswith("interrupted")]
        lines.append(
            f"partial report: {report.missing[0].reason}" + (f"; not measured: {', '.join(left)}" if left else "")
        )
    lines += [f"y was left out: {m.reason}" for m in report.missing if m.section == TASK]
    lines += [said for rule in report.rules if (said := by_hand(rule))]
    if orbit.same_predictions is not None:
        lines.append(f"same prediction for moved inputs: {interval(orbit.same_predictions)}")
    lines.append(f"relative orbit standard deviation: {interval(orbit.relative_std)}")
    if orbit.divergence is not None:
        lines.append(f"divergence of probabilities: {orbit.divergence.mean:.3g} bits")
    unit = report.unit_said
    lines += [
        f"on {s.name} ({s.inputs} inputs): {interval(s.shown)} {unit}, floor {number(s.shown_floor)}"
        for s in report.sets[1:]
    ]
    lines += [t.said for t in report.transforms]
    lines += [f"Lie derivative, {d.generator}: {d.value.mean:.3g} of ‖f(x)‖ per {d.unit}" for d in report.lie]
    if report.verdict == "broken" and report.irreps is not None and report.irreps.shares:
        largest = max(report.irreps.shares, key=lambda s: s.share.mean)
        lines.append(f"largest share of the violation: {irrep_said(largest.name)}, {largest.share.mean:.0%}")
    if report.layers is not None:
        lines.append(f"layers: {report.layers.reason}")
    if report.ensemble is not None:
        one, now, limit = report.ensemble.errors
        lines.append(
            f"{report.ensemble.members} members{before_probabilities(report)}, root mean square error of ‖f(x)‖: "
            f"{interval(one)} each, {interval(now)} together, {interval(limit)} for infinitely many"
        )
        lines += [] if report.ensemble.by_design is None else [report.ensemble.by_design]
    if report.data is not None:
        known = {True: "no sign that the data lack the symmetry", False: "the data do not have the symmetry"}
        finding = known.get(report.data.symmetric, "too few inputs to say whether the data have the symmetry")  # type: ignore[arg-type]
        lines.append(f"data: {finding} (p = {report.data.p_value:.2g})")
    if report.verdict not in HOLDING:
        lines += [remedy_said(m) for m in report.remedies if m.measured or m.after is not None]
    lines += [bill_said(report)] if report.timing.member_passes else []
    lines += [passes_said(report)] if report.timing.parts else []
    return [folded(line, 400) for line in lines]


def bill_said(report: Findings) -> str:
    """What predictions of an ensemble take in hours, now and with the number of members that the law asks for."""
    t, known = report.timing, [m for m in report.remedies if m.passes_before is not None]
    now = report.ensemble.members if report.ensemble is not None else 1
    then = known[0].passes_after if known else None
    one = t.model_seconds / t.member_passes
    hours = lambda members: f"{one * members * 1e6 / 3600:.2g} h for a million inputs"
    said = f"one forward pass of a member took {duration(one)} per input: {now} members take {hours(now)}"
    whole = said if then is None else f"{said}; {then:,} members {hours(then)}"
    return f"{whole}; multiply the hours by the price of one for the cost"


def passes_said(report: Findings) -> str:
    """How often the model was evaluated, and for what."""
    t = report.timing
    parts = ", ".join(f"{name} {count:,}" for name, count in t.parts.items())
    said = f"evaluated {t.evaluations:,} inputs in {t.batches:,} calls, {t.passes:.3g} passes over the data: {parts}"
    if t.weights is None or t.activations is None:
        return said
    held = f"activations of {memory_size(t.activations)} beside weights of {memory_size(t.weights)}"
    return f"{said}; in batches of at most {report.settings.batch_size:,}: {held}"


def output_said(o: OutputContract, report: Findings) -> str:
    """One output among several: its error, and where it fails."""
    name = f"output {folded(o.name)}"
    if o.vanishes and o.scale is None:
        return f"{name}: vanishes, not judged"
    said = f"{name}: {interval(o.shown)} {report.unit_said_of(o)}"
    said += matching_said(o)
    if o.floor is not None:
        said += f", floor {number(o.floor)}"
    tried = len(report.elements)
    if len(o.fails_under) == tried:
        return f"{said}; fails under every element"
    return f"{said}; fails under {listed(o.fails_under)}" if o.fails_under else said


def remedy_said(m: Remedy) -> str:
    """A remedy's error before and after, and what to know about it."""
    before, after = m.before_after
    errors = "" if before is None or after is None else f"{m.quantity} {interval(before)} now, {interval(after)} then; "
    return f"{m.name}: {m.note}" if m.note.startswith(WORSE) else f"{m.name}: {errors}{m.note}"


def how_known(m: Remedy) -> str:
    """How a remedy's numbers are known, for tables: a warning first, if there is one."""
    if m.note.startswith(WORSE):
        return m.note
    stated = {True: "measured", False: "not measured"}[m.measured]
    return f"{stated}: {m.note}" if m.note and not m.note.startswith(stated) else m.note or stated


def irrep_said(name: str) -> str:
    """ "frequency 2" in words: how often the part comes back on a full turn."""
    kind, _, times = name.partition(" ")
    if kind != "frequency" or not times.isdigit():
        return name
    often = {"1": "once", "2": "twice"}.get(times, f"{times} times")
    return f"{name} (varies {often} over a full turn)"


def folded(text: str, most: int = 48) -> str:
    """A long name with its middle left out.

    >>> folded("features.encoder.stage3.block17.conv2d_wide", 24)
    'features.enc…conv2d_wide'
    """
    if len(text) <= most:
        return text
    kept = most - 1
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"


_SIGNS = {
    "equivariant": "✅",
    "equivariant within tolerance": "✅",
    "equivariant on its data": "⚠️",
    "broken": "❌",
    "stochastic": "🎲",
    "undecided": "❔",
}
_ROWS = 16
_ACTIVE = re.compile(r"[\\`*\[\]|~$]|(?<!\w)_|_(?!\w)")  # an underscore inside a word is one


def markdown(report: Findings) -> str:
    """The sentence, then tables of elements, sets, layers and remedies."""
    worst_first = sorted(report.elements, key=lambda e: -e.shown.estimate.mean)
    headline = report.shown
    state = badge(report.verdict, headline, report.sets)[2]
    shown = [e for e in report.elements if e in worst_first[:_ROWS]]
    parts = [
        f"## {_SIGNS[report.verdict]} Equivariance audit: {escaped(f'{report.model.name}, {report.contract.group}')}",
        f"**{state}.** {escaped(report.sentence)}",
        "\n".join(f"- {escaped(line)}" for line in details(report)),
        f"### Elements, errors {report.unit_said}"
        + ("" if len(shown) == len(report.elements) else f" (the worst {_ROWS})"),
        table(
            ["element", "mean error", "median", "worst", "floor", ""],
            [
                [
                    folded(e.label),
                    interval(e.shown.estimate),
                    number(e.shown.median),
                    number(e.shown.worst),
                    number(e.shown_floor),
                    _state(e, headline.tolerance),
                ]
                for e in shown
            ],
        ),
    ]
    if report.layers is not None:
        rows = [
            [folded(r.name), r.kind, number(r.error), number(r.floor), Marked("**breaks**" if r.broken else "")]
            for r in report.layers.layers
        ]
        parts += ["### Layers", table(["layer", "kind", "error", "floor", ""], rows)]
    if report.remedies:
        value = lambda e: "" if e is None else interval(e)
        rows = [[m.name, *map(value, m.before_after), m.cost, how_known(m)] for m in report.remedies]
        parts += ["### Remedies", table(["remedy", "error now", "then", "cost", "how this is known"], rows)]
    if report.missing:
        parts += ["### Left out", "\n".join(f"- {escaped(m.section)}: {escaped(m.reason)}" for m in report.missing)]
    return "\n\n".join(parts) + "\n"


def _state(e: ElementResult, tolerance: float | None) -> str:
    """What the last column says of an element."""
    if e.at_floor:
        return "at the floor"
    return Marked("**above**") if tolerance is None or e.above else f"not above {number(tolerance)}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown: header, rule, and one line a row; cells are escaped but where they are `Marked`."""
    line = lambda cells: "| " + " | ".join(c if isinstance(c, Marked) else escaped(c) for c in cells) + " |"
    return "\n".join([line(header), "|" + "---|" * len(header), *map(line, rows)])


class Marked(str):
    """Text that is Markdown already."""

    __slots__ = ()


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, on one line: names of models, files and rows may hold anything."""
    text = _ACTIVE.sub(r"\\\g<0>", " ".join(text.splitlines()))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
