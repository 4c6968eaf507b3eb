"""`audit`: how equivariant is a model, where does it break, and what would mend it?"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from equitangents._types import AnyAction, AnyModel, Targets, Tree
from equitangents.actions import GroupAction
from equitangents.audit.adapters import Model, as_model
from equitangents.audit.adapters.callables import NetworkModel
from equitangents.audit.adapters.estimators import EnsembleModel
from equitangents.audit.adapters.outputs import check_select
from equitangents.audit.assemble import assemble
from equitangents.audit.contract.changes import Transform, is_transforms, named_transforms
from equitangents.audit.contract.contract import Contract, contract_of_changes, make_contract, verify
from equitangents.audit.contract.layouts import Stated
from equitangents.audit.contract.named import structured
from equitangents.audit.contract.trees import Inputs, as_inputs
from equitangents.audit.interruption import Interruption
from equitangents.audit.measure import floors, input_sets
from equitangents.audit.measure.clock import Progress
from equitangents.audit.measure.predictions import check_labels, is_classes
from equitangents.audit.measure.rules.find import settled
from equitangents.audit.measure.scales import check_tolerances
from equitangents.audit.measure.task import AuditTask, Tolerances, default_batch_size
from equitangents.audit.records import (
    AuditedAction,
    Effort,
    InputSpec,
    OutputAction,
    Parts,
    Records,
    Shorthands,
    gather,
)
from equitangents.audit.report.result import AuditReport
from equitangents.errors import InvalidArgumentError
from equitangents.metrics.measure import Bootstrap, check_order
from equitangents.scale.progress import ProgressCallback, told_by

logger = logging.getLogger("equitangents.audit")

_ENSEMBLE = 48 * 17  # members are given some inputs and elements
_CHECKPOINT_ROWS = 256
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
            `equitangents.actions`, or for several inputs one of these or None for each. A `Transform`, or several:
            changes that form no group.
        x: the inputs, (N, …); a tuple for several arguments, f(*x), or a dictionary (keywords of PyTorch modules);
            `Shared(a)` for an input without a batch axis.
        output_action: ρ_Y: an action, with a named group a kind ("vectors", "images", …), or `Labels([3, 0, 1, 2])` for
            classes that change places; None: invariant outputs; "find": the rule by which they move is fitted on half
            of the inputs, and the audit is of the other half.
        y: labels: whole numbers (N,) are classes, real numbers the values that f should return. Of an estimator's
            probabilities or decision values they are labels as it was fitted to, names among them.
        elements: how many elements to try; None: all of up to 64, 24 angles, or 32 rotations or permutations.
        input_spec: `InputSpec(inputs, layout, output_layout, outputs, method, select)`: how arrays are read.
        parts: `Parts(off_data, layers, checkpoints, theory, train, data_test, transforms)`, what else is looked at.
        tolerances: `Tolerances(relative_to, tolerance, output_scale)`: the size of errors, and an acceptable one.
        bootstrap: `Bootstrap(confidence, resamples, seed)`, how intervals are found; the seed is that of everything
            random in the audit: the same seed gives the same report.
        batch_size: inputs at a time; None: as many as take 64 MiB, at most 256.
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
    told = gather(given, entries, effort)
    return Audit(f, action, x, output_action, y, elements, told, batch_size, progress, effort).report()


@dataclass(frozen=True, eq=False)
class Subject:
    """The model and the inputs as they were read."""

    model: Model
    x: Inputs
    kinds: AnyAction
    """With a named group, what each input is to it."""
    mask: int | None
    """Which input says which positions of the others exist."""
    stated: Stated
    """Shapes that the model states of its inputs."""
    strengths: int
    """How many strengths all transforms have that are looked at beside the group."""


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit is told, by Python or the command line; its arguments are those of `audit`.

    `read` takes the model and the inputs, `contract` says what moves them and how, `plan` which elements are tried on
    how many inputs at a time; `report` does all three, measures, and writes down what was found.
    """

    f: AnyModel
    action: AuditedAction
    x: Tree
    output_action: OutputAction
    y: Targets | None
    elements: int | None
    told: Records
    batch_size: int | None
    progress: bool | ProgressCallback
    effort: Effort

    def __post_init__(self) -> None:
        if not is_transforms(self.action):
            check_order(self.action, self.x, "audit(model, group, x)", (str, GroupAction, Transform))
        check_tolerances(self.told.tolerances)
        told_by(self.progress)
        for name, count in (("elements", self.elements), ("batch_size", self.batch_size)):
            if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
                raise InvalidArgumentError(name, count, "a whole number, at least 1")

    def read(self) -> Subject:
        """The model, and the inputs in batches as it takes them."""
        input_spec, parts = self.told.input_spec, self.told.parts
        inside = None if isinstance(parts.layers, bool) else parts.layers
        model = as_model(self.f, layers=inside, method=input_spec.method, select=check_select(input_spec.select))
        ours, group = isinstance(model, NetworkModel | EnsembleModel), self.action
        x, kinds, mask = structured(self.x, input_spec.inputs, ours, group if isinstance(group, str) else None)
        batch = as_inputs(x)
        if batch.axes:
            for one in (model, *(model.members() or [])):
                one.fixed_batch = one.batch_along(batch.tree(), batch.axes)
        beside = {} if parts.transforms is None else named_transforms(parts.transforms)
        model.check_inputs(batch.tree(), batch.axes)
        stated = model.stated_shapes(batch.tree(), batch.axes)
        return Subject(model, batch, kinds, mask, stated, sum(len(t.strengths) for t in beside.values()))

    def contract(self, of: Subject) -> Contract:
        """How the group, or changes that form none, move inputs and outputs."""
        layout = self.told.input_spec.layout
        if is_transforms(self.action):
            if self.elements is not None or of.kinds is not None:
                raise InvalidArgumentError("a transform says its strengths itself; leave out elements and inputs")
            return contract_of_changes(self.action, of.x, layout, of.stated, of.mask)
        made = make_contract(self.action, of.x, of.kinds, layout, self.told.input_spec.output_layout, of.stated)
        found = made if of.mask is None else replace(made, mask=of.mask)
        verify(found, of.x, self.told.bootstrap.seed)
        return found

    def plan(self, of: Subject, contract: Contract) -> tuple[AuditTask, np.ndarray | None]:
        """The work, and the labels."""
        labels = check_labels(self.y, of.x.n, of.model.classes)
        elements, complete = self._drawn(contract)
        task = AuditTask(
            model=of.model,
            contract=contract,
            x=contract.project(of.x),
            elements=elements,
            complete=complete,
            output_action=self.output_action,
            outputs=self.told.input_spec.outputs,
            regression=labels is not None and not is_classes(labels),
            batch_size=self.batch_size or default_batch_size(of.x),
            bootstrap=self.told.bootstrap,
            tolerances=self.told.tolerances,
            quick=self.effort == "quick",
        )
        return task, labels

    def _drawn(self, contract: Contract) -> tuple[list[Any], bool]:
        """The elements that are tried, and whether these are all."""
        group = contract.group
        if contract.not_a_group:
            return list(group.elements or ()), True
        usual = group.default_draws
        if self.effort == "quick" and (group.elements is None or len(group.elements) > usual):
            usual = min(usual, _FEW)
        drawn = group.draw(self.elements or usual, np.random.default_rng(self.told.bootstrap.seed))
        if not drawn:
            raise InvalidArgumentError(f"the group {group.name} has no element but the identity")
        return drawn, group.elements is not None and len(drawn) == len(group.elements) - 1

    def report(self) -> AuditReport:
        """What was found; of an audit that is stopped, what was measured until then."""
        began = time.perf_counter()
        subject, parts = self.read(), self.told.parts
        task, labels = self.plan(subject, self.contract(subject))
        stop = Interruption()
        task.clock.check = stop.check
        planned_of = planned_inputs(task, parts.off_data, parts.checkpoints or {}, subject.strengths)
        task.clock.progress = shown = Progress(planned_of, self.progress)
        try:
            with subject.model.ready(), stop.watching():
                task, labels, rules = settled(task, labels)
                return assemble(task, began, labels, parts, stop, rules)
        finally:
            shown.close()


def planned_inputs(task: AuditTask, off_data: Any, checkpoints: Mapping[str, Any], strengths: int = 0) -> int:
    """Inputs of the pass over the data, of the floors, the other sets, checkpoints, Lie derivatives and members.

    `strengths`: of all transforms that are looked at beside the group.
    """
    n, along = task.x.n, len(task.elements) + 1
    resampled = 0 if task.contract.exact else 2 * len(task.elements)
    rows = min(n, input_sets.ROWS)
    sets = 2 * [rows] if off_data is True else [rows] * len(off_data if isinstance(off_data, Mapping) else ())
    total = n * along + min(n, floors.ROWS) * (2 + resampled)
    total += sum(m * along + min(m, 16) * (1 + resampled) for m in sets)
    total += len(checkpoints) * min(n, _CHECKPOINT_ROWS) * along
    total += len(task.contract.group.flows) * 3 * min(n, floors.ROWS)
    total += (n * (strengths + 1) + 2 * min(n, floors.ROWS)) if strengths else 0
    members = None if task.quick else task.model.members()
    return int(total + (0 if members is None else len(members) * _ENSEMBLE))
