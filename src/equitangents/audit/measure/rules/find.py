"""The rules of a model's outputs: sought before an audit that asks for them, and after one in which outputs fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np

from equitangents._types import AnyAction, Element
from equitangents.audit.contract.contract import Contract, OutputActions
from equitangents.audit.contract.labels import Labels, LabelsAction, cycles
from equitangents.audit.contract.leaf_actions import Actions, LeafAction
from equitangents.audit.contract.trees import Batch, spread_over
from equitangents.audit.measure.judge import Measured
from equitangents.audit.measure.orbits import Orbits, measure_orbits
from equitangents.audit.measure.rules.candidates import Pairs, pairs_of
from equitangents.audit.measure.rules.search import LEAST, QUARTER, Found, below_zero, search
from equitangents.audit.measure.task import AuditTask
from equitangents.audit.report.sections import RuleResult
from equitangents.errors import InvalidArgumentError
from equitangents.groups import Group
from equitangents.metrics.measure import ratio

FIND = "find"


def settled(task: AuditTask, y: np.ndarray | None) -> tuple[AuditTask, np.ndarray | None, list[RuleResult] | None]:
    """The task with every "find" replaced by what was found, on the inputs that did not fit it.

    Third what was found, or None where nothing was asked. Where nothing was found all inputs are audited.
    """
    given = jax.tree.leaves(task.output_action, is_leaf=lambda part: part is None)
    if not any(_asks(part) for part in given):
        return task, y, None
    if task.x.n < LEAST:
        raise InvalidArgumentError(
            "x",
            task.x.n,
            f"at least {LEAST} for output_action='find'",
            "half of them fit, half test",
            verb="has inputs,",
        )
    blank = None if task.output_action == FIND else _without(task.output_action)
    elements = _tested_elements(task)
    orbits = measure_orbits(replace(task, elements=elements, complete=False, output_action=blank))
    count = len(orbits.output_names)
    asked = [FIND] * count if blank is None else spread_over(
        "output_action", task.output_action, orbits.structure, count
    )  # fmt: skip
    sought = [o for o, part in enumerate(asked) if _asks(part)]
    found = {o: _search(task, orbits, elements, o, len(sought)) for o in sought}
    results = [f.result for f in found.values()]
    if not any(f.action is not None for f in found.values()):
        return replace(task, output_action=OutputActions(orbits.actions, orbits.output_axes)), y, results
    actions = Actions(found[o].action if o in found else orbits.actions[o] for o in range(count))
    fit = next(iter(found.values())).fitted_rows
    held = np.setdiff1d(np.arange(task.x.n), orbits.kept[fit])
    labels = None if y is None else np.asarray(y)[held]
    settled_actions = OutputActions(actions, orbits.output_axes)
    return replace(task.of_rows(held), output_action=settled_actions), labels, results


def hints(m: Measured) -> list[RuleResult]:
    """For every output that fails: that the given action has the wrong sign, or a rule by which it does move."""
    task, orbits, above = m.task, m.orbits, m.judgement.above
    failing = [o for o, by in enumerate(orbits.actions.comparisons) if above[o].any() and by is None]
    if not m.group or len(orbits.kept) < LEAST or not failing:
        return []
    results = [_inverted(task, orbits, o, len(failing)) for o in failing]
    others = [o for o, r in zip(failing, results, strict=True) if r is None and not _given_of_classes(orbits, o)]
    found: dict[int, RuleResult] = {o: r for o, r in zip(failing, results, strict=True) if r is not None}
    if others:
        wanted, measured = _tested_elements(task), task.elements
        if not all(_position(g, measured) is not None for g in wanted):
            orbits, measured = measure_orbits(replace(task, elements=wanted, complete=False)), wanted
        for o in others:
            sought = _search(task, orbits, measured, o, len(failing), wanted)
            if sought.action is not None and not _same(sought.action, orbits.actions[o]):
                found[o] = sought.result
    return [found[o] for o in sorted(found)]


def _search(
    task: AuditTask, orbits: Orbits, elements: list[Any], o: int, outputs: int, wanted: list[Any] | None = None
) -> Found:
    chosen = [_position(g, elements) for g in (elements if wanted is None else wanted)]
    pairs = pairs_of(orbits, elements, o, [k for k in chosen if k is not None])
    return search(
        task.contract,
        pairs,
        orbits.output_names[o],
        outputs,
        task.over_inputs(len(pairs.y) - len(pairs.y) // 2),
        task.seed,
    )


def _inverted(task: AuditTask, orbits: Orbits, o: int, outputs: int) -> RuleResult | None:
    """A rule: the given action holds with the inverse elements, if it does so much better than as it is."""
    action = orbits.actions[o]
    if action is None:
        return None
    pairs = _as_numbers(pairs_of(orbits, task.elements, o, list(range(len(task.elements)))), action)
    if pairs is None:
        return None
    size = pairs.spread() or float(pairs.sizes().mean()) or 1.0  # outputs that do not differ have no spread
    scale = 1.0 if pairs.classes else size
    given = ratio(pairs.apart(action), scale)
    turned = ratio(pairs.apart(action, task.contract.group.inverse), scale)
    if not below_zero((turned - QUARTER * given).mean(axis=0), outputs):
        return None
    resampler = task.over_inputs(len(pairs.y))
    rule, hand = _inverse_said(task.contract, action)
    return RuleResult(
        output=orbits.output_names[o],
        found=True,
        kind="inverse",
        rule=rule,
        by_hand=hand,
        error=resampler.mean(turned.mean(axis=0)),
        invariant=resampler.mean(given.mean(axis=0)),
        unit="classes" if pairs.classes else "spread",
        fitted_on=0,
        tested_on=len(pairs.y),
        tried=[rule],
        tests=outputs,
    )


def _inverse_said(contract: Contract, action: LeafAction) -> tuple[str, str | None]:
    """The inverse of an action in words, and by hand."""
    group, own = contract.group, action.action
    if isinstance(own, LabelsAction) and isinstance(group, Group):
        rows = [own.table[group.inverse(s)] for s in group.generators]
        return "; ".join(cycles(row) or "no change" for row in rows), repr(Labels(np.stack(rows)))
    return f"{own.name} moved by g⁻¹ where the inputs are moved by g", None


def _as_numbers(pairs: Pairs, action: LeafAction) -> Pairs | None:
    """The pairs; of class numbers the same, if the action also acts on one column a class."""
    if not pairs.classes:
        return pairs
    own = action.action
    return pairs if isinstance(own, LabelsAction) and own.table.shape[1] == pairs.y.shape[1] else None


def _same(rule: LeafAction, given: LeafAction | None) -> bool:
    """Whether the rule is the action that fails already."""
    return given is not None and rule.action == given.action and rule.layout == given.layout


def _given_of_classes(orbits: Orbits, o: int) -> bool:
    """Class numbers with an action: their columns cannot be moved back and forth."""
    return bool(orbits.class_numbers[o]) and orbits.actions[o] is not None


def _tested_elements(task: AuditTask) -> list[Any]:
    """The generators of a listed group; of others the elements that were drawn."""
    group = task.contract.group
    return list(group.generators) if isinstance(group, Group) else list(task.elements)


def _position(g: Element, elements: list[Any]) -> int | None:
    """Where g stands among the elements."""
    return next((k for k, h in enumerate(elements) if np.array_equal(g, h)), None)


def _asks(part: AnyAction) -> bool:
    """Whether an output action is "find"."""
    return _asks(part.value) if isinstance(part, Batch) else isinstance(part, str) and part == FIND


def _without(output_action: AnyAction) -> Any:
    """A tree of output actions with None in place of every "find"."""
    left = lambda part: replace(part, value=None) if isinstance(part, Batch) else None
    blank = lambda part: left(part) if _asks(part) else part
    return jax.tree.map(blank, output_action, is_leaf=lambda part: part is None)
