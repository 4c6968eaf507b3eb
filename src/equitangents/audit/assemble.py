"""One audit after another part: orbits and floors first, then everything that is made of them."""

from __future__ import annotations

import importlib.metadata
import logging
import platform
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from equitangents.audit.adapters import as_model
from equitangents.audit.contract.trees import Shared
from equitangents.audit.measure.data_symmetry import data_symmetry
from equitangents.audit.measure.ensembles import ensemble_law
from equitangents.audit.measure.floors import FACTOR, Floors, measure_floors
from equitangents.audit.measure.input_sets import measure_set, off_data_sets, same_predictions, set_result
from equitangents.audit.measure.intervals import spread_of
from equitangents.audit.measure.irreps import irreps
from equitangents.audit.measure.layers import acquit, layer_errors
from equitangents.audit.measure.lie import lie_derivatives
from equitangents.audit.measure.orbits import Orbits, measure_orbits, relative_std
from equitangents.audit.measure.probabilities import divergences, output_kind
from equitangents.audit.measure.relative import relative_section
from equitangents.audit.measure.remedies import remedies
from equitangents.audit.measure.task import Task
from equitangents.audit.measure.witnesses import witnesses
from equitangents.audit.report import citations, verdict
from equitangents.audit.report.result import FORMAT, AuditReport
from equitangents.audit.report.sections import (
    Checkpoint,
    ContractSection,
    ElementResult,
    Estimate,
    InputContract,
    Missing,
    ModelSection,
    OrbitSection,
    OutputContract,
    Settings,
    Timing,
)

logger = logging.getLogger("equitangents.audit")


def assemble(
    task: Task,
    began: float,
    y: np.ndarray | None,
    *,
    off_data: Any,
    layers: bool,
    checkpoints: Mapping[str, Any],
    theory: Any,
    train: Any,
    data_test: Any,
) -> AuditReport:
    """The whole report."""
    missing: list[Missing] = []

    def part(name: str, found: Any) -> Any:
        """The part, or None with the reason noted."""
        if isinstance(found, str):
            missing.append(Missing(name, found))
            logger.info("audit: no %s: %s", name, found)
            return None
        return found

    sets = off_data_sets(task, off_data)
    orbits = measure_orbits(task)
    timing = task.clock.seconds, task.clock.evaluations
    floors = measure_floors(task, task.x.subset(task.rows(64)), orbits.actions)
    elements = _elements(task, orbits, floors)
    error = task.resampler(task.x.n).spread(orbits.errors)
    same = same_predictions(task, orbits)
    found = part("ensemble", ensemble_law(task, orbits.actions, theory))
    ensemble, spread = found or (None, None)
    decided = verdict.decide(elements, floors)
    inside = layer_errors(task) if layers else "layers=False"
    looked = part("layers", acquit(inside) if decided == "equivariant" else inside)
    data = part("data", data_symmetry(task, y, data_test) if data_test is not None else "data_test=None")
    contract = _contract(task, orbits)
    floor = float(floors.of_elements.mean())
    k, i = np.unravel_index(int(np.argmax(orbits.errors)), orbits.errors.shape)
    model = task.model
    report_sets = [set_result(task, "data", "data", orbits, floors.of_elements, FACTOR)]
    report_sets += [measure_set(task, name, kind, x, orbits.actions, floors.always) for name, kind, x in sets]
    lie = lie_derivatives(task, orbits.actions)
    if not lie:
        missing.append(Missing("lie", f"{task.contract.symmetry.name} has no infinitesimal elements"))
    return AuditReport(
        format=FORMAT,
        verdict=decided,
        sentence=verdict.sentence(
            model.name, decided, contract, elements, error, floor, (int(i), elements[k].label), looked, floors
        ),
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
        relative=relative_section(task, orbits, y, same, spread),
        sets=report_sets,
        lie=lie,
        irreps=part("irreps", irreps(task, orbits)),
        layers=looked,
        ensemble=ensemble,
        data=data,
        remedies=remedies(task, orbits, y, ensemble, train, error.estimate.mean),
        checkpoints=_checkpoints(task, checkpoints),
        witnesses=witnesses(task, orbits),
        missing=missing + _refused_batches(task),
        settings=_settings(task, off_data, data_test),
        versions=_versions(task),
        timing=Timing(time.perf_counter() - began, *timing),
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
    )


def _refused_batches(task: Task) -> list[Missing]:
    """What a model that takes one size alone did not evaluate as it was."""
    clock = task.clock
    why = f"the model refused them ({clock.refused}); they were filled up to {clock.largest} inputs"
    return [] if clock.refused is None else [Missing("smaller batches", why)]


def _elements(task: Task, orbits: Orbits, floors: Floors) -> list[ElementResult]:
    symmetry = task.contract.symmetry
    resampler = replace(task, complete=True).resampler(task.x.n)  # of one element, over inputs alone
    estimates = resampler.each(orbits.errors)
    scores = orbits.scores
    same = None if scores is None else (scores.argmax(axis=2) == scores[0].argmax(axis=1)).mean(axis=1)
    apart = divergences(orbits, task.outputs)
    mean_or_none = lambda row: None if np.isnan(row).all() else float(row.mean())
    results = []
    for k, g in enumerate(task.elements):
        errors, mean = orbits.errors[k], float(orbits.errors[k].mean())
        floor = float(floors.of_elements[k])
        results.append(
            ElementResult(
                label=symmetry.label(g),
                parameter=symmetry.parameter(g),
                angle=symmetry.angle(g),
                exact=task.contract.moves_exactly(g),
                error=spread_of(estimates[k], errors),
                worst_input=int(errors.argmax()),
                round_trip_floor=mean_or_none(floors.round_trip[k]),
                reference_floor=mean_or_none(floors.reference[k]),
                floor=floor,
                at_floor=mean <= FACTOR * floor,
                same_prediction=None if same is None else float(same[k + 1]),
                divergence=None if apart is None else float(apart[k].mean()),
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


def _contract(task: Task, orbits: Orbits) -> ContractSection:
    contract, symmetry = task.contract, task.contract.symmetry
    inputs = []
    for name, action, leaf in zip(task.x.names, contract.inputs, task.x.leaves, strict=True):
        a = np.asarray(leaf.value) if isinstance(leaf, Shared) else leaf
        said = "none" if action is None else action.name
        inputs.append(InputContract(name, list(a.shape), a.dtype.name, said, action is None or action.exact))
    resampler = replace(task, complete=True).resampler(task.x.n)
    outputs = [
        OutputContract(name, list(shape), "invariant" if action is None else action.name, resampler.mean(errors))
        for name, shape, action, errors in zip(
            orbits.output_names, orbits.output_shapes, orbits.actions, orbits.by_output, strict=True
        )
    ]
    return ContractSection(
        group=symmetry.name,
        order=symmetry.order,
        complete=task.complete,
        elements=len(task.elements),
        layout=contract.layout,
        inputs=inputs,
        outputs=outputs,
    )


def _checkpoints(task: Task, given: Mapping[str, Any]) -> list[Checkpoint]:
    """The error of every checkpoint, on some of the inputs."""
    found = []
    x = task.x.subset(task.rows(256))
    for step, (label, f) in enumerate(given.items()):
        model = as_model(f)
        with model.ready():
            orbits = measure_orbits(replace(task, model=model), x)
        error = task.resampler(x.n).mean(orbits.errors)
        same = same_predictions(task, orbits)
        share = None if same is None else same.mean
        found.append(Checkpoint(str(label), _step(label, step), error, orbits.errors.mean(axis=1).tolist(), share))
    return found


def _versions(task: Task) -> dict[str, str]:
    """Versions of what took part."""
    from equitangents import __version__

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
