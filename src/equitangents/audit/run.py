"""`audit`: how equivariant is a model, where does it break, and what would mend it?"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np

from equitangents._types import AnyModel, Targets, Tree
from equitangents.actions import GroupAction
from equitangents.audit.adapters import Model, as_model
from equitangents.audit.adapters.model import check_select
from equitangents.audit.assemble import assemble
from equitangents.audit.contract.changes import Transform
from equitangents.audit.contract.contract import Contract, contract_of_changes, make_contract, verify
from equitangents.audit.contract.trees import Inputs, as_inputs
from equitangents.audit.measure import floors, input_sets
from equitangents.audit.measure.orbits import check_labels, is_classes
from equitangents.audit.measure.rules import settled
from equitangents.audit.measure.task import AuditTask, default_batch_size
from equitangents.audit.parts import Interruption
from equitangents.audit.records import (
    AuditedAction,
    Effort,
    InputSpec,
    OutputAction,
    Parts,
    Shorthands,
    Tolerances,
    gather,
)
from equitangents.audit.report.result import AuditReport
from equitangents.errors import InvalidArgumentError
from equitangents.metrics.measure import Bootstrap, check_order
from equitangents.progress import Progress, ProgressCallback, told_by

logger = logging.getLogger("equitangents.audit")

_ENSEMBLE = 48 * 17  # members are given some inputs and elements
_FEW = 12
"""Elements of a quick audit, of groups of which a sample is tried."""


def audit(
    f: AnyModel,
    action: AuditedAction,
    x: Tree,
    output_action: OutputAction = None,
    *,
    y: Targets | None = None,
    elements: int | None = None,
    input_spec: InputSpec | None = None,
    parts: Parts | None = None,
    tolerances: Tolerances | None = None,
    bootstrap: Bootstrap | None = None,
    batch_size: int | None = None,
    progress: bool | ProgressCallback = False,
    effort: Effort = "full",
    **entries: Unpack[Shorthands],
) -> AuditReport:
    """How far f is from f(ρ_X(g)x) = ρ_Y(g)f(x), beside the error that interpolation, rounding and chance explain.

    Args:
        f: a function of a batch (NumPy or JAX), a PyTorch module, the path of an ONNX or .pt2 file, an estimator that
            follows scikit-learn, an ensemble of this library, `(net, params)`, or a list of models: an ensemble.
        action: ρ_X. The name of a group ("C4", "D4", "SO2", "SO3", "O3", "S_n", "translations", …), an action of
            `equitangents.actions`, or for several inputs one of these or None for each; or a `Transform`, a change
            that forms no group.
        x: the inputs, (N, …); a tuple for several arguments, f(*x), or a dictionary (keywords of PyTorch modules);
            `Shared(a)` for an input without a batch axis.
        output_action: ρ_Y: an action, with a named group a kind ("vectors", "images", …), or `Labels([3, 0, 1, 2])` for
            classes that change places; None: invariant outputs; "find": the rule by which they move is fitted on half
            of the inputs, and the audit is of the other half.
        y: labels: whole numbers (N,) are classes, real numbers the values that f should return. Of an estimator's
            probabilities or decision values they are labels as it was fitted to, names among them.
        elements: how many elements to try; None: all of up to 64, 24 angles, or 32 rotations or permutations.
        input_spec: `InputSpec(inputs, layout, output_layout, outputs, method, select)`: how arrays are read.
        parts: `Parts(off_data, layers, train, data_test)`, what else is looked at.
        tolerances: `Tolerances(relative_to, tolerance, output_scale)`: the size of errors, and an acceptable one.
        bootstrap: `Bootstrap(confidence, resamples, seed)`, how intervals are found; the seed is that of everything
            random in the audit: the same seed gives the same report.
        batch_size: inputs at a time; None: as many as take 64 MiB, at most 256; halved where memory does not suffice.
        progress: True shows on stderr how far a long audit is, and how long the rest takes; a function is called as
            progress(inputs evaluated, inputs planned, seconds left); False: it is logged.
        effort: "quick": the error and its floor alone, floors on 16 inputs, at most 12 elements of groups that are not
            tried in full, 200 resamples, and of layers, other sets and the data's symmetry what is asked for.
        **entries: entries of the four records by themselves, `audit(f, "C4", x, tolerance=0.01, off_data=False)`.

    Ctrl-C ends an audit with a report of what was measured until then (`partial` is True), if any element was.

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
    given = {"input_spec": input_spec, "parts": parts, "tolerances": tolerances, "bootstrap": bootstrap}
    input_spec, parts, tolerances, bootstrap = gather(given, entries, effort)
    if not isinstance(action, Transform):
        check_order(action, x, "audit(model, group, x)", (str, GroupAction, Transform))
    told_by(progress)
    for name, count in (("elements", elements), ("batch_size", batch_size)):
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise InvalidArgumentError(name, count, "a whole number, at least 1")
    began, quick = time.perf_counter(), effort == "quick"
    layers = None if isinstance(parts.layers, bool) else parts.layers
    model = as_model(f, layers=layers, method=input_spec.method, select=check_select(input_spec.select))
    batch, contract = _read(model, action, x, input_spec, bootstrap.seed, elements)
    labels = check_labels(y, batch.n, model.classes)
    drawn, complete = _drawn(contract, elements, quick, bootstrap.seed)
    task = AuditTask(
        model=model,
        contract=contract,
        x=contract.project(batch),
        elements=drawn,
        complete=complete,
        output_action=output_action,
        outputs=input_spec.outputs,
        regression=labels is not None and not is_classes(labels),
        batch_size=batch_size or default_batch_size(batch),
        bootstrap=bootstrap,
        tolerances=tolerances,
        quick=quick,
    )
    stop = Interruption()
    task.clock.check = stop.check
    task.clock.progress = Progress(0, planned_inputs(task, parts.off_data), progress, task="audit", unit="inputs")
    with model.ready(), stop.watching():
        task, labels, rules = settled(task, labels)
        return assemble(task, began, labels, parts, stop, rules)


def _read(
    model: Model, action: AuditedAction, x: Tree, input_spec: InputSpec, seed: int, elements: int | None
) -> tuple[Inputs, Contract]:
    """The inputs in batches as the model takes them, and how the group, or a change that is none, moves them."""
    batch, kinds = as_inputs(x), input_spec.inputs
    if batch.axes:
        for one in (model, *(model.members() or [])):
            one.fixed_batch = one.batch_along(batch.tree(), batch.axes)
    model.check_inputs(batch.tree(), batch.axes)
    if isinstance(action, Transform):
        if elements is not None or kinds is not None:
            raise InvalidArgumentError("a transform says its strengths itself; leave out elements and inputs")
        return batch, contract_of_changes(action, batch)
    stated = model.stated_shapes(batch.tree(), batch.axes)
    contract = make_contract(action, batch, kinds, input_spec.layout, input_spec.output_layout, stated)
    verify(contract, batch, seed)
    return batch, contract


def _drawn(contract: Contract, elements: int | None, quick: bool, seed: int) -> tuple[list[Any], bool]:
    """The elements that are tried, and whether these are all."""
    group = contract.group
    if contract.not_a_group:
        return list(group.elements or ()), True
    usual = group.default_draws
    if quick and (group.elements is None or len(group.elements) > usual):
        usual = min(usual, _FEW)
    drawn = group.draw(elements or usual, np.random.default_rng(seed))
    if not drawn:
        raise InvalidArgumentError("group", group.name, "a group with other elements than the identity")
    return drawn, group.elements is not None and len(drawn) == len(group.elements) - 1


def planned_inputs(task: AuditTask, off_data: Any) -> int:
    """Inputs of the pass over the data, of the floors, the other sets and members."""
    n, along = task.x.n, len(task.elements) + 1
    resampled = 0 if task.contract.exact else 2 * len(task.elements)
    rows = min(n, input_sets.ROWS)
    sets = 2 * [rows] if off_data is True else [rows] * len(off_data if isinstance(off_data, Mapping) else ())
    total = n * along + min(n, floors.ROWS) * (2 + resampled)
    total += sum(m * along + min(m, 16) * (1 + resampled) for m in sets)
    members = None if task.quick else task.model.members()
    return int(total + (0 if members is None else len(members) * _ENSEMBLE))
