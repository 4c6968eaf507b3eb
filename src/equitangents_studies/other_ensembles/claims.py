"""Which ensembles are invariant in closed form and in expectation, and what growing one of them does."""

from __future__ import annotations

from collections.abc import Sequence

from equitangents.statistics import bootstrap, exactly, shared_level
from equitangents_studies.framework.claims import EXACT, Claim, Records, claim
from equitangents_studies.other_ensembles.results import DRAWS, Results, exponent, share
from equitangents_studies.other_ensembles.settings import CLOSED, INDEPENDENT, ONE_RUN, TITLES, Settings

OPEN = "open question of arXiv 2403.03103"


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Closed forms, expectations, and what growing an ensemble does."""
    closed = Records.over(
        lambda kind, of: exactly(results.closed[kind][("mean", "covariance").index(of)]),
        lambda kind, of: f"{CLOSED[kind]}, {of}",
        kind=("posterior", "random-prior", "bagged"),
        of=("mean", "covariance"),
    )
    title = lambda kind: TITLES[kind]
    all_kinds, several = shared_level(len(INDEPENDENT) + len(ONE_RUN)), shared_level(len(INDEPENDENT))
    shares = Records.over(lambda kind: share(results, kind, all_kinds), title, kind=(*INDEPENDENT, *ONE_RUN))
    exponents = Records.over(lambda kind: exponent(settings, results, kind, several), title, kind=tuple(INDEPENDENT))
    broken = bootstrap(100 * results.broken)
    return [
        claim(
            "Bayesian posteriors, random priors and bagging of inputs are invariant at infinite width",
            closed,
            measure="Largest change over orbits of the mean, and of Σ(gx, gx′), relative to the largest entry. Bagging "
            f"of inputs: over the {settings.resamples} resamples drawn, each with all its copies.",
            covers=EXACT,
            at_most=1e-8,
            source=OPEN,
            holds="Choose among Bayesian posteriors, random priors and bagging of inputs by their error bars: in "
            "closed form none of them costs invariance.",
            fails="Some closed form that should be invariant is not: check it before relying on its symmetry.",
        ),
        claim(
            "Bagging of augmented copies is not invariant over finitely many resamples, not even at infinite width",
            {"": broken},
            measure=f"Largest relative change over orbits of the closed-form mean over {settings.resamples} resamples, "
            f"mean over {DRAWS} independent sets of them.",
            covers="sets of resamples",
            at_least=0.1,
            unit="%",
            source="expected; the bound is our choice",
            holds="To bag and stay invariant, resample inputs and keep all copies of each: resampled copies change "
            f"the mean by {broken.value:.2g} % over an orbit.",
            fails=f"Resampled copies change the mean by {broken.value:.2g} % only: they may be good enough.",
            undecided="Whether resampled copies change the mean by 0.1 % or more is not decided; resampled inputs "
            "with all their copies are the safer choice.",
        ),
        claim(
            "The expectation over all that is random is invariant for every kind of ensemble, to within 4 % of one "
            "member’s or run’s mean square change",
            shares.times(100),
            measure="Share of the mean square change of one member (or run) that averaging over ever more independent "
            "ones would leave (unbiased, so it may come out negative).",
            covers="members or runs",
            at_most=4,
            unit="%",
            source=OPEN + "; the bound is our choice",
            holds="Every kind of ensemble tried becomes invariant, to within 4 % at least, by averaging "
            "independent members or runs.",
            fails="Some kind of ensemble does not become invariant however many independent members or runs are "
            "averaged: see its share left in expectation below.",
            undecided="Whether every kind becomes invariant by averaging independent members or runs is not "
            "decided to within 4 %: train more of them to tell.",
        ),
        claim(
            "The change of an ensemble falls about as one over the square root of the number of independent members",
            exponents,
            measure="Exponent of the root mean square change of M members against M.",
            covers="batches of members",
            at_least=-0.6,
            at_most=-0.4,
            source="expected of independent members; the bounds are our choice",
            stated="−1/2",
            holds="Four times as many independent members about halve the change under rotations, whatever kind "
            "of ensemble they form.",
            fails="Not every ensemble of independent members gains as the square root of their number: measure the "
            "kind that is to be used.",
            undecided="How fast every kind of independent members gains is not measured well enough to plan their "
            "number: train more.",
        ),
        _one_run(settings, results, "snapshots", "snapshots"),
        _one_run(settings, results, "boosted", "boosting stages"),
    ]


def _one_run(settings: Settings, results: Results, kind: str, parts: str) -> Claim:
    """Whether growing an ensemble within one run leaves its violation where it is."""
    found = exponent(settings, results, kind)
    power = f"{found.value:.3f}".replace("-", "−")
    return claim(
        f"More {parts} of one run do not bring invariance: the change falls more slowly than their number to the power "
        "−0.2",
        {"": found},
        measure=f"Exponent of the root mean square change against the number of {parts} of one run.",
        covers="runs",
        at_least=-0.2,
        source=OPEN + "; the bound is our choice",
        holds=f"For invariance, average independent runs: with more {parts} of one, the change goes as their "
        f"number to the power {power}.",
        fails=f"More {parts} of one run do reduce the change, as their number to the power {power}: they can stand in "
        "for some independent runs.",
        undecided=f"Whether more {parts} of one run help is not decided; independent runs are the safer choice.",
    )
