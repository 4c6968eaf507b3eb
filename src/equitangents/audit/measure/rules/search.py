"""Which rule an output follows: fitted on half of the inputs, tested on the other half.

A rule is found if under every generator its mean error is below a quarter of the error of calling the output
invariant, by one-sided tests (paired over inputs) that hold for all rules, generators and outputs at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from equitangents.audit.contract.contract import Contract
from equitangents.audit.contract.leaf_actions import LeafAction
from equitangents.audit.measure.intervals import Resampler
from equitangents.audit.measure.orbits import are_distributions
from equitangents.audit.measure.rules.candidates import Candidate, Pairs, candidates
from equitangents.audit.report.sections import RuleResult, RuleUnit
from equitangents.groups import Group
from equitangents.metrics.measure import ratio

LEAST = 10
"""Inputs, from which rules are sought: half of them test."""
QUARTER = 0.25
_BETTER = 0.5  # a later rule is taken before a plainer one if its error is below this share of that one's
_CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class Found:
    """The rule of one output, or that there is none."""

    action: LeafAction | None
    result: RuleResult
    fitted_rows: np.ndarray


@dataclass(frozen=True, eq=False)
class Tested:
    """One candidate's errors on the inputs that did not fit it."""

    candidate: Candidate
    errors: Float[np.ndarray, "E n"]
    holds: bool


def halves(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit on and rows to test on, drawn by the seed."""
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[: n // 2]), np.sort(order[n // 2 :])


def search(contract: Contract, pairs: Pairs, name: str, outputs: int, resampler: Resampler, seed: int) -> Found:
    """The rule of one of several outputs; `resampler` gives intervals over the inputs that test."""
    fit, test = halves(len(pairs.y), seed)
    finite = isinstance(contract.group, Group)
    tried = list(candidates(contract, pairs.rows(fit)))
    held = pairs.rows(test)
    unit, divisors = _divisors(held)
    still = held.apart(None)
    invariant = ratio(still, divisors)
    tests = max(len(tried), 1) * (len(held.z) if finite else 1) * outputs
    tested = [_tested(c, held, divisors, still, tests, finite) for c in tried]
    chosen = _chosen([t for t in tested if t.holds])
    mean = lambda table: resampler.mean(table.mean(axis=0))
    best = min(tested, key=lambda t: float(t.errors.mean()), default=None)
    shown = chosen or best
    of_classes = chosen is not None and chosen.candidate.kind == "permutation" and held.y.ndim == 2
    agreement = held.predictions_agree(chosen.candidate.action) if of_classes and chosen is not None else None
    moved_by = held.apart(chosen.candidate.action) / np.sqrt(2) if of_classes and chosen is not None else None
    probable = moved_by is not None and not pairs.classes and are_distributions(held.y)
    result = RuleResult(
        output=name,
        found=chosen is not None,
        kind="none" if chosen is None else chosen.candidate.kind,
        rule="" if shown is None else shown.candidate.name,
        by_hand=None if chosen is None else chosen.candidate.by_hand,
        error=None if shown is None else mean(shown.errors),
        invariant=mean(invariant),
        unit=unit,
        fitted_on=len(fit),
        tested_on=len(test),
        tried=[t.candidate.name for t in tested],
        tests=tests,
        agreement=None if agreement is None else mean(agreement),
        probability=mean(moved_by) if probable else None,
    )
    return Found(None if chosen is None else chosen.candidate.action, result, fit)


def _divisors(pairs: Pairs) -> tuple[RuleUnit, Any]:
    """What errors are relative to: of the spread between inputs and ‖f(x)‖ that which makes them larger."""
    if pairs.classes:
        return "classes", 1.0
    sizes, spread, off = pairs.sizes(), pairs.spread(), pairs.apart(None)
    by_norm = float(ratio(off, sizes).mean())
    if spread > 0 and not by_norm > float(off.mean()) / spread:
        return "spread", spread
    return ("norm", sizes) if np.isfinite(by_norm) or not spread > 0 else ("spread", spread)


def _tested(candidate: Candidate, held: Pairs, divisors: Any, still: np.ndarray, tests: int, finite: bool) -> Tested:
    """`still`: ‖f(ρ(g)x) − f(x)‖. The tests are of norms, since shares of ‖f(x)‖ have heavy tails where it is small."""
    off = held.apart(candidate.action)
    errors = ratio(off, divisors)
    excess = off - QUARTER * still.mean(axis=0)
    rows = excess if finite else excess.mean(axis=0, keepdims=True)  # of drawn elements, the mean over them
    return Tested(candidate, errors, bool(np.all([below_zero(row, tests) for row in rows])))


def below_zero(values: Float[np.ndarray, " n"], tests: int) -> bool:
    """Whether the mean of these values is below 0, by a t-test that one of so many tests may fail."""
    n = len(values)
    if n < LEAST // 2 or not np.isfinite(values).all():
        return False
    width = float(stdtrit(n - 1, 1 - (1 - _CONFIDENCE) / tests)) * float(values.std(ddof=1)) / np.sqrt(n)
    return bool(values.mean() + width < 0)


def _chosen(holding: list[Tested]) -> Tested | None:
    """The plainest rule, unless another's error is much smaller."""
    chosen: Tested | None = None
    for t in holding:
        if chosen is None or float(t.errors.mean()) < _BETTER * float(chosen.errors.mean()) - 1e-9:
            chosen = t
    return chosen
