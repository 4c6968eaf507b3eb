"""What the study of other ensembles may be told, its presets, and what the kinds of ensembles are called."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from equitangents.statistics import Estimate, power_law, surviving_share
from equitangents_studies.common.infinite import squares_of_means
from equitangents_studies.framework.settings import presets

INDEPENDENT = {
    "plain": "plain averaging",
    "nngp": "Bayesian posterior (last layer)",
    "ntk": "random prior (NTK posterior)",
    "bagged": "bagging of inputs",
    "bagged-copies": "bagging of augmented copies",
}
ONE_RUN = {"snapshots": "snapshots of one run", "boosted": "boosting"}
CONTROL = {"unaugmented": "plain averaging, not augmented"}
TITLES = {**INDEPENDENT, **ONE_RUN, **CONTROL}
POSTERIORS = {
    "variational": "variational posteriors, a draw of each",
    "draws": "draws of one posterior",
    "averaged": "draws of one averaged over the group",
    "projected": "draws of one projected",
    "expanded": "draws of one that began as an orbit",
}
_DRAWS = ("snapshots", *(kind for kind in POSTERIORS if kind != "variational"))
BAGGED = {kind: TITLES[kind] for kind in ("bagged", "bagged-copies")}
CLOSED = {"posterior": "Bayesian posterior", "random-prior": "random prior", **BAGGED}


@dataclass(frozen=True)
class Settings:
    """Energies of the Ising model on a torus under turns by 90°, all four in the data of all kinds but the control's.

    `noise` is the variance of the posteriors' noise; `sizes` are numbers of members, snapshots or stages; `members` are
    independent ones of each kind, `runs` those of snapshots and of boosting; snapshots are taken every `every` epochs
    of stochastic gradient descent; a boosting stage takes `stage_steps` of full-batch descent, with `shrinkage`.
    Each of `runs` variational posteriors is of a network of `posterior_width`, has noise of variance `posterior_noise`
    and scales that begin at `posterior_scale`, and takes `posterior_steps` of Adam at the rate `posterior_rate`.
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
    every: int = 10
    batch: int = 8
    stage_steps: int = 10
    shrinkage: float = 0.5
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
    are f(gx) − f(x): (M, values) of independent members, (sizes, stages or draws, runs, values) of kinds of one run.
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
    if kind == "boosted":
        return (changes[np.array(settings.sizes) - 1] ** 2).mean(axis=-1).T
    if kind in _DRAWS:
        return nested_means(changes, settings.sizes)
    return squares_of_means(changes, settings.sizes)


def share(results: Results, kind: str, level: float = 0.95) -> Estimate:
    """Share of the mean square change that averaging ever more independent members or runs would leave."""
    changes = results.changes[kind].astype(np.float64)
    if kind in _DRAWS:
        changes = changes.mean(axis=0)
    elif kind == "boosted":
        changes = changes[-1]
    return surviving_share(changes, confidence=level)


def exponent(settings: Settings, results: Results, kind: str, level: float = 0.95) -> Estimate:
    """The exponent of the root mean square change against the size of one ensemble."""
    return power_law(np.array(settings.sizes), squares(settings, results, kind), confidence=level)
