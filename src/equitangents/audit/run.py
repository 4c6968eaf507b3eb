"""`audit`: how equivariant is a model, where does it break, and what would mend it?"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from equitangents.audit.adapters import as_model
from equitangents.audit.adapters.outputs import check_select
from equitangents.audit.assemble import assemble
from equitangents.audit.contract.contract import make_contract
from equitangents.audit.contract.leaf_actions import Layout
from equitangents.audit.contract.trees import as_inputs
from equitangents.audit.contract.verify import verify
from equitangents.audit.interruption import Interruption
from equitangents.audit.measure.plan import planned_inputs
from equitangents.audit.measure.relative import check_labels, is_classes
from equitangents.audit.measure.scales import check_judging
from equitangents.audit.measure.task import Judging, RelativeTo, Task, default_batch_size
from equitangents.audit.progress import Progress
from equitangents.audit.report.result import AuditReport
from equitangents.errors import InvalidArgumentError
from equitangents.metrics.measure import Bootstrap

logger = logging.getLogger("equitangents.audit")

_OUTPUTS = ("auto", "values", "logits", "probabilities")


def audit(
    f: Any,
    action: Any,
    x: Any,
    output_action: Any = None,
    *,
    off_data: bool | Mapping[str, Any] = True,
    y: Any = None,
    layout: Layout | None = None,
    output_layout: Layout | None = None,
    inputs: Any = None,
    elements: int | None = None,
    outputs: Literal["auto", "values", "logits", "probabilities"] = "auto",
    method: str | None = None,
    layers: Sequence[Any] | bool = True,
    checkpoints: Mapping[str, Any] | None = None,
    theory: Any = None,
    train: tuple[Any, Any] | None = None,
    data_test: Literal["kernel", "classifier"] | None = "kernel",
    batch_size: int | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    select: str | int | None = None,
    progress: bool = False,
    tolerance: float | None = None,
    relative_to: RelativeTo = "larger",
    output_scale: float | Mapping[str, float] | None = None,
) -> AuditReport:
    """How far f is from f(ρ_X(g)x) = ρ_Y(g)f(x), beside the error that interpolation, rounding and chance explain.

    Args:
        f: a function of a batch (NumPy or JAX), a PyTorch module, the path of an ONNX or .pt2 file, an estimator that
            follows scikit-learn, an ensemble of this library, `(net, params)`, or a list of models: an ensemble.
        action: ρ_X. The name of a group ("C4", "D4", "SO2", "SO3", "O3", "S_n", "translations", …), an action of
            `equitangents.actions`, or for several inputs one of these or None for each.
        x: the inputs, (N, …); a tuple for several arguments, f(*x), or a dictionary (keywords of PyTorch modules);
            `Shared(a)` for an input that is no batch.
        output_action: ρ_Y: an action, or with a named group a kind ("vectors", "images", …); None: invariant outputs.
        off_data: True: also on noise and on shuffled inputs; or other sets by name.
        y: labels: whole numbers (N,) are classes, real numbers the values that f should return. Of an estimator's
            probabilities or decision values they are labels as it was fitted to, names among them.
        layout: where images keep channels, "channels_last" or "channels_first". Must be given for PyTorch and ONNX.
        output_layout: the same for outputs that are images, if different.
        inputs: with a named group, what each input is to it: "images", "vectors", "points", …, None for not moved.
        elements: how many elements to try; None: all of up to 64, 24 angles, or 32 rotations or permutations.
        outputs: what f returns; "auto" recognises probabilities and takes everything else as values.
        method: which method of an estimator gives its outputs; None: predict_proba, decision_function or predict.
        layers: False: do not look inside; or functions that make up f when they are applied one after another.
        checkpoints: the same model at points of training, by name.
        theory: a fitted InfiniteEnsemble to compare an ensemble of finite networks with.
        train: (x, y) to refit an estimator on, with augmentation, to measure what that would bring.
        data_test: how the data's own symmetry is tested; None: not at all.
        batch_size: inputs at a time; None: 256, or fewer if inputs are large.
        confidence: coverage of the intervals.
        resamples: bootstrap resamples.
        seed: of everything random in the audit; the same seed gives the same report.
        select: which output is audited, of a model that returns several: its name ("logits"; "a.b" within another), or
            its position; None: all of them. Dictionaries of any class, dataclasses and named tuples have names.
        progress: show how far a long audit is, and how long the rest takes, on stderr; False: it is logged.

    Ctrl-C ends an audit with a report of what was measured until then (`partial` is True), if any element was.
        tolerance: the mean error that is acceptable under every element, 0.01 for 1 %; None: none above the floor.
        relative_to: what the headline's error and the verdict are relative to: "norm", ‖f(x)‖; "spread", the root mean
            square distance of f(x) from its mean over the inputs; "larger", that of both that gives the larger error.
        output_scale: the size of outputs that counts as 100 %, in their own unit, in place of both; a number for all
            outputs, or numbers by the names of some. For outputs that vanish, as forces of a relaxed crystal do.

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
    began = time.perf_counter()
    Bootstrap(confidence, resamples, seed)
    if outputs not in _OUTPUTS:
        raise InvalidArgumentError(f"outputs is {outputs!r}; expected one of {', '.join(map(repr, _OUTPUTS))}")
    judging = Judging(relative_to, tolerance, output_scale)
    check_judging(judging)
    for name, value in (("layout", layout), ("output_layout", output_layout)):
        if value not in (None, "channels_last", "channels_first"):
            raise InvalidArgumentError(f"{name} is {value!r}; expected 'channels_last' or 'channels_first'")
    for name, count in (("elements", elements), ("batch_size", batch_size)):
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise InvalidArgumentError(f"{name} is {count!r}; expected a whole number, at least 1")
    if data_test not in (None, "kernel", "classifier"):
        raise InvalidArgumentError(f"data_test is {data_test!r}; expected 'kernel', 'classifier' or None")
    model = as_model(f, layers=None if isinstance(layers, bool) else layers, method=method, select=check_select(select))
    batch = as_inputs(x)
    contract = make_contract(action, batch, inputs, layout, output_layout, model.states_layout)
    model.check_inputs(batch.tree())
    verify(contract, batch, seed)
    labels = check_labels(y, batch.n, model.classes)
    group = contract.group
    drawn = group.draw(elements or group.default_draws, np.random.default_rng(seed))
    if not drawn:
        raise InvalidArgumentError(f"the group {group.name} has no element but the identity")
    complete = group.elements is not None and len(drawn) == len(group.elements) - 1
    task = Task(
        model=model,
        contract=contract,
        x=contract.project(batch),
        elements=drawn,
        complete=complete,
        output_action=output_action,
        outputs=outputs,
        regression=labels is not None and not is_classes(labels),
        batch_size=batch_size or default_batch_size(batch),
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        judging=judging,
    )
    stop = Interruption()
    task.clock.check = stop.check
    task.clock.progress = Progress(planned_inputs(task, off_data, checkpoints or {}), progress)
    try:
        with model.ready(), stop.watching():
            return assemble(
                task, began, labels, off_data=off_data, layers=layers is not False, checkpoints=checkpoints or {},
                theory=theory, train=train, data_test=data_test, stop=stop,
            )  # fmt: skip
    finally:
        task.clock.progress.close()
