"""The source's claim of plain averages, and its open question: which other ensembles come close to invariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from equitangents.statistics import Estimate, bootstrap, exactly, log_ratio, power_law, shared_level, surviving_share
from equitangents_studies.common.infinite import squares_of_means
from equitangents_studies.framework.claims import EXACT, Claim, Records, claim, ours, theirs
from equitangents_studies.framework.settings import presets
from equitangents_studies.framework.works import AUGMENTED_POSTERIORS
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE as THEIRS

INDEPENDENT = {
    "plain": "plain averaging",
    "nngp": "Bayesian posterior (last layer)",
    "ntk": "random prior (NTK posterior)",
    "bagged": "bagging of inputs",
    "bagged-copies": "bagging of augmented copies",
}
CONTROL = {"unaugmented": "plain averaging, not augmented"}
TITLES = {**INDEPENDENT, **CONTROL}
POSTERIORS = {
    "variational": "variational posteriors, a draw of each",
    "draws": "draws of one posterior",
    "averaged": "draws of one averaged over the group",
    "projected": "draws of one projected",
    "expanded": "draws of one that began as an orbit",
}
_DRAWS = tuple(kind for kind in POSTERIORS if kind != "variational")
BAGGED = {kind: TITLES[kind] for kind in ("bagged", "bagged-copies")}
CLOSED = {"posterior": "Bayesian posterior", "random-prior": "random prior", **BAGGED}


@dataclass(frozen=True)
class Settings:
    """Energies of the Ising model on a torus under turns by 90°, all four in the data of all kinds but the control's.

    `noise` is the variance of the posteriors' noise; `sizes` are numbers of members or draws; `members` are
    independent ones of each kind. Each of `runs` variational posteriors is of a network of `posterior_width`, has
    noise of variance `posterior_noise` and scales that begin at `posterior_scale`, and takes `posterior_steps` of Adam
    at the rate `posterior_rate`.
    """

    lattice: int = 4
    train_spins: int = 12
    test_spins: int = 24
    width: int = 128
    hidden_layers: int = 2
    members: int = 256
    runs: int = 128
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16)
    steps: int = 100
    noise: float = 0.05
    rate: float = 0.5
    resamples: int = 40
    posterior_width: int = 32
    posterior_noise: float = 0.002
    posterior_scale: float = 0.1
    posterior_steps: int = 300
    posterior_rate: float = 0.02
    W_std: float = 2**0.5
    b_std: float = 0.1
    seed: int = 0


PRESETS = presets(
    Settings(),
    desk="lattice=6 train_spins=16 test_spins=32 members=1024 runs=256 sizes=1,2,4,8,16,32 resamples=100",
    paper="lattice=8 train_spins=64 test_spins=64 width=512 members=2048 runs=512 sizes=1,2,4,8,16,32,64 steps=300 "
    "resamples=200",
)


SETS = 10  # independent sets of resampled copies


def nested_means(
    d: Float[np.ndarray, "members runs values"], sizes: tuple[int, ...]
) -> Float[np.ndarray, "runs sizes"]:
    """Mean square of means over M members of one run, evenly spaced among all of them, the last included."""
    count = len(d)
    chosen = [np.unique(np.round(np.linspace(count - 1, -1, m, endpoint=False)).astype(int)) for m in sizes]
    return np.stack([(d[rows].mean(axis=0) ** 2).mean(axis=-1) for rows in chosen], axis=1)


@dataclass(frozen=True, eq=False)
class Results:
    """`closed[kind]` is the largest relative change of (mean, covariance) over orbits, in closed form; `changes[kind]`
    are f(gx) − f(x): (M, values) of independent members, (draws, runs, values) of draws of one posterior.
    `broken` is that of the mean for `SETS` independent sets of resampled copies. `misfits[kind]`, (runs,), is the mean
    square by which the mean of all draws of a posterior misses the energies that it learnt.
    """

    closed: dict[str, np.ndarray]
    changes: dict[str, np.ndarray]
    broken: np.ndarray
    misfits: dict[str, np.ndarray]


def squares(settings: Settings, results: Results, kind: str) -> np.ndarray:
    """Mean square change of ensembles of every size of `sizes`, one row per independent batch or run."""
    changes = results.changes[kind].astype(np.float64)
    if kind in _DRAWS:
        return nested_means(changes, settings.sizes)
    return squares_of_means(changes, settings.sizes)


def share(results: Results, kind: str, level: float = 0.95) -> Estimate:
    """Share of the mean square change that averaging ever more independent members or posteriors would leave."""
    changes = results.changes[kind].astype(np.float64)
    if kind in _DRAWS:
        changes = changes.mean(axis=0)
    return surviving_share(changes, confidence=level)


def exponent(settings: Settings, results: Results, kind: str, level: float = 0.95) -> Estimate:
    """The exponent of the root mean square change against the size of one ensemble."""
    return power_law(np.array(settings.sizes), squares(settings, results, kind), confidence=level)


OPEN = f"open question of {THEIRS}"


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """What the source says of plain averages; then expectations, closed forms and growth of the other kinds."""
    return [
        _closed(results, settings),
        _copies(settings, results),
        _expectations(settings, results),
        _growth(settings, results),
        _plain(settings, results),
        _control(settings, results),
        _draws(settings, results),
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
    )


def _expectations(settings: Settings, results: Results) -> Claim:
    kinds = tuple(INDEPENDENT)
    shares = Records.over(lambda kind: share(results, kind, shared_level(len(kinds))), _title, kind=kinds)
    return claim(
        "The expectation over all that is random is invariant for every kind of ensemble, to within 4 % of one "
        "member’s mean square change",
        shares.times(100),
        measure="Share of the mean square change of one member that averaging over ever more independent "
        "ones would leave (unbiased, so it may come out negative).",
        covers=("members", settings.members),
        at_most=4,
        unit="%",
        by=ours(OPEN + "; the bound is our choice"),
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
    )


def _draws(settings: Settings, results: Results) -> Claim:
    """Whether more draws of one posterior leave its violation where it is."""
    return claim(
        "More draws from the posterior of one run do not bring invariance: the change falls more slowly than their "
        "number to the power −0.2",
        {"": exponent(settings, results, "draws")},
        measure="Exponent of the root mean square change against the number of draws from the posterior of one run.",
        covers=("runs", settings.runs),
        at_least=-0.2,
        by=ours(OPEN + "; the bound is our choice"),
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
    )
