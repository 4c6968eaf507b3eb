"""`audit`: how equivariant is a model, where does it break, and what would mend it?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np

from equitangents._types import AnyModel, Targets, Tree
from equitangents.actions import GroupAction
from equitangents.audit.adapters import Model, as_model
from equitangents.audit.adapters.callables import EstimatorModel
from equitangents.audit.adapters.model import check_select
from equitangents.audit.contract.changes import Transform
from equitangents.audit.contract.contract import Contract, contract_of_changes, make_contract, verify
from equitangents.audit.contract.trees import InputLeaves, as_inputs
from equitangents.audit.measure import input_sets
from equitangents.audit.measure import rules as rules_of_outputs
from equitangents.audit.measure.again import confirmed, is_open, settled
from equitangents.audit.measure.floors import ROWS, measure_floors
from equitangents.audit.measure.judge import Measured, decide, judge
from equitangents.audit.measure.orbits import Orbits, check_labels, is_classes, measure_orbits, misfit, same_predictions
from equitangents.audit.measure.task import AuditTask, default_batch_size
from equitangents.audit.parts import Notes, assemble
from equitangents.audit.report.result import AuditReport
from equitangents.audit.report.sections import TASK, RuleResult, UndefinedPose
from equitangents.audit.settings import AuditedAction, AuditSettings, Keywords, OutputAction, settings_of
from equitangents.errors import InvalidArgumentError, NotFiniteError
from equitangents.metrics.measure import check_order
from equitangents.progress import Progress, ProgressCallback, callback_of

_ENSEMBLE = 48 * 17  # evaluations per member
_FEW = 12
"""Elements of a quick audit, of groups of which a sample is tried."""
_QUICK_ROWS = 16
_MOSTLY = 0.5  # an element with NaN for more than this share of inputs is left out, rather than the inputs


def audit(
    f: AnyModel,
    action: AuditedAction,
    x: Tree,
    output_action: OutputAction = None,
    *,
    y: Targets | None = None,
    progress: bool | ProgressCallback = False,
    **settings: Unpack[Keywords],
) -> AuditReport:
    """How far f is from f(ρ_X(g)x) = ρ_Y(g)f(x), with the noise floor due to interpolation, rounding and chance.

    Args:
        f: a function of a batch (NumPy or JAX), a PyTorch module, the path of an ONNX or .pt2 file, an estimator that
            follows scikit-learn, an ensemble of this library, `(net, params)`, or a list of models: an ensemble.
        action: ρ_X. The name of a group ("C4", "D4", "SO2", "SO3", "O3", "S_n", "translations", …), an action of
            `equitangents.actions`, or for several inputs one of these or None for each; or a `Transform`, a change
            that forms no group.
        x: the inputs, (N, …); a tuple for several arguments, f(*x), or a dictionary (keywords of PyTorch modules);
            `Shared(a)` for an input without a batch axis.
        output_action: ρ_Y: an action, with a named group a kind ("vectors", "images", …), or `Labels([3, 0, 1, 2])` for
            permuted classes; None: invariant outputs; "find": the rule is fitted on half of the inputs, and the other
            half is audited.
        y: labels: whole numbers (N,) are classes, real numbers the values that f should return. Of an estimator's
            probabilities or decision values they are labels as it was fitted to, names among them.
        progress: True shows on stderr how far a long audit is, and how long the rest takes; a function is called as
            progress(inputs evaluated, inputs planned, seconds left); False: it is logged.

    Settings, by keyword:
        elements: how many elements to try; None: all of up to 64, 24 angles, or 32 rotations or permutations.
        batch_size: inputs at a time, the last batch filled up, for models of one size; None: as many as take 64 MiB,
            at most 256.
        effort: "full", or "quick": only the error and its noise floor, the latter on 16 inputs, at most 12 elements of
            groups that are sampled, 200 resamples, and layers and other sets only if they are given.
        inputs: with a named group, how it acts on each input: "images", "vectors", "points", …, None for not moved.
        layout: where images keep channels, "channels_last" or "channels_first". None: of PyTorch and ONNX models it is
            taken from the shape of x, and must be given if that is ambiguous, (N, 8, 8, 8); for others channels are
            last, and an x that looks like channels first is an error.
        outputs: what the model returns; "auto" recognises probabilities and class numbers, "values": neither.
        select: the output to audit of a model that returns several: its name ("logits") or position; None: all.
            Dictionaries of any class, dataclasses and named tuples have names.
        off_data: True: also noise and shuffled inputs; or other sets by name; False: the data alone.
        layers: False: do not look inside; or functions that make up the model when they are applied one after another.
        train: (x, y) to refit an estimator on, with augmentation, to measure what that would bring.
        relative_to: what the headline's error and the verdict are relative to: "norm", ‖f(x)‖; "spread", the standard
            deviation of f(x) over the inputs; "larger", whichever gives the larger error.
        tolerance: mean error allowed under every element, 0.01 for 1 %; None: none above the noise floor.
        output_scale: the size of outputs that counts as 100 %, in their own unit, in place of both; a number for all
            but classes and shares, or numbers by names. For outputs that vanish, as forces of a relaxed crystal do.
        confidence: of the intervals, 0.95.
        resamples: of the bootstrap, 1000.
        seed: the random seed; the same seed gives the same report.

    Returns:
        A report with `.summary()`, `.to_json(path)`, `.to_html(path)`, `.to_markdown(path)`.

    Raises:
        NotAnActionError: some action does not respect products; with the witness (g, h).
        InvalidArgumentError, InvalidTypeError: before anything is computed, for arguments that cannot be used.

    >>> import numpy as np, equitangents as et
    >>> x = np.random.default_rng(0).normal(size=(20, 4, 4, 1))
    >>> et.audit(lambda x: x.sum((1, 2)) ** 2, et.actions.image_rotations(4), x).verdict
    'equivariant'
    """
    options = settings_of(settings)
    if not isinstance(action, Transform):
        check_order(action, x, "audit(model, group, x)", (str, GroupAction, Transform))
    callback_of(progress)
    began = time.perf_counter()
    layers = None if isinstance(options.layers, bool) else options.layers
    model = as_model(f, layers=layers, select=check_select(options.select))
    batch, contract = _read(model, action, x, options)
    labels = check_labels(y, batch.n, model.classes)
    drawn, complete = _drawn(contract, options)
    task = AuditTask(
        model=model,
        contract=contract,
        x=contract.project(batch),
        elements=drawn,
        complete=complete,
        output_action=output_action,
        regression=labels is not None and not is_classes(labels),
        batch_size=min(options.batch_size or default_batch_size(batch), batch.n),
        settings=options,
    )
    notes = Notes()
    task.clock.progress = Progress(0, planned_inputs(task), progress, task="audit", unit="inputs")
    with model.ready():
        task, labels, rules = rules_of_outputs.settled(task, labels)
        return assemble(measure_data(task, labels, rules, notes), notes, began)


def _read(model: Model, action: AuditedAction, x: Tree, options: AuditSettings) -> tuple[InputLeaves, Contract]:
    """The inputs in the model's batches, and their contract with the group or transform."""
    batch = as_inputs(x)
    if batch.axes:
        model.fixed_batch = None  # which is the size of the first axis
    model.check_inputs(batch.tree(), batch.axes)
    if isinstance(action, Transform):
        if options.elements is not None or options.inputs is not None:
            name = "elements" if options.inputs is None else "inputs"
            raise InvalidArgumentError(name, getattr(options, name), "None with a Transform, which has its strengths")
        return batch, contract_of_changes(action, batch)
    contract = make_contract(action, batch, options.inputs, options.layout, model.states_layout)
    verify(contract, batch, options.seed)
    return batch, contract


def _drawn(contract: Contract, options: AuditSettings) -> tuple[list[Any], bool]:
    """The elements to test, and whether these are all of the group."""
    group = contract.group
    if contract.not_a_group:
        return list(group.elements or ()), True
    usual = group.default_draws
    if options.quick and (group.elements is None or len(group.elements) > usual):
        usual = min(usual, _FEW)
    drawn = group.draw(options.elements or usual, np.random.default_rng(options.seed))
    if not drawn:
        raise InvalidArgumentError("group", group.name, "a group with other elements than the identity")
    return drawn, group.elements is not None and len(drawn) == len(group.elements) - 1


def planned_inputs(task: AuditTask) -> int:
    """Number of inputs evaluated for the data, noise floors, other sets and members."""
    n, along, off_data = task.x.n, len(task.elements) + 1, task.settings.off_data
    resampled = 0 if task.contract.inputs.exact else 3 * len(task.elements)
    rows = min(n, input_sets.ROWS)
    sets = 2 * [rows] if off_data is True else [rows] * len(off_data if isinstance(off_data, Mapping) else ())
    total = n * along + min(n, ROWS) * (3 + resampled)
    total += sum(m * along + min(m, 16) * (1 + resampled) for m in sets)
    members = None if task.settings.quick else task.model.members()
    return int(total + (0 if members is None else len(members) * _ENSEMBLE))


def measure_data(task: AuditTask, y: np.ndarray | None, sought: list[RuleResult] | None, notes: Notes) -> Measured:
    """The pass over the data: orbits, noise floors, judgement and verdict, used by all parts of an audit."""
    sets = input_sets.off_data_sets(task, notes.without)
    if task.settings.train is not None and type(task.model) is EstimatorModel:
        input_sets.training_set(task)  # before the work is done
    task, y, orbits, undefined = _passed(task, y)
    wrong = misfit(orbits, y)
    if wrong:
        notes.without(TASK, wrong)
        y = None
    floors = measure_floors(task, orbits.actions, _QUICK_ROWS if task.settings.quick else ROWS)
    judgement = replace(judge(task, orbits, floors), undefined=undefined)
    same = same_predictions(task, orbits)
    m = Measured(task, y, sought, sets, orbits, floors, judgement, "undecided", "unmoved inputs", same)
    if orbits.moved.any() and is_open(m):
        m = settled(m)
    m = notes.measured(task.clock, "single inputs", partial(confirmed, m), m)
    if not orbits.moved.any():
        return m
    verdict, reason = decide(m.judgement, m.floors)
    return replace(m, verdict=verdict, reason=reason)


def _passed(task: AuditTask, y: np.ndarray | None) -> tuple[AuditTask, np.ndarray | None, Orbits, list[UndefinedPose]]:
    """The task with its labels and orbits, and the elements under which the model gives NaN.

    Inputs that no element moves, and inputs and elements with NaN, are left out, and the others measured again.
    """
    orbits = measure_orbits(task)
    bad, moved = orbits.undefined, orbits.moved
    if not moved.any():  # undecided, but measured
        return replace(task, unmoved=task.x.n), y, orbits, []
    if moved.all() and not bad.any():
        return task, y, orbits, []
    left = np.flatnonzero(bad.mean(axis=1) <= _MOSTLY)
    rows = np.flatnonzero(moved & ~bad[left].any(axis=0))
    undefined = [
        UndefinedPose(task.contract.label(task.elements[k]), int(bad[k].sum()), task.row(int(np.argmax(bad[k]))))
        for k in np.flatnonzero(bad.any(axis=1))
    ]
    if not len(left) or not len(rows):
        one = undefined[0]
        raise NotFiniteError("f(x)", one.index, remedy=f"inputs were moved by {one.label}")
    elements, unmoved = [task.elements[k] for k in left], int((~moved).sum())
    kept = replace(task.of_rows(rows), elements=elements, unmoved=unmoved)
    return kept, None if y is None else y[rows], measure_orbits(kept), undefined
