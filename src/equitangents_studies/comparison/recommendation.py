"""What to use: the cheapest contender that is shown to lose no more than is tolerated (non-inferiority).

With d the score of a contender minus that of the best, paired, mean over inputs, one number for each repetition, and m
the tolerated loss: the contender is good enough where the whole interval of d's mean over repetitions lies above −m.
Fewer repetitions widen intervals, so that fewer contenders are shown to be good enough, and the choice gets dearer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equitangents.report import Table, with_interval
from equitangents.statistics import Estimate, binomial_ends, bootstrap, no_interval, shared_level, t_interval
from equitangents_studies.comparison.results import Results
from equitangents_studies.comparison.settings import Settings
from equitangents_studies.framework.records import table

ACCURACY, AGREEMENT = "rotated", "outside"


def recommendation(settings: Settings, results: Results) -> list[str]:
    """The most accurate and the most invariant, those shown to lose little to them, and the cheapest of those."""
    named = lambda name: results.titles[name]
    number = lambda name, measure: _cell(results.estimate(results.labels[name], measure))
    if len(results.labels) == 1:
        (only,) = results.labels
        return [
            f"There is one contender, {named(only)}: accuracy over all orientations {number(only, ACCURACY)}, orbit "
            f"same predictions on foreign images {number(only, AGREEMENT)} of {results.order}. Add others beside it."
        ]
    accurate, steady = (_best(results, measure) for measure in (ACCURACY, AGREEMENT))
    enough = {measure: good_enough(settings, results, measure) for measure in (ACCURACY, AGREEMENT)}
    share = f"{100 * settings.tolerated:g} %"
    said = []
    for measure, best, what, of in (
        (ACCURACY, accurate, "accurate over all orientations", "images"),
        (AGREEMENT, steady, "invariant on foreign images", "orientations"),
    ):
        others = [named(name) for name in enough[measure] if name != best]
        said.append(
            f"Most {what}: {named(best)}, {number(best, measure)}. Shown to lose at most {share} of the {of} to it: "
            f"{', '.join(others) if others else 'no other contender'}."
        )
    both = [name for name in enough[ACCURACY] if name in enough[AGREEMENT]]
    if both:
        chosen = _cheapest(results, both)
        said.append(
            f"Recommended: {named(chosen)}, the cheapest to train that is shown to lose at most {share} in both."
            + _what_it_costs(results, accurate, chosen)
        )
    else:
        first, second = (_cheapest(results, enough[measure]) for measure in (ACCURACY, AGREEMENT))
        said.append(
            f"No contender is shown to lose at most {share} in both: take {named(first)} where accuracy counts, "
            f"{named(second)} where all orientations must give one class."
        )
    repetitions = "repetition" if settings.repetitions == 1 else "repetitions"
    said.append(
        "Differences from the best are paired over inputs, their intervals are over "
        f"{settings.repetitions} {repetitions} and hold for all contenders of a measure together. A contender that is "
        "not named may be as good: these data do not show it. The tolerated loss is the setting `tolerated`."
    )
    return said


def good_enough(settings: Settings, results: Results, measure: str) -> list[str]:
    """The best contender, and those shown to lose at most the tolerated share of the score's range to it."""
    margin = settings.tolerated * _range(results, measure)
    best = _best(results, measure)
    return [name for name in results.labels if name == best or lag(results, measure, name).low > -margin]


def lag(results: Results, measure: str, name: str) -> Estimate:
    """The contender's score minus the best one's, with Student's interval over repetitions: none for a single one.

    All intervals of a measure hold together. Where no input has any difference, the ends are those of so many inputs
    without one; where all repetitions have the same, the interval is over inputs.
    """
    best = results.labels[_best(results, measure)]
    differences = results.score(results.labels[name], measure) - results.score(best, measure)  # (R, N)
    level, most = shared_level(len(results.labels) - 1), _range(results, measure)
    if not differences.any():
        _, end = binomial_ends(0.0, differences.shape[1], level, (0.0, most))
        return Estimate(0.0, -end, end, level)
    if len(differences) < 2:
        return no_interval(float(differences.mean()), level)
    found = t_interval(differences.mean(axis=1), level, (-most, most))
    return found if found.has_interval else bootstrap(differences.mean(axis=0), confidence=level, bounds=(-most, most))


def lag_table(settings: Settings, results: Results) -> Table:
    """Of every contender what it costs to train and how far it lies behind the best, from the cheapest up."""
    order = sorted(results.labels, key=lambda name: _cost(results, name))
    enough = {measure: good_enough(settings, results, measure) for measure in (ACCURACY, AGREEMENT)}
    rows = [
        [
            results.titles[name],
            f"{_cost(results, name):.3g}",
            *("best" if name == _best(results, m) else _cell(lag(results, m, name)) for m in enough),
            " and ".join(what for m, what in ((ACCURACY, "accuracy"), (AGREEMENT, "OSP")) if name in enough[m]) or "–",
        ]
        for name in order
    ]
    return table(
        "Differences from the best contender, from the cheapest to train up; in brackets intervals over "
        f"{settings.repetitions} repetitions that hold together at 95 %. Little is at most "
        f"{100 * settings.tolerated:g} % of the images, or of the orientations.",
        ["", "training, s", "accuracy, all orientations", "OSP, foreign images", "shown to lose little in"],
        rows,
    )


def _what_it_costs(results: Results, best: str, chosen: str) -> str:
    """How far the choice lies behind the most accurate, and how much longer it takes to answer."""
    if best == chosen:
        return ""
    behind = lag(results, ACCURACY, chosen)
    first, second = (float(np.median(results.costs[name]["inference_seconds"])) for name in (chosen, best))
    times = f"{first / second:.2g} times as long" if second > 0 else "too short a time to compare"
    return (
        f" Its accuracy differs from that of {results.titles[best]} by {_cell(behind)}. One prediction takes {times}."
    )


def _best(results: Results, measure: str) -> str:
    """The one of the highest score; of several the cheapest."""
    key = lambda name: (results.score(results.labels[name], measure).mean(), -_cost(results, name))
    return max(results.labels, key=key)


def _cheapest(results: Results, names: Sequence[str]) -> str:
    return min(names, key=lambda name: _cost(results, name))


def _cost(results: Results, name: str) -> float:
    """Seconds of processors that one training took: the median, since the first also compiles."""
    return float(np.median(results.costs[name]["training_seconds"]))


def _range(results: Results, measure: str) -> float:
    """All images, or all orientations."""
    return results.bounds(measure)[1]


def _cell(estimate: Estimate) -> str:
    return with_interval(estimate.value, estimate.interval)
