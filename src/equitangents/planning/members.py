"""`plan_ensemble`: the smallest ensemble whose violation of a symmetry stays below a target in most cases.

An ensemble of M members is drawn as μ_t + ε/√M, ε ~ N(0, Σ_t) on all orbits at once; its measure v(M) has a
distribution across ensembles, and M is the smallest number at which the `confidence` quantile of v(M) is ≤ target.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from equitangents.actions.subset import augmenting_elements
from equitangents.ensembles import BaggedInfiniteEnsemble, InfiniteEnsemble, InfiniteEnsembleClassifier
from equitangents.ensembles.orbits.draws import orbit_law
from equitangents.ensembles.orbits.statistics import OVER_INPUTS, check_measures, check_time, quantile_interval
from equitangents.ensembles.training.settings import check_choice, check_number
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.planning.alternatives import alternatives
from equitangents.planning.pilot import pilot_ratios
from equitangents.planning.plan import Plan
from equitangents.planning.search import smallest
from equitangents.planning.violations import MEASURES, Violations
from equitangents.validation import check_whole

_LEVEL = 0.95  # of the interval of the number of members
_CURVE = (1, 2, 5)


def plan_ensemble(
    ensemble: InfiniteEnsemble | InfiniteEnsembleClassifier | BaggedInfiniteEnsemble,
    action: Any,
    x: Any,
    target: float = 0.01,
    measure: str = "rsd",
    confidence: float = 0.95,
    time: Any = None,
    *,
    y: Any = None,
    output_action: Any = None,
    over_inputs: str = "mean",
    pilot: Any = None,
    draws: int = 2000,
    seed: Any = 0,
    max_members: int = 1_000_000,
) -> Plan:
    """How many members bring an ensemble's violation of a symmetry to `target` or below.

    Args:
        ensemble: fitted; its network, augmentation and data are those of the ensemble to be trained.
        action: ρ_X on inputs.
        x: inputs (n, …) on whose orbits the target is to be met.
        target: the largest violation that is accepted.
        measure: "rsd", the relative orbit std; "osp", the share of the orbit on which the predicted class changes,
            1 − OSP/|G|; "equivariance_error"; "spread_over_error", the orbit std over the root mean square error of
            infinitely many members at x; "error", by how much the error at x exceeds that of infinitely many members,
            relative to the latter (both need y).
        confidence: the share of ensembles that are to meet the target.
        time: one training time; None: the ensemble's.
        y: targets, or labels for a classifier; only looked at by measures that need an error.
        output_action: ρ_Y on outputs; None: outputs should be invariant.
        over_inputs: "mean", "median" or "max", how violations at several inputs are summarised. The mean of relative
            measures is dominated by inputs whose outputs are near zero; the median is not.
        pilot: some trained members of the wanted width (a fitted `DeepEnsemble`; 20 are a good number): mean and
            fluctuations are multiplied so that the mean, and the variance along the orbits of x, are the pilot's.
        draws: ensembles drawn from theory.
        seed: a whole number or a jax.random key.
        max_members: the most members to consider.

    Returns:
        a `Plan`. Its `members` is None where no number of members meets the target: because infinitely many do not (a
        network trained without augmentation, say), or because more than `max_members` are needed; `reason` says which.

    Not modelled without a `pilot`: how finite width changes the mean of infinitely many members and the spread of
    single ones; both are of order 1/width, and matter most at large learning rates. With full augmentation the mean
    of infinitely many members stays exactly equivariant at any width (arXiv 2410.01452). Batches, momentum and other
    losses than the mean square are not modelled.

    >>> import numpy as np, equitangents as et
    >>> net = et.nn.Sequential(et.nn.Flatten(), et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1))
    >>> rot = et.actions.image_rotations(4)
    >>> x = np.random.default_rng(0).normal(size=(6, 3, 3, 1))
    >>> model = et.InfiniteEnsemble(net, augmentation=rot, time=50.0).fit(x, np.arange(1.0, 7.0))
    >>> plan = et.plan_ensemble(model, rot, x + 0.1, target=0.01)
    >>> plan.violation(plan.members).upper <= 0.01 < plan.violation(plan.members - 1).upper
    True
    """
    if not isinstance(ensemble, InfiniteEnsemble | InfiniteEnsembleClassifier | BaggedInfiniteEnsemble):
        raise InvalidTypeError(
            f"ensemble is {ensemble!r}; expected a fitted InfiniteEnsemble, InfiniteEnsembleClassifier or "
            f"BaggedInfiniteEnsemble"
        )
    check_choice("measure", measure, tuple(MEASURES))
    check_choice("over_inputs", over_inputs, tuple(OVER_INPUTS))
    check_number("target", target, "a finite number above 0", lambda t: t > 0)
    check_whole("max_members", max_members, 1)
    if MEASURES[measure].needs_error and y is None:
        raise InvalidArgumentError(f"measure is {measure!r} and y is None; an error needs targets")
    regression, x, truth = ensemble._orbit_question(x, y if MEASURES[measure].needs_error else None)
    if measure == "spread_over_error" and truth is not None and truth.ndim == 1:
        raise InvalidArgumentError("measure is 'spread_over_error', which needs a regression; take 'osp' or 'rsd'")
    measures = check_measures(action, output_action, x, truth, confidence)
    time = check_time(ensemble, time)
    law = orbit_law(regression, action, x, draws=draws, key=seed, time=time)
    ratios = None
    if pilot is not None:
        ratios = pilot_ratios(pilot, action, x, law, _LEVEL)
        law = ratios.scaled(law)
    violations = Violations(measures, MEASURES[measure], law, action.group.order, over_inputs)
    augmentation = ensemble.augmentation
    return _search(
        violations,
        float(target),
        float(confidence),
        int(max_members),
        Plan(
            measure=measure,
            target=float(target),
            confidence=float(confidence),
            over_inputs=over_inputs,
            time=time,
            inputs=len(x),
            order=action.group.order,
            draws=law.draws,
            limit=violations.limit,
            pilot=ratios,
            exact=bool(getattr(action, "exact", True)),
            augmentation_order=1 if augmentation is None else len(augmenting_elements(augmentation)),
            _violations=violations,
        ),
    )


def _search(violations: Violations, target: float, confidence: float, most: int, plan: Plan) -> Plan:
    """The plan with its number of members, the interval of it, and the curve."""
    found = None
    interval: tuple[int | None, int | None] = (None, None)
    if plan.limit <= target:
        end = lambda which: lambda m: quantile_interval(violations.of(m), confidence, _LEVEL)[which]
        found = smallest(lambda m: violations.quantile(m, confidence), target, most)
        interval = (smallest(end(0), target, most), smallest(end(1), target, most))
    last = 4 * found if found is not None else (100 if plan.limit > target else most)
    sizes = sorted({*(s for s in _ladder(last)), *([found] if found else [])})
    curve = tuple(violations.point(m, confidence) for m in sizes)
    costs = alternatives(found, plan.order, plan.augmentation_order, plan.exact)
    return replace(plan, members=found, members_interval=interval, curve=curve, alternatives=costs, max_members=most)


def _ladder(last: int) -> list[int]:
    """1, 2, 5, 10, … up to and including the first that reaches `last`."""
    steps: list[int] = []
    for power in range(20):
        for digit in _CURVE:
            steps.append(digit * 10**power)
            if steps[-1] >= last:
                return steps
    return steps
