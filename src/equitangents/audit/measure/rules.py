"""Rules by which outputs transform (output_action="find"), fitted on half of the inputs and tested on the other half.

A rule is a permutation of channels, the assignment max tr(Pᵀ Σ z yᵀ) of rows y of f(x) and z of f(ρ(s)x), or a kind of
array with a known action. It is accepted if under every generator its mean error is below a quarter of that of an
invariant output, by one-sided tests (paired over inputs) that hold for all rules, generators and outputs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from scipy.special import stdtrit

from equitangents._types import AnyAction
from equitangents.actions.kinds import KINDS
from equitangents.actions.positions import check_permutation_table
from equitangents.audit.contract.contract import Contract
from equitangents.audit.contract.kinds import Labels, LabelsAction, cycles, spelled
from equitangents.audit.contract.leaf_actions import LeafAction, Place
from equitangents.audit.contract.named import leaf_of_kind
from equitangents.audit.contract.trees import Batch, per_leaf, to_last
from equitangents.audit.measure.orbits import Orbits, RunningDeviation, measure_orbits
from equitangents.audit.measure.task import AuditTask
from equitangents.audit.report.sections import RuleResult, RuleUnit
from equitangents.errors import EquitangentsError, InvalidArgumentError, NotAnActionError
from equitangents.groups import Group
from equitangents.metrics.measure import norms, ratio

FIND = "find"
LEAST = 10
"""Inputs needed to fit a rule; half of them test it."""
_QUARTER = 0.25
_BETTER = 0.5  # a later rule replaces a plainer one if its error is below this share of the other's
_CONFIDENCE = 0.95
_MOST_CHANNELS = 2048  # of a permutation
_ALIKE = 1.01  # of kinds whose errors differ by less than this factor, the plainer is taken
_TIE = 1e-9  # prefers the assignment that moves fewer channels


@dataclass(frozen=True, eq=False)
class Pairs:
    """One output: y = f(x), and z[k] = f(ρ(g_k) x) for some elements; class numbers one-hot."""

    elements: list[Any]
    y: Float[np.ndarray, " n *shape"]
    z: list[np.ndarray]
    classes: bool
    """Whether these are class numbers."""

    def rows(self, chosen: np.ndarray) -> Pairs:
        """The pairs of some of the inputs."""
        return replace(self, y=self.y[chosen], z=[z[chosen] for z in self.z])

    def moved(self, action: LeafAction | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(f(ρ(g)x), ρ_Y(g) f(x)) of every element."""
        for g, z in zip(self.elements, self.z, strict=True):
            yield z, self.y if action is None else action.act(g, self.y)

    def violations(self, action: LeafAction | None) -> Float[np.ndarray, "E n"]:
        """‖f(ρ(g)x) − ρ_Y(g) f(x)‖ of every element and input; for class numbers 1 where they differ."""
        errors = np.array([norms(z - expected) for z, expected in self.moved(action)])
        return errors.astype(bool).astype(np.float64) if self.classes else errors

    def deviation(self) -> float:
        """Standard deviation of outputs over the inputs and their moved copies; 0 for one input."""
        running = RunningDeviation(1 + len(self.z))
        for part in (self.y, *self.z):
            running.add(part.reshape(len(part), -1))
        return running.value if len(self.y) > 1 else 0.0


@dataclass(frozen=True, eq=False)
class RuleCandidate:
    """One rule, by name and as an action."""

    kind: Literal["permutation", "kind"]
    action: LeafAction
    name: str
    """"the classes are permuted 0→3→2→1"."""
    by_hand: str | None
    """The same rule as output_action; None if there is no such value."""


def settled(task: AuditTask, y: np.ndarray | None) -> tuple[AuditTask, np.ndarray | None, list[RuleResult] | None]:
    """(task, labels, results) with every "find" replaced by its fitted rule, on the inputs that did not fit it.

    The results are None without a "find". If no rule is accepted, all inputs are audited.
    """
    given = jax.tree.leaves(task.output_action, is_leaf=lambda part: part is None)
    if not any(_is_find(part) for part in given):
        return task, y, None
    if task.x.n < LEAST:
        raise InvalidArgumentError("output_action", FIND, f"at least {LEAST} inputs", f"there are {task.x.n}")
    blank = None if task.output_action == FIND else jax.tree.map(
        lambda part: _put(part, None) if _is_find(part) else part, task.output_action, is_leaf=lambda part: part is None
    )  # fmt: skip
    group = task.contract.group
    elements = list(group.generators) if isinstance(group, Group) else list(task.elements)
    orbits = measure_orbits(replace(task, elements=elements, complete=False, output_action=blank))
    count = len(orbits.output_names)
    actions = [FIND] * count if blank is None else per_leaf(
        "output_action", task.output_action, orbits.structure, count
    )  # fmt: skip
    sought = [o for o, part in enumerate(actions) if _is_find(part)]
    rules = {o: _search(task, orbits, elements, o, len(sought)) for o in sought}
    results = [result for _, result in rules.values()]
    parts = [_put(part, rules[o][0]) if o in rules else part for o, part in enumerate(actions)]
    task = replace(task, output_action=jax.tree.unflatten(orbits.structure, parts))
    if not any(action is not None for action, _ in rules.values()):
        return task, y, results
    fit, _ = halves(len(orbits.kept), task.settings.seed)
    held = np.setdiff1d(np.arange(task.x.n), orbits.kept[fit])
    return task.of_rows(held), None if y is None else np.asarray(y)[held], results


def halves(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit on and rows to test on, drawn by the seed."""
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[: n // 2]), np.sort(order[n // 2 :])


def _search(
    task: AuditTask, orbits: Orbits, elements: list[Any], o: int, outputs: int
) -> tuple[LeafAction | None, RuleResult]:
    """(action, result) of the rule of output `o`, one of `outputs` that are fitted together."""
    part = orbits.by_output(orbits.signals)[o]
    start, *moved = part.reshape(*part.shape[:2], *orbits.output_shapes[o])
    pairs = Pairs(elements, start, moved, bool(orbits.class_numbers[o]))
    fit, test = halves(len(pairs.y), task.settings.seed)
    tried = candidates(task.contract, pairs.rows(fit))
    held, finite = pairs.rows(test), isinstance(task.contract.group, Group)
    unit, divisors = _divisors(held)
    still = held.violations(None)
    tests = max(len(tried), 1) * (len(held.z) if finite else 1) * outputs
    errors: list[np.ndarray] = []
    best: int | None = None
    for k, candidate in enumerate(tried):  # the plainest rule, unless another's error is much smaller
        off = held.violations(candidate.action)
        errors.append(ratio(off, divisors))
        excess = off - _QUARTER * still.mean(axis=0)  # of norms, since ratios to a small ‖f(x)‖ have heavy tails
        rows = excess if finite else excess.mean(axis=0, keepdims=True)  # for drawn elements their mean
        holds = all(below_zero(row, tests) for row in rows)
        if holds and (best is None or errors[k].mean() < _BETTER * errors[best].mean() - 1e-9):
            best = k
    chosen = None if best is None else tried[best]
    nearest = min(range(len(tried)), key=lambda k: float(errors[k].mean()), default=None) if best is None else best
    over_inputs = task.over_inputs(len(test))
    mean = lambda table: over_inputs.mean(table.mean(axis=0))
    agreement = None
    if chosen is not None and chosen.kind == "permutation" and held.y.ndim == 2:
        same = [z.argmax(axis=1) == expected.argmax(axis=1) for z, expected in held.moved(chosen.action)]
        agreement = mean(np.array(same).astype(np.float64))
    result = RuleResult(
        output=orbits.output_names[o],
        found=chosen is not None,
        kind="none" if chosen is None else chosen.kind,
        rule="" if nearest is None else tried[nearest].name,
        by_hand=None if chosen is None else chosen.by_hand,
        error=None if nearest is None else mean(errors[nearest]),
        invariant=mean(ratio(still, divisors)),
        unit=unit,
        agreement=agreement,
    )
    return None if chosen is None else chosen.action, result


def _divisors(pairs: Pairs) -> tuple[RuleUnit, Any]:
    """The divisor of errors: standard deviation over inputs or ‖f(x)‖, whichever makes them larger."""
    if pairs.classes:
        return "classes", 1.0
    sizes, deviation, off = norms(pairs.y), pairs.deviation(), pairs.violations(None)
    by_norm = float(ratio(off, sizes).mean())
    if deviation > 0 and not by_norm > float(off.mean()) / deviation:
        return "spread", deviation
    return ("norm", sizes) if np.isfinite(by_norm) or not deviation > 0 else ("spread", deviation)


def below_zero(values: Float[np.ndarray, " n"], tests: int) -> bool:
    """Whether the mean is below 0, by a t-test with Bonferroni's correction for `tests` tests."""
    n = len(values)
    if n < LEAST // 2 or not np.isfinite(values).all():
        return False
    width = float(stdtrit(n - 1, 1 - (1 - _CONFIDENCE) / tests)) * float(values.std(ddof=1)) / np.sqrt(n)
    return bool(values.mean() + width < 0)


def candidates(contract: Contract, pairs: Pairs) -> list[RuleCandidate]:
    """Rules in order of preference; permutations only if `pairs` are of the generators of a group."""
    permuted = list(_permuted(contract, contract.group, pairs)) if isinstance(contract.group, Group) else []
    return permuted + ([] if pairs.classes else list(_best_kind(contract, pairs)))


def _permuted(contract: Contract, group: Group, pairs: Pairs) -> Iterator[RuleCandidate]:
    """The best permutation of channels, if those of the generators respect products."""
    layout = contract.output_layout if pairs.y.ndim > 2 else None
    flat = lambda a: to_last(a if a.ndim > 1 else a[:, None], layout)
    y = flat(pairs.y)
    C = y.shape[-1]
    if not 1 < C <= _MOST_CHANNELS:
        return
    permutations = [permutation(y.reshape(-1, C), flat(z).reshape(-1, C)) for z in pairs.z]
    try:
        table = check_permutation_table("the rule", group, spelled(group, permutations))
    except NotAnActionError:
        return
    if all((p == np.arange(C)).all() for p in permutations):
        return
    each = (
        f"{cycles(p) or 'not'} under {contract.label(s)}" for p, s in zip(permutations, group.generators, strict=True)
    )
    how = cycles(permutations[0]) if len(permutations) == 1 else "; ".join(each)
    name = f"the {'classes' if pairs.y.ndim == 2 else 'channels'} are permuted {how}"
    action = LeafAction(LabelsAction(group, table), layout)
    yield RuleCandidate("permutation", action, name, repr(Labels(np.stack(permutations))))


def permutation(y: Float[np.ndarray, "n C"], z: Float[np.ndarray, "n C"]) -> Int[np.ndarray, " C"]:
    """Where each channel goes: z[:, p[c]] ≈ y[:, c]."""
    gain = y.T @ z
    bonus = _TIE * float(np.abs(gain).max(initial=0.0)) * np.eye(len(gain))
    return linear_sum_assignment(gain + bonus, maximize=True)[1]


def _best_kind(contract: Contract, pairs: Pairs) -> Iterator[RuleCandidate]:
    """The kind of array that fits these outputs best."""
    kinds = [(name, action) for name, action in _kinds(contract, pairs) if not action.action.permutes_entries]
    errors = [float(np.square(pairs.violations(action)).sum()) for _, action in kinds]
    if errors:
        most = _ALIKE * min(errors) + 1e-18 * float(np.square(pairs.violations(None)).sum())
        name, action = next(kind for kind, error in zip(kinds, errors, strict=True) if error <= most)
        named = contract.kinds is not None and name in KINDS[contract.kinds.space]
        yield RuleCandidate("kind", action, f"the outputs move as {name}", f'"{name}"' if named else None)


def _kinds(contract: Contract, pairs: Pairs) -> Iterator[tuple[str, LeafAction]]:
    """Kinds of arrays with a known action that fit the outputs' shape, the plainest first."""
    known, layout = contract.kinds, contract.output_layout
    if known is None:
        yield from (("the inputs do", a) for a in contract.inputs if a is not None and _fits(a, pairs))
        return
    for name, kind in KINDS[known.space].items():
        if kind.action is None or not kind.sought:
            continue
        with contextlib.suppress(EquitangentsError):
            action = leaf_of_kind(Place(known.group, known, pairs.y.shape, layout), name)
            if action is not None and _fits(action, pairs):
                yield name, action


def _fits(action: LeafAction, pairs: Pairs) -> bool:
    """Whether the action can act on outputs of this shape."""
    try:
        action.check("f(x)", pairs.y)
    except EquitangentsError:
        return False
    return True


def _is_find(part: AnyAction) -> bool:
    """Whether an output action is "find"."""
    return _is_find(part.value) if isinstance(part, Batch) else isinstance(part, str) and part == FIND


def _put(part: AnyAction, action: LeafAction | None) -> Any:
    """The action in place of "find", also within a Batch."""
    return replace(part, value=action) if isinstance(part, Batch) else action
