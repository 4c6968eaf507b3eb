"""Closed form first, then ensembles, then what lies between the group's rotations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from equitangents.statistics import Estimate, exactly, shared_level, t_interval
from equitangents_studies.common.scores import largest
from equitangents_studies.cross_product import study
from equitangents_studies.cross_product.study import (
    FUNCTIONS,
    SETS,
    TITLES,
    Results,
    Settings,
    covariance_share,
    gain,
    mean_share,
    member_violations,
)
from equitangents_studies.framework.claims import Claim, Records, after, claim, exact, ours, theirs, to_rounding
from equitangents_studies.framework.study import Study
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE as THEIRS

_BOUND_OURS = f"{THEIRS}; the bound is our choice"
_THEOREM = "theorem of emergent equivariance"
_EXPERIMENT = "experiments, cross product"


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Closed form first, then ensembles, then what lies between the group's rotations, then controls."""
    return [
        *_closed_form(settings, results),
        *_trained(settings, results),
        _bound(settings, results),
        *_ours(settings, results),
    ]


def _words(name: str, step: int, pairs: str) -> str:
    return f"{TITLES[name]}, {after(step)}, {pairs} pairs"


def _exact(results: Results, table: dict[str, np.ndarray], names: Sequence[str], first: int = 0) -> Records:
    """Closed-form violations by group, step (from `first` on) and set."""
    steps = tuple(map(int, results.times))
    of = lambda name, step, pairs: exactly(table[name][steps.index(step), SETS.index(pairs)])
    return Records.over(of, _words, name=names, step=[t for t in steps if t >= first], pairs=SETS)


def _functions(settings: Settings, table: dict[str, np.ndarray]) -> Records:
    """How far each function of the kernels is from commuting, by group."""
    of = lambda function, name: exactly(table[name][FUNCTIONS.index(function)])
    words = lambda function, name: f"{function}, {TITLES[name]}"
    return Records.over(of, words, function=FUNCTIONS, name=settings.groups)


def _closed_form(settings: Settings, results: Results) -> list[Claim]:
    return [
        to_rounding(
            "At infinite width the mean is equivariant, at every time, on and off the data",
            _exact(results, results.mean_error, settings.groups),
            measure="Largest change of ρ(g)⁻¹μ(gx) over the group, relative to the largest prediction.",
            by=theirs(THEIRS, _THEOREM, "exactly equivariant"),
            holds="Augmented with a whole group, the infinitely wide ensemble needs no equivariant architecture.",
            fails="Do not rely on augmentation for equivariance: even the closed form does not turn with its inputs.",
        ),
        to_rounding(
            "At infinite width the covariance Σ_t is equivariant, at every time, on and off the data",
            _exact(results, results.covariance_error, settings.groups),
            measure="Largest change of Σ(gx, gx′) over the group, relative to the largest entry; outputs are "
            "independent and alike, so that Σ is a multiple of the unit matrix between them.",
            by=theirs(THEIRS, "review: the distribution is equivariant, by μ_t and Σ_t", "exactly equivariant"),
            holds="Error bars of the infinitely wide ensemble are the same for all orientations in the group.",
            fails="Do not compare error bars of the closed form between orientations of an input.",
        ),
        to_rounding(
            "The group’s permutations of the training set commute with functions of the kernels",
            _functions(settings, results.shift),
            measure="Largest entry of Π(g)FΠ(g)ᵀ − F over the group, relative to F’s, for F of Θ, K and their inverses "
            "on the augmented pairs, after the last step; Π(g) is the permutation that turning them by g makes.",
            by=theirs(THEIRS, "lemma on the permutation shift", "Π(g)F = FΠ(g)"),
            holds="Turning an input is the same as permuting the training set: the reason why mean and covariance are "
            "equivariant at every time, in numbers.",
            fails="The proof’s central step is not met by these kernels: are the augmented pairs whole orbits?",
        ),
    ]


def _trained(settings: Settings, results: Results) -> list[Claim]:
    steps, names = tuple(map(int, results.times)), settings.trained_groups
    cells = [(name, pairs, time) for name in names for pairs in SETS for time in range(len(steps))]
    level = shared_level(len(cells))

    def each(number: Callable[..., Estimate]) -> Records:
        of = lambda name, step, pairs: number(results, name, pairs, steps.index(step))
        return Records.over(of, _words, name=names, step=steps, pairs=SETS)

    single = t_interval(np.mean([member_violations(results, *cell) for cell in cells], axis=0))
    share = "averaging over ever more members would leave (unbiased, so it may come out negative)."
    return [
        claim(
            "Single members are not equivariant: they violate it by more than 1 % of their outputs",
            each(lambda *cell: t_interval(member_violations(*cell))),
            aggregate=("the mean over groups, steps and pairs", single),
            measure="Root mean square violation of a member, relative to its outputs; mean over members.",
            covers=("members", settings.members),
            at_least=0.01,
            by=theirs(_BOUND_OURS, _EXPERIMENT),
            holds="Do not use one network alone where orientation must not matter: its violation is "
            f"{100 * single.value:.0f} % of its outputs.",
            fails="Single networks are equivariant to within 1 %: one may be enough where that is small enough.",
            undecided="Whether single networks are off by 1 % is not decided: measure the one to be used.",
        ),
        claim(
            "The mean of ever more members is equivariant, at initialisation and at every later step, to within 3 % of "
            "one member’s violation",
            each(lambda of, name, pairs, time: mean_share(of, name, pairs, time, level).times(100)),
            measure="Share of the members’ mean square violation that " + share,
            covers=("members", settings.members),
            at_most=3,
            unit="%",
            by=theirs(_BOUND_OURS, f"{_EXPERIMENT}; {_THEOREM}", "0 %"),
            holds="More members bring the mean closer to equivariance: M of them leave about 1/M of one member’s mean "
            "square violation, down to 3 % at least.",
            fails="Members alone do not bring equivariance: take wider networks or an equivariant architecture.",
            undecided="Whether more members leave less than 3 % is not decided: train more to tell.",
        ),
        claim(
            "The covariance of ever more members is equivariant, at initialisation and at every later step, to within "
            "3 % of one member’s violation",
            each(lambda of, name, pairs, time: covariance_share(of, name, pairs, time, level).times(100)),
            measure="For products of outputs f(gx) f(gx′)ᵀ, whose mean is the second moment: share of their mean "
            "square violation that " + share,
            covers=("members", settings.members),
            at_most=3,
            unit="%",
            by=theirs(_BOUND_OURS, "review: the distribution is equivariant", "0 %"),
            holds="The spread of many members can serve as an error bar in every orientation of the group.",
            fails="Do not compare the spread of members between orientations.",
            undecided="Whether the spread of members is the same in every orientation is not decided to within "
            "3 %: train more to tell.",
        ),
    ]


def _bound(settings: Settings, results: Results) -> Claim:
    late = [i for i, step in enumerate(results.times) if step > 0]
    level = shared_level(len(settings.groups) * len(late))
    bounded = Records.over(
        lambda name, time: largest(results.worst[name][time] / results.bound[name][time], level),
        lambda name, time: f"{TITLES[name]}, {after(int(results.times[time]))}",
        name=settings.groups,
        time=late,
    )
    seen = f"{100 * bounded.values.max():.3g} % of it"
    return claim(
        "Under any rotation the violation is at most κ (C(x) + |μ(x)|)",
        bounded,
        measure=f"Violation of the closed-form mean under the worst of {settings.rotations} random rotations over "
        f"the bound, for the worst of {settings.test_pairs} test pairs. κ follows from the group; the largest "
        f"gradient in C(x) is computed at {settings.points} places on the way to each rotation. The interval "
        "reaches from the largest that was seen to where that of a further pair may lie.",
        covers="test pairs",
        at_most=1,
        by=theirs(THEIRS, "Lemma 6.2, with labels that turn along"),
        holds=f"The bound is safe to choose a group by: the largest violation seen is {seen}.",
        fails=f"Do not rely on the bound: some violation is {seen}; search gradients at more places.",
        undecided=f"Whether further pairs keep to the bound is not decided: the largest seen is {seen}.",
    )


def _ours(settings: Settings, results: Results) -> list[Claim]:
    ladder = [("none", settings.groups[0]), *zip(settings.groups, settings.groups[1:], strict=False)]
    gains = {
        f"{TITLES[finer]} over {TITLES[coarser]}": gain(results, finer, coarser, shared_level(len(ladder)))
        for coarser, finer in ladder
    }
    less = "the ratio of violations is " + ", ".join(f"{e.value:.3g} ({name})" for name, e in gains.items())
    unaugmented = _exact(results, results.covariance_error, ("none",), first=1)
    off = f"{unaugmented.times(100).span('.3g')} %"
    return [
        claim(
            "With every larger group the mean comes closer to equivariance under all rotations",
            gains,
            measure="Root mean square violation of the infinitely wide ensemble under random rotations of test pairs "
            "after the last step, divided by that of the next smaller group.",
            covers=("test pairs", settings.test_pairs),
            at_most=1,
            by=ours("expected: the group’s own rotations come closer to any rotation the more there are"),
            holds=f"Where all rotations matter, augment with the largest group you can afford: {less}.",
            fails=f"A larger group does not always bring the mean closer to all rotations: {less}.",
            undecided=f"Whether every larger group helps is not decided: {less}.",
        ),
        exact(
            "Without augmentation Σ_t is not equivariant",
            unaugmented,
            measure="Largest change of Σ(gx, gx′) over the tetrahedral group, relative to the largest entry, of the "
            "ensemble that saw every pair in one orientation.",
            at_least=1e-3,
            by=ours("our control"),
            holds="The equivariance of Σ_t comes from the augmentation: without it, it is off by "
            f"{off} by step and set.",
            fails=f"Σ_t is equivariant without augmentation too ({off}): this task does not test it.",
        ),
        exact(
            "A permutation that no rotation makes does not commute with the kernels",
            _functions(settings, results.shuffled),
            measure="The same number as of the permutation shift, for one random permutation of the augmented pairs.",
            at_least=1e-3,
            by=ours("our control"),
            holds="The permutation shift says something of the group: another permutation changes the same matrices.",
            fails="A random permutation commutes as well: the kernels do not tell the pairs apart.",
        ),
    ]


STUDY: Study[Settings, Results] = Study(study.PRESETS, study.measure, claims, (THEIRS,), study.check_settings)
