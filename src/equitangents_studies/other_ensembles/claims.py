"""The source's claim of plain averages, and its open question: which other ensembles come close to invariance."""

from __future__ import annotations

from collections.abc import Sequence

from equitangents.statistics import bootstrap, exactly, log_ratio, shared_level
from equitangents_studies.framework.claims import EXACT, Claim, Records, claim, ours, theirs
from equitangents_studies.framework.works import AUGMENTED_POSTERIORS
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE as THEIRS
from equitangents_studies.other_ensembles.settings import (
    CLOSED,
    CONTROL,
    INDEPENDENT,
    ONE_RUN,
    POSTERIORS,
    SETS,
    TITLES,
    Results,
    Settings,
    exponent,
    share,
    squares,
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
        _one_run(settings, results, "draws", "draws from the posterior"),
        _posteriors(settings, results),
        _symmetrised(settings, results),
        _expanded(settings, results),
    ]


def _title(kind: str) -> str:
    return (TITLES | POSTERIORS)[kind]


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
        f"mean over {SETS} independent sets of them.",
        covers=("sets of resamples", SETS),
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


def _posteriors(settings: Settings, results: Results) -> Claim:
    kinds = ("variational", "draws", "expanded")
    shares = Records.over(lambda kind: share(results, kind, shared_level(len(kinds))).times(100), _title, kind=kinds)
    return claim(
        "The mean over ever more variational posteriors of augmented data is invariant, to within 4 % of one’s mean "
        "square change",
        shares,
        measure="Share of the mean square change of one posterior (or one draw of it) that averaging over ever more of "
        "them would leave (unbiased, so it may come out negative).",
        covers=("posteriors", settings.runs),
        at_most=4,
        unit="%",
        by=ours(f"expected of the law in {AUGMENTED_POSTERIORS}; the bound is our choice"),
        holds="A posterior that began anywhere is not invariant, but the mean over many of them is: train several.",
        fails="The mean over variational posteriors is not invariant: see their shares left below.",
        undecided="Whether the mean over variational posteriors is invariant is not decided to within 4 %.",
    )


def _symmetrised(settings: Settings, results: Results) -> Claim:
    kinds = ("averaged", "projected")
    slopes = Records.over(lambda kind: exponent(settings, results, kind, shared_level(len(kinds))), _title, kind=kinds)
    return claim(
        "Draws of one posterior that was made symmetric gain as independent members do",
        slopes,
        measure="Exponent of the root mean square change against the number of draws.",
        covers=("posteriors", settings.runs),
        at_least=-0.6,
        at_most=-0.4,
        by=ours("expected of what is invariant in the mean; the bounds are our choice", stated="−1/2 (theory)"),
        holds="A posterior that is averaged or projected after training needs no further posteriors for invariance: "
        f"its draws gain with the exponents {slopes.span('.2f')}.",
        fails=f"Draws of a symmetric posterior do not gain as independent members do: {slopes.span('.2f')}.",
        undecided=f"How fast draws of a symmetric posterior gain is not measured well enough: {slopes.span('.2f')}.",
    )


def _expanded(settings: Settings, results: Results) -> Claim:
    """Orbit expansion against plain augmentation: the mean over most draws of one posterior."""
    most = max(settings.sizes)
    ratio = log_ratio(*(squares(settings, results, kind)[:, -1] ** 0.5 for kind in ("expanded", "draws")))
    return claim(
        "A posterior that begins as an orbit changes less under turns than one that begins anywhere",
        {"": ratio},
        measure=f"Ratio of the changes of the mean over {most} draws of one posterior, as wide and trained alike "
        "(root mean squares; geometric means over posteriors).",
        covers=("posteriors", settings.runs),
        at_most=1,
        by=theirs(str(AUGMENTED_POSTERIORS), "orbit expansion against augmentation alone, on images"),
        holds="To have one posterior nearly invariant, begin with every unit in all orientations: it changes "
        f"{ratio.value:.2f} times as much as one that begins anywhere.",
        fails=f"Beginning with every unit in all orientations does not help: {ratio.value:.2f} times the change.",
        undecided="Whether it helps to begin with every unit in all orientations is not decided.",
    )
