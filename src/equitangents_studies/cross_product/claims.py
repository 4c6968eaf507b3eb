"""Closed form first, then ensembles, then what lies between the group's rotations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from equitangents.statistics import Estimate, exactly, shared_level
from equitangents_studies.common.worst import largest
from equitangents_studies.cross_product.results import Results, covariance_share, gain, mean_share, member_violation
from equitangents_studies.cross_product.settings import SETS, TITLES, Settings
from equitangents_studies.framework.claims import EXACT, Claim, Records, after, claim

STATED = "stated in arXiv 2403.03103"


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Closed form first, then ensembles, then what lies between the group's rotations."""
    steps = tuple(map(int, results.times))
    words = lambda name, step, pairs: f"{TITLES[name]}, {after(step)}, {pairs} pairs"
    level = shared_level(len(settings.trained_groups) * len(steps) * len(SETS))

    def infinite(table: dict[str, np.ndarray]) -> Records:
        of = lambda name, step, pairs: exactly(table[name][steps.index(step), SETS.index(pairs)])
        return Records.over(of, words, name=settings.groups, step=steps, pairs=SETS)

    def trained(number: Callable[..., Estimate], factor: float = 1.0) -> Records:
        of = lambda name, step, pairs: number(results, name, pairs, steps.index(step), level).times(factor)
        return Records.over(of, words, name=settings.trained_groups, step=steps, pairs=SETS)

    def share_of_bound(name: str, step: int) -> Estimate:
        at = steps.index(step)
        return largest(
            results.worst[name][at] / results.bound[name][at], shared_level(len(settings.groups) * len(late))
        )

    late = [t for t in steps if t > 0]
    bounded = Records.over(
        share_of_bound, lambda name, step: f"{TITLES[name]}, {after(step)}", name=settings.groups, step=late
    )
    ladder = [("none", settings.groups[0]), *zip(settings.groups, settings.groups[1:], strict=False)]
    gains = {
        f"{TITLES[finer]} over {TITLES[coarser]}": gain(results, finer, coarser, shared_level(len(ladder)))
        for coarser, finer in ladder
    }
    less = "the ratio of violations is " + ", ".join(f"{e.value:.3g} ({name})" for name, e in gains.items())
    single = trained(member_violation)
    share = "averaging over ever more members would leave (unbiased, so it may come out negative)."
    seen = f"{100 * bounded.values.max():.3g} % of it"
    return [
        claim(
            "At infinite width the mean is equivariant, at every time, on and off the data",
            infinite(results.mean_error),
            measure="Largest change of ρ(g)⁻¹μ(gx) over the group, relative to the largest prediction.",
            covers=EXACT,
            at_most=1e-8,
            source=STATED,
            stated="exactly equivariant",
            holds="Augmented with a whole group, the infinitely wide ensemble needs no equivariant architecture.",
            fails="Do not rely on augmentation for equivariance: even the closed form does not turn with its inputs.",
        ),
        claim(
            "At infinite width the covariance is equivariant, at every time, on and off the data",
            infinite(results.covariance_error),
            measure="Largest change of Σ(gx, gx′) over the group, relative to the largest entry; outputs are "
            "independent and alike, so that Σ is a multiple of the unit matrix between them.",
            covers=EXACT,
            at_most=1e-8,
            source=STATED,
            stated="exactly equivariant",
            holds="Error bars of the infinitely wide ensemble are the same for all orientations in the group.",
            fails="Do not compare error bars of the closed form between orientations of an input.",
        ),
        claim(
            "Single members are not equivariant: each violates it by at least 1 % of its outputs",
            single,
            measure="Root mean square violation of the most nearly equivariant member, relative to its outputs.",
            covers="pairs",
            at_least=0.01,
            source=STATED + "; the bound is our choice",
            holds="Do not use one network alone where orientation must not matter: the smallest violation of any "
            f"member at any step is {100 * single.values.min():.3g} % of its outputs.",
            fails="Some single network is equivariant to within 1 %: one may be enough where that is small enough.",
            undecided="Whether every single network is off by 1 % is not decided: measure the one to be used.",
        ),
        claim(
            "The mean of ever more members is equivariant, at initialisation and at every later step, to within 3 % of "
            "one member’s violation",
            trained(mean_share, 100),
            measure="Share of the members’ mean square violation that " + share,
            covers="members",
            at_most=3,
            unit="%",
            source=STATED + "; the bound is our choice",
            stated="0 %",
            holds="More members bring the mean closer to equivariance: M of them leave about 1/M of one member’s mean "
            "square violation, down to 3 % at least.",
            fails="Members alone do not bring equivariance: take wider networks or an equivariant architecture.",
            undecided="Whether more members leave less than 3 % is not decided: train more to tell.",
        ),
        claim(
            "The covariance of ever more members is equivariant, at initialisation and at every later step, to within "
            "3 % of one member’s violation",
            trained(covariance_share, 100),
            measure="For products of outputs f(gx) f(gx′)ᵀ, whose mean is the second moment: share of their mean "
            "square violation that " + share,
            covers="members",
            at_most=3,
            unit="%",
            source=STATED + " in review; the bound is our choice",
            stated="0 %",
            holds="The spread of many members can serve as an error bar in every orientation of the group.",
            fails="Do not compare the spread of members between orientations.",
            undecided="Whether the spread of members is the same in every orientation is not decided to within "
            "3 %: train more to tell.",
        ),
        claim(
            "With every larger group the mean comes closer to equivariance under all rotations",
            gains,
            measure="Root mean square violation of the infinitely wide ensemble under random rotations of test pairs "
            "after the last step, divided by that of the next smaller group.",
            covers="test pairs",
            at_most=1,
            source="expected; the group’s own rotations come closer to any rotation the more there are",
            holds=f"Where all rotations matter, augment with the largest group you can afford: {less}.",
            fails=f"A larger group does not always bring the mean closer to all rotations: {less}.",
            undecided=f"Whether every larger group helps is not decided: {less}.",
        ),
        claim(
            "Under any rotation the violation is at most κ (C(x) + |μ(x)|)",
            bounded,
            measure=f"Violation of the closed-form mean under the worst of {settings.rotations} random rotations over "
            f"the bound, for the worst of {settings.test_pairs} test pairs. κ follows from the group; the largest "
            f"gradient in C(x) is computed at {settings.points} places on the way to each rotation. The interval "
            "reaches from the largest that was seen to where that of a further pair may lie.",
            covers="test pairs",
            at_most=1,
            source=STATED + ", Lemma 6.2, with labels that turn along",
            holds=f"The bound is safe to choose a group by: the largest violation seen is {seen}.",
            fails=f"Do not rely on the bound: some violation is {seen}; search gradients at more places.",
            undecided=f"Whether further pairs keep to the bound is not decided: the largest seen is {seen}.",
        ),
    ]
