"""`plan_ensemble`: the smallest ensemble whose violation of a symmetry stays below a target in most cases.

An ensemble of M members is drawn on all orbits jointly, from a pilot of trained networks (`pilot`) or, for infinitely
wide ones, as μ_t + ε/√M, ε ~ N(0, Σ_t); its measure v(M) has a distribution across ensembles, and M is the
smallest number at which the `confidence` quantile of v(M) is ≤ target.
"""

from __future__ import annotations

from typing import cast

import jax
import numpy as np

from equitangents._types import Key, Network, Numbers, Targets, Times
from equitangents.actions import as_action
from equitangents.actions.action import Action, GroupAction
from equitangents.actions.kinds import ActionLike
from equitangents.actions.subset import augmenting_elements
from equitangents.ensembles.estimator import Estimator
from equitangents.ensembles.orbits import OrbitLaw, check_measures, orbit_batch, orbit_law
from equitangents.errors import InvalidArgumentError
from equitangents.inference.draws import as_key
from equitangents.planning.pilot import Pilot, PilotDraws, make_source, pilot_outputs
from equitangents.planning.plan import Plan
from equitangents.planning.violations import MEASURES, OVER_INPUTS, Violations, Wanted
from equitangents.validation import check_choice, check_number, check_shape, check_whole


def plan_ensemble(
    ensemble: Network,
    action: ActionLike,
    x: Numbers,
    target: float = 0.01,
    measure: str = "rsd",
    confidence: float = 0.95,
    time: Times | None = None,
    *,
    y: Numbers | None = None,
    output_action: GroupAction | None = None,
    over_inputs: str = "mean",
    pilot: int | None = None,
    data: tuple[Numbers, Targets] | None = None,
    draws: int = 2000,
    seed: Key = 0,
    max_members: int = 1_000_000,
) -> Plan:
    """How many members bring an ensemble's violation of a symmetry to `target` or below.

    Args:
        ensemble: the ensemble to plan. With `data`, a `DeepEnsemble`, `DeepEnsembleClassifier` or network (trained as
            `DeepEnsemble(net, augmentation=action)`, a classifier for labels), of which a pilot is trained. A fitted
            finite ensemble is its own pilot. A fitted `InfiniteEnsemble` or `InfiniteEnsembleClassifier` is planned
            from theory, for infinitely wide networks.
        action: ρ_X on inputs, or the name of a group, e.g. "C4".
        x: inputs (n, …) whose orbits should meet the target.
        target: the largest violation allowed.
        measure: "rsd", the relative orbit std; "osp", the share of the orbit on which the predicted class changes,
            1 − OSP/|G|; "equivariance_error"; "spread_over_error", the orbit std over the root mean square error of
            infinitely many members at x; "error", the excess of the error at x over that of infinitely many members,
            relative to the latter (both need y).
        confidence: the share of ensembles that should meet the target.
        time: training time of infinitely wide networks; None: the ensemble's. Finite ones have epochs.
        y: targets, or labels for a classifier; used only by measures that need an error.
        output_action: ρ_Y on outputs; None: outputs should be invariant.
        over_inputs: "mean", "median" or "max", how violations at several inputs are summarised. The mean of relative
            measures is dominated by inputs whose outputs are near zero; the median is not.
        pilot: with `data`, the number of networks of the pilot, at least 3; None: 20.
        data: training data (X, y) of the pilot.
        draws: number of ensembles drawn, from the pilot or from theory.
        seed: a whole number or a jax.random key.
        max_members: the most members to consider.

    Returns:
        a `Plan`. Its `members` is None if no number of members meets the target: infinitely many do not (for a network
        trained without augmentation, say), or more than `max_members` are needed; `outcome` says which.

    From a pilot, quantiles are those of trained ensembles and include the chance of the pilot: a share
    2·confidence − 1 of them, 90 % (measured in 32 settings: the guide on planning), lies between `lower` and `upper` of
    `plan.violation(m)`. Theory does not include width, batches, momentum, or losses other than the mean square.

    >>> import numpy as np, equitangents as et
    >>> net = et.nn.Sequential(et.nn.Flatten(), et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1))
    >>> rot = et.actions.image_rotations(4)
    >>> x = np.random.default_rng(0).normal(size=(6, 3, 3, 1))
    >>> model = et.InfiniteEnsemble(net, augmentation=rot, time=50.0).fit(x, np.arange(1.0, 7.0))
    >>> plan = et.plan_ensemble(model, rot, x + 0.1, target=0.01)
    >>> plan.violation(plan.members).upper <= 0.01 < plan.violation(plan.members - 1).upper
    True
    """
    check_choice("measure", measure, tuple(MEASURES))
    check_choice("over_inputs", over_inputs, tuple(OVER_INPUTS))
    check_number("target", target, "a finite number above 0", lambda t: t > 0)
    check_number("confidence", confidence, "a number between 0 and 1", lambda c: 0 < c < 1)
    check_whole("max_members", max_members, 1)
    check_whole("draws", draws, 2)
    kind = MEASURES[measure]
    if kind.needs_error and y is None:
        raise InvalidArgumentError("y", None, "targets, which an error needs")
    key = as_key("seed", seed)
    flat = getattr(ensemble, "input_shape", None) if isinstance(ensemble, Estimator) else None
    # that of inputs as the ensemble reads them
    shape = np.shape(x) if flat is None else (*np.shape(x)[:1], *check_shape("input_shape", flat))
    action = cast(Action, as_action("action", action, shape))
    check_measures(action, output_action, x, None, confidence)
    source = make_source(
        ensemble,
        x,
        y if kind.needs_error else None,
        action=action,
        output_action=output_action,
        pilot=pilot,
        data=data,
        time=time,
        seed=seed if isinstance(seed, int) else int(jax.random.randint(key, (), 0, 2**31 - 1)),
    )
    measures = check_measures(action, output_action, source.x, source.truth, confidence, source.fields)
    if measure == "spread_over_error" and measures.labelled:
        raise InvalidArgumentError("measure", measure, "'osp' or 'rsd'", "it is for a regression")
    violations_of = lambda law: Violations(measures, kind, law, action.group.order, over_inputs)
    wanted = Wanted(float(target), float(confidence), int(max_members))
    law = source.mean_law(action, output_action)
    pilot_of: Pilot | None = None
    equivariant: bool | None = None
    if source.infinite:
        theory = orbit_law(source.ensemble, action, source.x, draws=draws, key=key, time=source.time)
        _check_mean(theory, source.time, measure)
        violations = violations_of(theory)
        members = wanted.members(violations)
        members_interval = wanted.of_draws(violations, members)
    else:
        outputs = pilot_outputs(source.ensemble, orbit_batch(action, source.x))
        outputs = outputs.reshape(len(outputs), len(source.x), action.group.order, -1)
        equivariant = law is not None and law.equivariant
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel().tolist())
        centre = None if measures.labelled else source.truth
        pilots = PilotDraws(outputs, action.group, measures.output_action, equivariant, centre, rng)
        violations = violations_of(pilots.law(draws))
        members = wanted.members(violations)
        replicates = map(violations_of, pilots.replicates(draws))
        members_interval = wanted.of_pilot(violations, members, replicates, len(outputs))
        pilot_of = source.pilot or Pilot(len(outputs))
    augmentation = source.augmentation
    augmentation_order = 1 if augmentation is None else len(augmenting_elements(augmentation))
    return Plan(
        measure=measure,
        target=wanted.target,
        confidence=wanted.confidence,
        over_inputs=over_inputs,
        group=action.group.name,
        time=source.time,
        inputs=len(source.x),
        order=action.group.order,
        draws=violations.law.draws,
        limit=violations.limit(0.5),
        limit_upper=violations.limit(wanted.confidence),
        pilot=pilot_of,
        equivariant=equivariant,
        mean_law=law,
        trained=None if source.infinite else source.ensemble,
        exact=bool(getattr(action, "exact", True)),
        augmentation_order=augmentation_order,
        members=members,
        members_interval=members_interval,
        curve=tuple(violations.point(m, wanted.confidence) for m in wanted.sizes(violations, members)),
        max_members=wanted.most,
        _violations=violations,
    )


def _check_mean(theory: OrbitLaw, time: float | None, measure: str) -> None:
    """Raise InvalidArgumentError if the mean is 0, so that a measure relative to it is the same for every M."""
    if not MEASURES[measure].needs_error and not np.any(theory.mean):
        raise InvalidArgumentError(
            "time",
            time,
            "a time at which the mean over networks is not zero",
            "give a larger time, and targets that are not all zero",
        )
