"""What the source states of baselines, and what decides between them.

What to use: the cheapest baseline that is shown to lose no more than is tolerated (non-inferiority).

With d the score of a baseline minus that of the best, paired, mean over inputs, one number for each repetition, and m
the tolerated loss: the baseline is good enough where the whole interval of d's mean over repetitions lies above −m.
Fewer repetitions widen intervals, so that fewer baselines are shown to be good enough, and the choice gets dearer.
"""

from __future__ import annotations

from collections.abc import Sequence

from equitangents.report import Table
from equitangents.statistics import Estimate, binomial_ends, bootstrap, exactly, no_interval, shared_level, t_interval
from equitangents_studies.comparison.settings import Results, Settings, covers, repeated
from equitangents_studies.framework.claims import EXACT, Claim, agreement, claim, in_words, ours, theirs
from equitangents_studies.framework.records import Records, table
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE as THEIRS

ACCURACY, AGREEMENT = "rotated", "outside"


def good_enough(settings: Settings, results: Results, measure: str) -> list[str]:
    """The best baseline, and those shown to lose at most the tolerated share of the score's range to it."""
    margin = settings.tolerated * _range(results, measure)
    best = _best(results, measure)
    return [name for name in results.labels if name == best or lag(results, measure, name).low > -margin]


def lag(results: Results, measure: str, name: str) -> Estimate:
    """The baseline's score minus the best one's, with Student's interval over repetitions: none for a single one.

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
    """What every baseline costs to train and how far it lies behind the best, from the cheapest up."""
    order = sorted(results.labels, key=lambda name: results.cost(name))
    enough = {measure: good_enough(settings, results, measure) for measure in (ACCURACY, AGREEMENT)}
    rows = [
        [
            results.titles[name],
            f"{results.cost(name):.3g}",
            *("best" if name == _best(results, m) else in_words(lag(results, m, name)) for m in enough),
            " and ".join(what for m, what in ((ACCURACY, "accuracy"), (AGREEMENT, "OSP")) if name in enough[m]) or "–",
        ]
        for name in order
    ]
    return table(
        "Differences from the best baseline, from the cheapest to train up; in brackets intervals over "
        f"{settings.repetitions} repetitions that hold together at 95 %. Little is at most "
        f"{100 * settings.tolerated:g} % of the images, or of the orientations.",
        ["", "training, s", "accuracy, all orientations", "OSP, foreign images", "shown to lose little in"],
        rows,
    )


def _best(results: Results, measure: str) -> str:
    """The one of the highest score; of several the cheapest."""
    key = lambda name: (results.score(results.labels[name], measure).mean(), -results.cost(name))
    return max(results.labels, key=key)


def _range(results: Results, measure: str) -> float:
    """All images, or all orientations."""
    return results.bounds(measure)[1]


STATED: dict[str, dict[str, tuple[float, float]]] = {  # orbit same predictions out of distribution, and their errors
    "ensemble": {"C4": (3.85, 0.12), "C8": (7.72, 0.34), "C16": (15.24, 0.69)},
    "augmented": {"C4": (3.41, 0.18), "C8": (6.73, 0.24), "C16": (12.77, 0.71)},
    "gcnn": {"C4": (4.0, 0.0), "C8": (7.71, 0.21), "C16": (15.08, 0.34)},
    "canonicalisation": {"C4": (4.0, 0.0), "C8": (7.45, 0.14), "C16": (12.41, 0.85)},
}
PLACE = "comparison table of the slides"
UPRIGHT = ("gcnn", "canonicalisation")  # which here see images as they are
_BY_CONSTRUCTION = (
    "gcnn", "gcnn-augmented", "gcnn-ensemble", "canonicalisation", "canonicalisation-augmented", "test-time",
)  # fmt: skip


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """What the source states, and what decides between baselines."""
    judged: list[Claim] = []
    present, over = results.labels, covers(settings)
    osp = f"Orbit same predictions on {', '.join(results.images.titles[name] for name in results.foreign)}"
    if {"ensemble", "augmented"} <= present.keys():
        whole = results.difference(present["ensemble"], present["augmented"], "outside", 0.95)
        of = lambda name: results.ahead(present["ensemble"], present["augmented"], name)
        judged.append(
            claim(
                "Out of distribution the augmented ensemble agrees with itself more often than one augmented network",
                Records.over(of, lambda name: results.images.titles[name], name=results.foreign),
                measure=f"{osp}: ensemble of {settings.members} minus one network, out of {results.order}.",
                covers=(over, repeated(settings)),
                at_least=0,
                aggregate=("all of these inputs", whole),
                by=theirs(THEIRS, PLACE, _stated_pair(settings.group)),
            )
        )
    exact = [name for name in _BY_CONSTRUCTION if name in present]
    if exact and results.problem.action.exact:
        least = lambda name: exactly(results.least(present[name]))
        judged.append(
            claim(
                "Baselines with built-in invariance give every orientation of every image the same class",
                Records.over(least, lambda name: results.titles[name], name=tuple(exact)),
                measure=f"Orbit same predictions on the worst input of all sets and repetitions, of {results.order}.",
                covers=EXACT,
                at_least=results.order,
                by=theirs(THEIRS, PLACE, "4 ± 0 for C4"),
            )
        )
    others = [name for name in present if name != "plain"]
    if "plain" in present and others:
        level = shared_level(len(others))
        judged.append(
            claim(
                "Every baseline that knows of the group is more accurate on rotated images than the plain network",
                Records.over(
                    lambda name: results.difference(present[name], present["plain"], "rotated", level),
                    lambda name: results.titles[name],
                    name=tuple(others),
                ),
                measure="Accuracy over the orbits of the test images, minus the plain network’s.",
                covers=over,
                at_least=0,
                by=ours("ours: the plain network is the floor"),
            )
        )
    if results.curves and "gcnn" in present:
        judged.append(_small_against_one(results, over))
    if settings.data == "fashion_mnist":
        judged += [
            _as_stated(settings, results, name, over)
            for name in STATED
            if stand_in(results, name) in present and stated(name, settings.group)
        ]
    if not judged:
        worst = lambda name: results.estimate(present[name], "outside", shared_level(len(present)))
        judged.append(
            claim(
                "Every baseline gives at least half of the orientations of foreign images the same class",
                Records.over(worst, lambda name: results.titles[name], name=tuple(present)),
                measure=f"{osp}, out of {results.order}.",
                covers=over,
                at_least=results.order / 2,
                by=ours("ours"),
            )
        )
    return judged


def _small_against_one(results: Results, over: str) -> Claim:
    level = shared_level(len(results.curves))

    def ahead(shrink: int) -> Estimate:
        largest = {name: labels[-1] for name, labels in results.curves[shrink].labels.items()}
        return results.difference(largest, results.labels["gcnn"], "rotated", level)

    def words(shrink: int) -> str:
        curve = results.curves[shrink]
        return f"{curve.sizes[-1]} networks of {' and '.join(map(str, curve.channels))} channels"

    return claim(
        "At no more than the cost of one group-convolutional network, ensembles of small augmented networks are at "
        "least as accurate on rotated images",
        Records.over(ahead, words, shrink=tuple(results.curves)),
        measure="Accuracy over the orbits of the test images: ensemble minus the group-convolutional network, at no "
        "more multiplications.",
        covers=over,
        at_least=0,
        by=ours("ours: the question of cost"),
    )


def stated(name: str, group: str) -> tuple[float, float] | None:
    """The source's number of a baseline, or of the one that it stands in for, and its error, where there is one."""
    return STATED.get(name.removesuffix("-augmented"), {}).get(group)


def stated_text(name: str, group: str) -> str:
    """The source's number, or nothing."""
    value = STATED.get(name, {}).get(group)
    return "" if value is None else f"{value[0]:g} ± {value[1]:g}"


def _stated_pair(group: str) -> str:
    texts = [stated_text(name, group) for name in ("ensemble", "augmented")]
    return f"{texts[0]} against {texts[1]} (rotated Fashion-MNIST)" if all(texts) else ""


def stand_in(results: Results, name: str) -> str:
    """Who is compared with the source's `name`: the one trained on turned images, as the source's are, where there is
    one.
    """
    return f"{name}-augmented" if f"{name}-augmented" in results.labels else name


def _as_stated(settings: Settings, results: Results, name: str, over: str) -> Claim:
    """The number of one baseline beside the source's: of the one trained on turned images, if there is such a one."""
    value, error = STATED[name][settings.group]
    chosen = stand_in(results, name)
    number, title = results.estimate(results.labels[chosen], "outside"), results.titles[chosen]
    if error == 0:  # stated to be exact: the mean is at its bound if every input is
        number, over = exactly(number.value), EXACT
    upright = " It was trained on images as they are, the source’s on turned ones." * (chosen in UPRIGHT)
    by_set = {results.images.titles[s]: results.on(results.labels[chosen], s) for s in results.foreign}
    return agreement(
        f"Orbit same predictions out of distribution: {title}",
        number,
        stated_value=value,
        stated_spread=error,
        numbers=by_set,
        measure=f"{title}, out of {results.order}, mean over {', '.join(by_set)}.{upright}",
        covers=(over, repeated(settings)),
        by=theirs(THEIRS, PLACE),
    )
