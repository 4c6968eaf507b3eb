"""What to use, in sentences that follow from the numbers."""

from __future__ import annotations

import numpy as np

from equitangents.report import with_interval
from equitangents_studies.comparison.results import Results, pairs
from equitangents_studies.comparison.settings import Settings, covers


def recommendation(settings: Settings, results: Results) -> list[str]:
    """The most accurate, those not told apart from it, the cheapest of these, and those that are most invariant."""
    accuracy, agreement = "rotated", "outside"
    if len(results.labels) == 1:
        (only,) = results.labels
        return [
            f"There is one contender, {_named(results, only)}: accuracy over all orientations "
            f"{_number(results, only, accuracy)}, orbit same predictions on foreign images "
            f"{_number(results, only, agreement)} of {results.order}. Add others to compare it with."
        ]
    best = _best(results, accuracy)
    equals = _equals(results, accuracy, best)
    steady = _best(results, agreement)
    steady_equals = _equals(results, agreement, steady)
    said = [
        f"Most accurate over all orientations: {_named(results, best)}, {_number(results, best, accuracy)}. "
        + _alike(results, equals, "in accuracy"),
        f"Most invariant on foreign images: {_named(results, steady)}, {_number(results, steady, agreement)} of "
        f"{results.order}. " + _alike(results, steady_equals, "in invariance"),
    ]
    good = [best, *equals]
    trained, used = (_cheapest(results, good, cost) for cost in ("training_seconds", "inference_seconds"))
    if len(good) > 1:
        same = trained == used
        said.append(
            f"Cheapest to train of these most accurate ones{' and cheapest to use' if same else ''}: "
            f"{_named(results, trained)}" + ("." if same else f"; cheapest to use: {_named(results, used)}.")
        )
    both = [name for name in good if name in (steady, *steady_equals)]
    if both:
        chosen = _cheapest(results, both, "training_seconds")
        said.append(
            f"Recommended from these numbers: {_named(results, chosen)}. No contender is shown to be more accurate or "
            "more invariant, and of those of which this is true it is the cheapest to train."
            + _what_it_may_cost(results, accuracy, best, chosen)
        )
    else:
        firm = _cheapest(results, [steady, *steady_equals], "training_seconds")
        said.append(
            f"No contender is among both the most accurate and the most invariant: take {_named(results, trained)} "
            f"where accuracy counts, {_named(results, firm)} where all orientations must give one class."
        )
    said.append(
        f"Differences are paired over inputs and repetitions, their intervals are over {covers(settings)} and hold for "
        "all pairs together. Not told apart means that these data do not decide, not that the two are equal."
    )
    return said


def _what_it_may_cost(results: Results, accuracy: str, best: str, chosen: str) -> str:
    """How far the cheapest may lie behind the most accurate: what is not told apart need not be equal."""
    if best == chosen:
        return ""
    found = pairs(results, accuracy)
    (behind,) = [
        (e.value, e.low, e.high) if a == best else (-e.value, -e.high, -e.low)
        for (a, b), e in zip(found.rows, found.estimates, strict=True)
        if {a, b} == {best, chosen}
    ]
    return (
        f" Its accuracy is {_number(results, chosen, accuracy)}, less than that of {_named(results, best)} by "
        f"{with_interval(behind[0], behind[1:])}, which these data do not tell from 0. One prediction takes "
        f"{_times(results, chosen, best)}."
    )


def _times(results: Results, a: str, b: str) -> str:
    first, second = (float(np.median(results.costs[name]["inference_seconds"])) for name in (a, b))
    return f"{first / second:.2g} times as long" if second > 0 else "too short a time to compare"


def _best(results: Results, measure: str) -> str:
    return max(results.labels, key=lambda name: results.estimate(results.labels[name], measure).value)


def _equals(results: Results, measure: str, best: str) -> list[str]:
    """The contenders whose difference from `best` may be 0."""
    found = pairs(results, measure)
    alike = []
    for (a, b), e in zip(found.rows, found.estimates, strict=True):
        if best in (a, b) and not (e.low > 0 or e.high < 0):
            alike.append(b if a == best else a)
    return alike


def _alike(results: Results, names: list[str], what: str) -> str:
    if not names:
        return f"Every other contender is told apart from it {what}."
    return f"Not told apart from it {what}: {', '.join(_named(results, name) for name in names)}."


def _cheapest(results: Results, names: list[str], cost: str) -> str:
    return min(names, key=lambda name: float(np.median(results.costs[name][cost])))


def _named(results: Results, name: str) -> str:
    return results.titles[name]


def _number(results: Results, name: str, measure: str) -> str:
    e = results.estimate(results.labels[name], measure)
    return with_interval(e.value, e.interval)
