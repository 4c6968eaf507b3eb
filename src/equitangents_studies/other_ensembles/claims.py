"""The source's claim of plain averages, and its open question: which other ensembles come close to invariance."""

from __future__ import annotations

from collections.abc import Sequence

from equitangents.statistics import bootstrap, exactly, shared_level
from equitangents_studies.framework.claims import EXACT, Claim, Records, claim, ours, theirs
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE as THEIRS
from equitangents_studies.other_ensembles.settings import (
    CLOSED,
    CONTROL,
    DRAWS,
    INDEPENDENT,
    ONE_RUN,
    TITLES,
    Results,
    Settings,
    exponent,
    share,
)

OPEN = f"open question of {THEIRS}"


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """What the source says of plain averages; then expectations, closed forms and growth of the other kinds."""
    return [
        _closed(results, settings),
        _copies(settings, results),
        _expectations(settings, results),
        _growth(settings, results),
        _one_run(settings, results, "snapshots", "snapshots"),
        _one_run(settings, results, "boosted", "boosting stages"),
        _plain(settings, results),
        _control(settings, results),
    ]


def _title(kind: str) -> str:
    return TITLES[kind]


def _closed(results: Results, settings: Settings) -> Claim:
    closed = Records.over(
        lambda kind, of: exactly(results.closed[kind][("mean", "covariance").index(of)]),
        lambda kind, of: f"{CLOSED[kind]}, {of}",
        kind=("posterior", "random-prior", "bagged"),
        of=("mean", "covariance"),
    )
    return claim(
        "Bayesian posteriors, random priors and bagging of inputs are invariant at infinite width",
        closed,
        measure="Largest change over orbits of the mean, and of Σ(gx, gx′), relative to the largest entry. Bagging "
        f"of inputs: over the {settings.resamples} resamples drawn, each with all its copies.",
        covers=EXACT,
        at_most=1e-8,
        by=ours(OPEN),
        holds="Choose among Bayesian posteriors, random priors and bagging of inputs by their error bars: in "
        "closed form none of them costs invariance.",
        fails="Some closed form that should be invariant is not: check it before relying on its symmetry.",
    )


def _copies(settings: Settings, results: Results) -> Claim:
    broken = bootstrap(100 * results.broken)
    return claim(
        "Bagging of augmented copies is not invariant over finitely many resamples, not even at infinite width",
        {"": broken},
        measure=f"Largest relative change over orbits of the closed-form mean over {settings.resamples} resamples, "
        f"mean over {DRAWS} independent sets of them.",
        covers=("sets of resamples", DRAWS),
        at_least=0.1,
        unit="%",
        by=ours("expected; the bound is our choice"),
        holds="To bag and stay invariant, resample inputs and keep all copies of each: resampled copies change "
        f"the mean by {broken.value:.2g} % over an orbit.",
        fails=f"Resampled copies change the mean by {broken.value:.2g} % only: they may be good enough.",
        undecided="Whether resampled copies change the mean by 0.1 % or more is not decided; resampled inputs "
        "with all their copies are the safer choice.",
    )


def _expectations(settings: Settings, results: Results) -> Claim:
    kinds = (*INDEPENDENT, *ONE_RUN)
    shares = Records.over(lambda kind: share(results, kind, shared_level(len(kinds))), _title, kind=kinds)
    return claim(
        "The expectation over all that is random is invariant for every kind of ensemble, to within 4 % of one "
        "member’s or run’s mean square change",
        shares.times(100),
        measure="Share of the mean square change of one member (or run) that averaging over ever more independent "
        "ones would leave (unbiased, so it may come out negative).",
        covers=("members or runs", settings.runs),
        at_most=4,
        unit="%",
        by=ours(OPEN + "; the bound is our choice"),
        holds="Every kind of ensemble tried becomes invariant, to within 4 % at least, by averaging "
        "independent members or runs.",
        fails="Some kind of ensemble does not become invariant however many independent members or runs are "
        "averaged: see its share left in expectation below.",
        undecided="Whether every kind becomes invariant by averaging independent members or runs is not "
        "decided to within 4 %: train more of them to tell.",
    )


def _growth(settings: Settings, results: Results) -> Claim:
    level = shared_level(len(INDEPENDENT))
    slopes = Records.over(lambda kind: exponent(settings, results, kind, level), _title, kind=tuple(INDEPENDENT))
    return claim(
        "The change of an ensemble falls about as one over the square root of the number of independent members",
        slopes,
        measure="Exponent of the root mean square change of M members against M.",
        covers=("batches of members", settings.members // max(settings.sizes)),
        at_least=-0.6,
        at_most=-0.4,
        by=ours("expected of independent members; the bounds are our choice", stated="−1/2 (theory)"),
        holds="Four times as many independent members about halve the change under rotations, whatever kind "
        f"of ensemble they form: the exponents are {slopes.span('.2f')}.",
        fails="Not every ensemble of independent members gains as the square root of their number: the exponents are "
        f"{slopes.span('.2f')}.",
        undecided="How fast every kind of independent members gains is not measured well enough to plan their "
        f"number (exponents {slopes.span('.2f')}): train more.",
    )


def _one_run(settings: Settings, results: Results, kind: str, parts: str) -> Claim:
    """Whether growing an ensemble within one run leaves its violation where it is."""
    found = exponent(settings, results, kind)
    power = f"{found.value:.3f}".replace("-", "−")
    return claim(
        f"More {parts} of one run do not bring invariance: the change falls more slowly than their number to the power "
        "−0.2",
        {"": found},
        measure=f"Exponent of the root mean square change against the number of {parts} of one run.",
        covers=("runs", settings.runs),
        at_least=-0.2,
        by=ours(OPEN + "; the bound is our choice"),
        holds=f"For invariance, average independent runs: with more {parts} of one, the change goes as their "
        f"number to the power {power}.",
        fails=f"More {parts} of one run do reduce the change, as their number to the power {power}: they can stand in "
        "for some independent runs.",
        undecided=f"Whether more {parts} of one run help is not decided; independent runs are the safer choice.",
    )


def _plain(settings: Settings, results: Results) -> Claim:
    left = share(results, "plain").times(100)
    return claim(
        "The mean of ever more plainly trained, augmented networks is invariant, to within 2 % of one’s mean square "
        "change",
        {TITLES["plain"]: left},
        measure="Share of the mean square change of one member that averaging over ever more of them would leave "
        "(unbiased, so it may come out negative).",
        covers=("members", settings.members),
        at_most=2,
        unit="%",
        by=theirs(f"{THEIRS}; the bound is our choice", "theorem of emergent equivariance", "0 %"),
        holds="Plain averages are what the other kinds are compared with: nothing of one network’s change is seen to "
        "survive.",
        fails="Plain averages do not become invariant here: compare the other kinds with care.",
        undecided="Whether plain averages become invariant is not decided to within 2 %: train more members.",
    )


def _control(settings: Settings, results: Results) -> Claim:
    (kind,) = CONTROL
    left = share(results, kind).times(100)
    return claim(
        "Without augmentation the mean of ever more networks is not invariant: more than 2 % of one’s mean square "
        "change survives",
        {TITLES[kind]: left},
        measure="The same share, of networks that saw every configuration in one orientation.",
        covers=("members", settings.members),
        at_least=2,
        unit="%",
        by=ours("our control; the bound is that of augmented networks"),
        holds=f"Averaging alone brings no symmetry: without augmentation {left.value:.0f} % of one network’s mean "
        "square change survives ever more of them.",
        fails=f"Averages are nearly invariant without augmentation too ({left.value:.0f} % is left): this task does "
        "not need it.",
    )
