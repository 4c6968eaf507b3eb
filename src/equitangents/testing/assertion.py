"""`assert_equivariant`: an audit that raises, with the element, the output and the layer where it fails."""

from __future__ import annotations

from typing import Any

import equitangents.audit as audit
from equitangents._types import AnyModel, Tree
from equitangents.audit.records import AuditedAction, OutputAction
from equitangents.audit.report.result import AuditReport
from equitangents.audit.report.words import listed, number
from equitangents.keywords import named_also

_HOLDS = ("equivariant", "equivariant within tolerance")
_RESAMPLES = 200


@named_also(group="action")
def assert_equivariant(
    f: AnyModel,
    action: AuditedAction,
    x: Tree,
    output_action: OutputAction = None,
    *,
    tolerance: float | None = None,
    **entries: Any,
) -> AuditReport:
    """Raise AssertionError unless f(ρ_X(g)x) = ρ_Y(g)f(x) for every element that is tried.

    Args:
        f: what `equitangents.audit` takes: a function of a batch, a PyTorch module, the path of an ONNX file, ….
        action: ρ_X, an action on the inputs, or the name of a group.
        x: the inputs, (N, …), or a tuple or dictionary of them.
        output_action: ρ_Y; None: the outputs should be invariant.
        tolerance: the mean error that is acceptable under every element, 0.01 for 1 %; None: none above the floor of
            rounding and interpolation.
        **entries: whatever else `equitangents.audit` takes (`layout`, `inputs`, `elements`, `seed`, …).

    Returns:
        The report, if nothing was raised.

    Raises:
        AssertionError: naming the error and its floor, the element and output where it is largest, and, of models that
            show their layers, the layer where it starts; also if the inputs do not suffice to tell.

    >>> import numpy as np
    >>> from equitangents.testing import assert_equivariant
    >>> x = np.random.default_rng(0).normal(size=(8, 4, 4, 1))
    >>> assert_equivariant(lambda x: x.sum((1, 2)), "C4", x).verdict
    'equivariant'
    """
    quick = {"off_data": False, "data_test": None, "resamples": _RESAMPLES, **entries}
    ask = lambda **more: audit.audit(f, action, x, output_action, tolerance=tolerance, **{**quick, **more})
    report = ask(layers=False)
    if report.verdict in _HOLDS:
        return report
    if entries.get("layers") is not False:
        report = ask()  # once more, with the layers
    raise AssertionError(failure(report))


def failure(report: AuditReport) -> str:
    """What a failing assertion says: the finding, then element, output and layer."""
    headline = report.shown
    lines = [report.sentence]
    worst = max(report.elements, key=lambda e: e.shown.estimate.mean)
    error = f"mean error {number(worst.shown.estimate.mean)} {report.unit_said}"
    lines.append(f"element: {worst.label}, {error}, floor {number(worst.shown_floor)}")
    for o in report.contract.outputs:
        if o.fails_under:
            shape = " × ".join(map(str, o.shape)) or "one number"
            lines.append(f"output: {o.name} ({shape}, {o.action}) fails under {listed(o.fails_under)}")
    if report.layers is not None and (report.layers.guilty or report.layers.steepest):
        lines.append(f"layer: {report.layers.reason}")
    limit = "no more than twice the floor" if headline.tolerance is None else f"at most {number(headline.tolerance)}"
    lines.append(f"expected: {limit} under every element")
    return "\n  ".join(lines)
