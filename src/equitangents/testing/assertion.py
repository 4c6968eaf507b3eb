"""`assert_equivariant`: an audit that raises AssertionError, naming the element, output and layer of the failure."""

from __future__ import annotations

from typing import Any

import equitangents.audit as audit
from equitangents._types import AnyModel, Tree
from equitangents.audit.report.result import AuditReport
from equitangents.audit.report.sections import HOLDING
from equitangents.audit.settings import AuditedAction, OutputAction
from equitangents.keywords import named_also


@named_also(group="action")
def assert_equivariant(
    f: AnyModel,
    action: AuditedAction,
    x: Tree,
    output_action: OutputAction = None,
    *,
    tolerance: float | None = None,
    **settings: Any,
) -> AuditReport:
    """Raise AssertionError unless f(ρ_X(g)x) = ρ_Y(g)f(x) for every tested element.

    Args:
        f: a model as in `equitangents.audit`: a function of a batch, a PyTorch module, the path of an ONNX file, ….
        action: ρ_X, an action on the inputs, or the name of a group.
        x: the inputs, (N, …), or a tuple or dictionary of them.
        output_action: ρ_Y; None: the outputs should be invariant.
        tolerance: the largest acceptable mean error under every element, 0.01 for 1 %; None: only the noise floor of
            rounding and interpolation.
        **settings: further arguments of `equitangents.audit` (`layout`, `inputs`, `elements`, `seed`, …).

    Returns:
        The report, if nothing was raised.

    Raises:
        AssertionError: with the first line and the table of the report: error and noise floor, the input and element
            with the largest error, the outputs that fail, and, for models whose layers are visible, the layer where it
            starts; also if the inputs do not suffice for a verdict.

    >>> import numpy as np
    >>> from equitangents.testing import assert_equivariant
    >>> x = np.random.default_rng(0).normal(size=(8, 4, 4, 1))
    >>> assert_equivariant(lambda x: x.sum((1, 2)), "C4", x).verdict
    'equivariant'
    """
    given = {"tolerance": tolerance, "off_data": False, "resamples": 200, **settings}
    report = audit.audit(f, action, x, output_action, **(given | {"layers": False}))
    if report.verdict in HOLDING:
        return report
    if settings.get("layers") is not False:
        report = audit.audit(f, action, x, output_action, **given)  # once more, with the layers
    raise AssertionError(report.summary())
