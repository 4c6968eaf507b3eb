"""One audit after another part: orbits and floors first, then everything that is made of them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from equitangents.audit.adapters import as_model
from equitangents.audit.contract.trees import Shared
from equitangents.audit.contract_section import contract_section
from equitangents.audit.doubt import INTERRUPTED, UNMOVED, doubt
from equitangents.audit.interruption import Interruption
from equitangents.audit.measure.counterexamples import confirmed
from equitangents.audit.measure.curves import curves, transform_curves
from equitangents.audit.measure.data_symmetry import data_symmetry
from equitangents.audit.measure.ensembles import ensemble_law
from equitangents.audit.measure.floors import ROWS, Floors, measure_floors, unmeasured_floors
from equitangents.audit.measure.input_sets import measure_set, off_data_sets, same_predictions, set_result
from equitangents.audit.measure.intervals import spread_of
from equitangents.audit.measure.irreps import irreps
from equitangents.audit.measure.judge import Judgement, decide, judge
from equitangents.audit.measure.layers import acquit, layer_errors
from equitangents.audit.measure.lie import lie_derivatives
from equitangents.audit.measure.orbits import Orbits, measure_orbits, relative_std
from equitangents.audit.measure.probabilities import divergences, output_kind
from equitangents.audit.measure.record import Record
from equitangents.audit.measure.relative import relative_section
from equitangents.audit.measure.remedied import Remedies
from equitangents.audit.measure.remedies import remedies
from equitangents.audit.measure.rules.find import hints
from equitangents.audit.measure.scales import Unit, make_scales
from equitangents.audit.measure.task import Task, stopped_task
from equitangents.audit.measure.witnesses import witnesses
from equitangents.audit.records import Parts
from equitangents.audit.report import citations
from equitangents.audit.report.findings import FORMAT
from equitangents.audit.report.result import AuditReport
from equitangents.audit.report.rules import rule_said
from equitangents.audit.report.sections import (
    Checkpoint,
    ElementResult,
    EnsembleSection,
    Estimate,
    Missing,
    ModelSection,
    OrbitSection,
    RuleResult,
    Settings,
    Timing,
    UndefinedPose,
)
from equitangents.audit.sentence import Facts, sentence
from equitangents.errors import NotFiniteError

logger = logging.getLogger("equitangents.audit")

NO_GROUP = "transforms form no group, by which it is measured"
_QUICK_ROWS = 16
_STOPPED_ROWS = 8  # for the floors of an audit that was stopped before them
_MOSTLY = 0.5  # an element under which more inputs than this share give NaN is left out, rather than the inputs


def assemble(
    task: Task,
    began: float,
    y: np.ndarray | None,
    parts: Parts,
    stop: Interruption,
    sought: list[RuleResult] | None = None,
) -> AuditReport:
    """The whole report; of an audit that is stopped, what was measured until then.

    `sought`: what was found of how the outputs move, where that was asked for; otherwise failing outputs are tried.
    """
    missing: list[Missing] = []
    asked = task

    def part(name: str, found: Any) -> Any:
        """The part, or None with the reason noted."""
        if isinstance(found, str):
            missing.append(Missing(name, found))
            logger.info("audit: no %s: %s", name, found)
            return None
        return found

    def measured(name: str, measure: Callable[[], Any], otherwise: Any = None, counted: str = "") -> Any:
        """What it gives, its evaluations counted; `otherwise` if the audit was stopped, or the model failed on it."""
        with task.clock.during(counted or name):
            try:
                return stop.measured(name, measure, otherwise)
            except Exception as error:
                if orbits is None or not (isinstance(error, NotFiniteError) or error is task.clock.failed):
                    raise
                return part(name, f"the model failed on it: {type(error).__name__}: {error}") or otherwise

    def beyond(name: str, measure: Callable[[], Any], otherwise: Any = None) -> Any:
        """The same of a part that quick audits leave out."""
        return otherwise if task.quick else measured(name, measure, otherwise)

    sets = off_data_sets(task, parts.off_data)
    orbits: Any = None
    task, y, orbits, undefined = _passed(task, y, lambda part: measured("elements", lambda: measure_orbits(part)))
    rows = _STOPPED_ROWS if stop.stopped else _QUICK_ROWS if task.quick else ROWS
    with task.clock.during("floors"):
        floors = stop.attempted("floors", lambda: measure_floors(task, orbits.actions, rows))
    unknown = floors is None
    if floors is None:
        floors = unmeasured_floors(task, orbits.dtype, orbits.separate_sizes)
    judgement = replace(judge(task, orbits, floors), undefined=undefined)
    again = measured("single inputs", lambda: confirmed(task, orbits, floors, judgement), counted="floors")
    judgement, floors = again or (judgement, floors)
    headline = judgement.headline
    elements = _elements(task, orbits, floors, judgement)
    error = task.resampler(task.x.n).spread(orbits.errors)
    same = same_predictions(task, orbits)
    members = lambda: ensemble_law(task, orbits.actions, parts.theory, orbits.no_mean)
    found = part("ensemble", beyond("ensemble", members))
    ensemble, spread = found or (None, None)
    decided, open_ = decide(judgement, floors), None
    if task.nothing_moves:
        decided, open_ = "undecided", UNMOVED
    elif unknown or (decided != "broken" and stop.stopped and len(task.elements) < len(asked.elements)):
        decided, open_ = "undecided", INTERRUPTED
    lawful = not task.contract.lawless
    within = lambda: layer_errors(task) if lawful else NO_GROUP
    inside = measured("layers", within) if parts.layers is not False else "layers=False"
    looked = part("layers", acquit(inside) if decided == "equivariant" and inside is not None else inside)
    tested = parts.data_test
    data = part(
        "data",
        "data_test=None"
        if tested is None
        else measured("data", lambda: data_symmetry(task, y, tested) if lawful else NO_GROUP),
    )
    contract = contract_section(task, orbits, judgement)
    floor = float(floors.of_elements.mean())
    model, first = task.model, task.x.subset(np.arange(1))
    data_set = (error.estimate, floor, headline.error.estimate, headline.floor)
    always = floors.absolute.always_relative(orbits.separate_sizes)
    report_sets = [set_result(task, "data", "data", orbits, *data_set)]
    for name, kind, x in sets:
        off = lambda name=name, kind=kind, x=x: [measure_set(task, name, kind, x, always, headline.unit)]
        report_sets += measured(f"set {name!r}", off, [], "other sets")
    relative = relative_section(task, orbits, y, same, spread, judgement.by_spread, judgement.spread_floor)
    lie = beyond("lie", lambda: lie_derivatives(task, orbits.actions))
    if lie is not None and not lie:
        flows = task.contract.group.flows
        why = _no_derivative(orbits) if flows else f"{task.contract.group.name} has no infinitesimal elements"
        missing.append(Missing("lie", why))
    shares = part("irreps", beyond("irreps", lambda: irreps(task, orbits)))
    mending = lambda: remedies(task, orbits, y, ensemble, parts.train, judgement, floors)
    if undefined and lawful and not task.quick:
        missing.append(Missing("remedies", "the model gives NaN or infinite values for some moved inputs"))
    mended = beyond("remedies", mending, []) if lawful and not undefined else []
    along = lambda: _checkpoints(task, parts.checkpoints or {}, headline.unit)
    points = measured("checkpoints", along, []) if parts.checkpoints else []
    with task.clock.during("witnesses"):
        seen = [] if task.quick else stop.attempted("witnesses", lambda: witnesses(task, orbits), [])
    hinted = lambda: hints(task, orbits, judgement) if lawful else []
    rules = beyond("rules", hinted, []) if sought is None else sought
    if task.quick:
        missing.append(Missing("ensemble, Lie derivatives, irreps, remedies, rules and witnesses", "effort='quick'"))
    along_strengths = lambda: (
        transform_curves(task, parts.transforms, task.model.stated_shapes(task.x.tree(), task.x.axes))
        if lawful
        else curves(task, task.contract, orbits, floors, judgement)  # type: ignore[arg-type]
    )
    of_transforms = measured("transforms", along_strengths, []) if parts.transforms or not lawful else []
    hidden = open_ or doubt(decided, contract, judgement, floors, orbits.dtype.name, task.x.n)
    facts = Facts(model.name, task.x.n, 0 if task.sample is None else task.unmoved, same, hidden, looked, data)
    said = sentence(facts, decided, contract, elements, judgement, floors)
    said = " ".join([said, *(rule_said(rule, len(contract.outputs) > 1) for rule in rules)])
    if stop.stopped:
        missing[:0] = [_stopped(asked, task), *(m for m in stop.missing if m.section != "elements")]
        said = f"Partial, interrupted: {said}"
    return AuditReport(
        format=FORMAT,
        verdict=decided,
        sentence=said,
        contract=contract,
        model=ModelSection(
            name=model.name,
            kind=model.kind,
            dtype=orbits.dtype.name,
            device=model.device,
            deterministic=floors.deterministic,
            batch_independent=floors.batch_independent,
            noise=floors.noise,
        ),
        error=error,
        floor=floor,
        elements=elements,
        float_floor=floors.rounding,
        orbit=_orbit(task, orbits, same),
        relative=relative,
        sets=report_sets,
        lie=lie or [],
        irreps=shares,
        layers=looked,
        ensemble=ensemble,
        data=data,
        remedies=mended,
        checkpoints=points,
        witnesses=seen,
        missing=missing + _refused_batches(task),
        settings=_settings(task, parts.off_data, parts.data_test),
        versions=_versions(task),
        timing=Timing(
            time.perf_counter() - began,
            task.clock.seconds,
            task.clock.evaluations,
            task.clock.batches,
            dict(task.clock.parts),
            task.clock.evaluations / task.x.n,
            *_held(task),
            _member_passes(task, ensemble),
        ),
        citations=citations.used(
            lie=bool(lie),
            data_test=data.test if data is not None else None,
            sampled=not task.complete,
            resampled=not task.contract.exact,
            layers=looked is not None,
        ),
        errors=orbits.errors,
        floors=floors.table,
        parameters=task.elements,
        partial=stop.stopped,
        headline=headline,
        rules=rules,
        transforms=of_transforms,
        averaged=None
        if not lawful
        else Remedies(
            model,
            task.contract,
            orbits.actions,
            orbits.no_mean,
            first,
            orbits.output_shapes,
            task.output_action,
            orbits.output_axes,
        ).make,
        **_errors_of_inputs(task, orbits, judgement),
        doubt=hidden,
        counterexample=judgement.counterexample,
        undefined=undefined,
        unmoved=task.unmoved,
        inputs_digest=_digest(task),
    )


def _passed(
    task: Task, y: np.ndarray | None, measure: Callable[[Task], Orbits | None]
) -> tuple[Task, np.ndarray | None, Orbits, list[UndefinedPose]]:
    """The pass over the data: of a stopped one as far as it came; once more without inputs or elements for which the
    model gives NaN or infinite values, if there are such.
    """
    labels = lambda part: None if y is None else y[: part.x.n]
    task.record.recording = True
    orbits = measure(task)
    task.record.recording = False
    if orbits is None:
        task = stopped_task(task)
        orbits = measure_orbits(task)
        task.record.replaying = False
    bad, moved = orbits.undefined, orbits.moved
    if not moved.any():  # which decides nothing, but is measured all the same
        return replace(task, unmoved=task.x.n), labels(task), orbits, []
    if moved.all() and not bad.any():
        return task, labels(task), orbits, []
    left = np.flatnonzero(bad.mean(axis=1) <= _MOSTLY)
    rows = np.flatnonzero(moved & ~bad[left].any(axis=0))
    first = lambda k: task.row(int(np.flatnonzero(bad[k])[0]))
    found = [
        UndefinedPose(task.contract.label(task.elements[k]), int(bad[k].sum()), first(k))
        for k in np.flatnonzero(bad.any(axis=1))
    ]
    if not len(left) or not len(rows):
        one = found[0]
        where = f"inputs moved by {one.label}, the first of them input {one.index}"
        raise NotFiniteError(f"f(x) holds NaN or infinite values for {where}")
    known = None if y is None else y[rows]
    elements, count = [task.elements[k] for k in left], int((~moved).sum())
    whole = replace(task, unmoved=count, sample=task.x, sample_rows=rows, elements=elements, record=Record())
    task = whole.of_rows(rows)
    return task, known, measure_orbits(task), found


def _errors_of_inputs(task: Task, orbits: Orbits, judgement: Judgement) -> dict[str, Any]:
    """The mean error of every input of the sample in every unit that a headline may have; NaN of those left out."""
    scales, unit = judgement.scales, judgement.headline.unit
    plain = lambda unit: np.max(scales.relative(unit, orbits.separate, own=False)[scales.judged], axis=0)
    tables = {"norm": plain("norm")} | ({} if judgement.by_spread is None else {"spread": plain("spread")})
    tables[unit] = np.max(scales.relative(unit, orbits.separate)[scales.judged], axis=0)
    if orbits.scores is not None and len(orbits.kept) == task.x.n:
        tables["labels"] = (orbits.scores[1:].argmax(axis=2) != orbits.scores[0].argmax(axis=1)).astype(np.float64)

    def whole(table: np.ndarray) -> list[float]:
        if task.sample is None:
            return [float(e) for e in table.mean(axis=0)]
        found = np.full(task.sample.n, np.nan)
        found[task.sample_rows] = table.mean(axis=0)
        return [float(e) for e in found]

    return {"input_errors": whole(orbits.errors), "errors_by_unit": {name: whole(t) for name, t in tables.items()}}


def _member_passes(task: Task, ensemble: EnsembleSection | None) -> int:
    """Inputs that single members were given: by the mean of them all of its members, by the ensemble's part one."""
    if ensemble is None:
        return 0
    alone = task.clock.parts.get("ensemble", 0) if task.model.members() is not None else 0
    return alone + ensemble.members * (task.clock.evaluations - alone)


def _held(task: Task) -> tuple[int | None, int | None]:
    """Bytes of weights, and of the activations of a batch."""
    held = task.footprint
    return (None, None) if held is None else (held.weights, held.activations * min(task.batch_size, task.x.n))


def _no_derivative(orbits: Orbits) -> str:
    what = "class numbers" if orbits.class_numbers.any() else "masks of classes and sets in any order"
    return f"{what} have no derivative"


def _digest(task: Task) -> str:
    """Of the inputs, the group and its elements."""
    found = hashlib.sha256(task.contract.group.name.encode())
    for leaf in (*(task.sample or task.x).leaves, *task.elements):
        a = np.ascontiguousarray(leaf.value if isinstance(leaf, Shared) else leaf)
        found.update(f"{a.shape}{a.dtype}".encode())
        found.update(a.data if a.size else b"")
    return found.hexdigest()[:16]


def _stopped(asked: Task, task: Task) -> Missing:
    """How far the pass over the data came."""
    inputs, elements = (
        f"{task.x.n:,} of {asked.x.n:,} inputs",
        f"{len(task.elements)} of {len(asked.elements)} elements",
    )
    cut = task.x.n < asked.x.n or len(task.elements) < len(asked.elements)
    return Missing("elements" if cut else "the rest of the audit", f"interrupted after {inputs} and {elements}")


def _refused_batches(task: Task) -> list[Missing]:
    """What a model that takes one size alone did not evaluate as it was."""
    clock = task.clock
    if clock.refused is None:
        return []
    if clock.largest == 1:
        return [
            Missing("larger batches", f"the model refused them ({clock.refused}); it was given one input at a time")
        ]
    why = f"the model refused them ({clock.refused}); they were filled up to {clock.largest} inputs"
    return [Missing("smaller batches", why)]


def _elements(task: Task, orbits: Orbits, floors: Floors, judgement: Judgement) -> list[ElementResult]:
    contract = task.contract
    resampler = replace(task, complete=True).resampler(task.x.n)  # of one element, over inputs alone
    estimates = resampler.each(orbits.errors)
    scores = orbits.scores
    same = None if scores is None else (scores.argmax(axis=2) == scores[0].argmax(axis=1)).mean(axis=1)
    apart = divergences(orbits, task.outputs)
    mean_or_none = lambda row: None if np.isnan(row).all() else float(row.mean())
    results = []
    for k, g in enumerate(task.elements):
        errors = orbits.errors[k]
        floor = float(floors.of_elements[k])
        results.append(
            ElementResult(
                label=contract.label(g),
                parameter=contract.group.parameter(g),
                angle=contract.angle(g),
                exact=task.contract.moves_exactly(g),
                error=spread_of(estimates[k], errors),
                worst_input=task.row(int(errors.argmax())),
                round_trip_floor=mean_or_none(floors.round_trip[k]),
                reference_floor=mean_or_none(floors.reference[k]),
                floor=floor,
                at_floor=bool(judgement.at_floor[:, k].all()),
                same_prediction=None if same is None else float(same[k + 1]),
                divergence=None if apart is None else float(apart[k].mean()),
                judged=judgement.elements[k],
                judged_floor=float(judgement.element_floors[k]),
                above=bool(judgement.above[:, k].any()),
            )
        )
    return results


def _orbit(task: Task, orbits: Orbits, same: Estimate | None) -> OrbitSection:
    apart = divergences(orbits, task.outputs)
    resampler = task.resampler(len(orbits.kept))
    return OrbitSection(
        same_predictions=same,
        relative_std=resampler.mean(relative_std(orbits.signals)),
        divergence=None if apart is None else resampler.mean(apart, bounds=(0.0, 1.0)),
        outputs=output_kind(orbits, task.outputs),
    )


def _checkpoints(task: Task, given: Mapping[str, Any], unit: Unit) -> list[Checkpoint]:
    """The error of every checkpoint, on some of the inputs."""
    found = []
    x = task.x.subset(task.rows(256))
    for step, (label, f) in enumerate(given.items()):
        model = as_model(f, select=task.model.select)
        with model.ready():
            orbits = measure_orbits(replace(task, model=model), x)
        scales = make_scales(orbits, None, task.judging)
        judged = np.max(scales.relative(unit, orbits.separate), axis=0)
        same = same_predictions(task, orbits)
        found.append(
            Checkpoint(
                label=str(label),
                step=_step(label, step),
                error=task.resampler(x.n).mean(orbits.errors),
                elements=orbits.errors.mean(axis=1).tolist(),
                same_predictions=None if same is None else same.mean,
                judged=task.resampler(x.n).mean(judged),
                judged_elements=judged.mean(axis=1).tolist(),
            )
        )
    return found


def _versions(task: Task) -> dict[str, str]:
    """Versions of what took part."""
    from equitangents._version import __version__

    libraries = ["jax", "numpy", "scipy"]
    libraries += {"torch": ["torch"], "onnx": ["onnxruntime"], "scikit-learn": ["scikit-learn"]}.get(
        task.model.kind, []
    )
    found = {library: importlib.metadata.version(library) for library in libraries}
    return {"equitangents": __version__, "python": platform.python_version(), **found}


def _step(label: Any, position: int) -> float:
    """A checkpoint's label as a number if it is one, else its position."""
    try:
        return float(label)
    except (TypeError, ValueError):
        return float(position)


def _settings(task: Task, off_data: Any, data_test: Any) -> Settings:
    names = off_data if isinstance(off_data, bool) else sorted(map(str, off_data or {}))
    values = {"outputs": task.outputs, "off_data": names, "data_test": data_test}
    return Settings(task.confidence, task.resamples, task.seed, task.batch_size, task.x.n, values)
