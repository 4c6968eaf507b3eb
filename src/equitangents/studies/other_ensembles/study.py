"""Beyond plain averaging: which ensembles are invariant, in expectation and as they grow.

With augmented data the law of a trained network is invariant, f(g·) ~ f, as long as everything random in its training
is. Then so is the expectation. Whether one ensemble comes close to it is another question: independent members do as
1/√M, members of one run need not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equitangents import actions
from equitangents.ensembles import (
    BaggedInfiniteEnsemble,
    Bootstrap,
    InfiniteEnsemble,
    NNGPPosterior,
    NTKPosterior,
    Variation,
    tangent_prior,
)
from equitangents.statistics import (
    Estimate,
    bootstrap,
    exactly,
    power_law,
    shared_level,
    surviving_share,
)
from equitangents.studies.common.dependent_ensembles import boosted, nested_means
from equitangents.studies.common.infinite import largest_difference, unit_times
from equitangents.studies.common.ising_lattice import energy, hot_spins
from equitangents.studies.common.networks import mlp
from equitangents.studies.common.orbit_spread import squares_of_means
from equitangents.studies.common.orbits import by_element, deviations, orbit_batch
from equitangents.studies.common.training import train_recorded
from equitangents.studies.framework.citations import EMERGENT_EQUIVARIANCE
from equitangents.studies.framework.claims import EXACT, Claim, Records, claim
from equitangents.studies.framework.study import Arrays, RunFolder, Study, Task, at_least, check

OPEN = "open question of arXiv 2403.03103"
INDEPENDENT = {
    "plain": "plain averaging",
    "nngp": "Bayesian posterior (last layer)",
    "ntk": "random prior (NTK posterior)",
    "bagged": "bagging of inputs",
    "bagged-copies": "bagging of augmented copies",
}
ONE_RUN = {"snapshots": "snapshots of one run", "boosted": "boosting"}
CLOSED = {
    "posterior": "Bayesian posterior",
    "random-prior": "random prior",
    "bagged": "bagging of inputs",
    "bagged-copies": "bagging of augmented copies",
}
TITLES = {**INDEPENDENT, **ONE_RUN}
DRAWS = 10  # independent sets of resampled copies
_FEW = 8  # test inputs of the closed forms


@dataclass(frozen=True)
class Settings:
    """Energies of the Ising model on a torus under turns by 90°, all four in the data.

    `noise` is the variance of the posteriors' noise; `sizes` are numbers of members, snapshots or stages; `members` are
    independent ones of each kind, `runs` those of snapshots and of boosting; snapshots are taken every `every` epochs
    of stochastic gradient descent; a boosting stage takes `stage_steps` of full-batch descent, with `shrinkage`.
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
    W_std: float = 2**0.5
    b_std: float = 0.1
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "paper": Settings(
        lattice=8,
        train_spins=64,
        test_spins=64,
        width=512,
        members=2048,
        runs=512,
        sizes=(1, 2, 4, 8, 16, 32, 64),
        steps=300,
        resamples=200,
    ),
}


@dataclass(frozen=True)
class CopyBootstrap(Variation):
    """Bagging of the augmented data: N|G| of the N|G| pairs (g, i), drawn with replacement for every member."""

    gathers = True

    def rows(self, key: jax.Array, samples: int, copies: int) -> np.ndarray:
        """Any rows."""
        drawn = jax.random.randint(key, (samples * copies,), 0, samples * copies, dtype="int32")
        return np.asarray(drawn, np.int32)


@dataclass(frozen=True, eq=False)
class Results:
    """`closed[kind]` is the largest relative change of (mean, covariance) over orbits, in closed form; `changes[kind]`
    are f(gx) − f(x): (M, values) of independent members, (sizes or stages, runs, values) of the kinds of one run.
    `broken` is that of the mean for `DRAWS` independent sets of resampled copies.
    """

    closed: dict[str, np.ndarray]
    changes: dict[str, np.ndarray]
    broken: np.ndarray


def _data(settings: Settings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(settings.seed)
    train, test = (hot_spins(n, settings.lattice, rng)[..., None] for n in (settings.train_spins, settings.test_spins))
    return train, energy(train[..., 0]) / (np.sqrt(2) * settings.lattice), test


def _network(settings: Settings) -> Any:
    return mlp(settings.width, settings.hidden_layers, W_std=settings.W_std, b_std=settings.b_std, flatten=True)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Sizes that fit into one another, and enough members and runs; the study reads no data."""
    largest = max(settings.sizes)
    check(len(settings.sizes) >= 3, "sizes", settings.sizes, "at least three")
    check(all(largest % m == 0 for m in settings.sizes), "sizes", settings.sizes, "divisors of the largest")
    check(settings.members >= 3 * largest, "members", settings.members, f"at least 3 times the largest size, {largest}")
    at_least(settings, runs=3, resamples=2)


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Closed forms, then ensembles of independent members, then those of one run."""
    closed = folder.stage("closed-forms", "Closed forms", lambda task: _closed(settings, task))
    broken = folder.stage("copies", "Bagging of augmented copies", lambda task: _copies(settings, task))["changes"]
    changes = {
        kind: folder.stage(kind, f"Training: {title}", partial(_independent, settings, folder, kind))["changes"]
        for kind, title in INDEPENDENT.items()
    }
    changes["snapshots"] = folder.stage(
        "snapshots", "Training: snapshots", partial(_independent, settings, folder, "snapshots")
    )["changes"]
    changes["boosted"] = folder.stage("boosted", "Training: boosting", lambda task: _boosted(settings, task))["changes"]
    return Results(closed=closed, changes=changes, broken=broken)


def _rate(settings: Settings) -> float:
    train, y, _ = _data(settings)
    model = InfiniteEnsemble(_network(settings), augmentation=actions.image_rotations(4), time=0.0).fit(train, y)
    return settings.rate * float(model.max_learning_rate_)


def _closed(settings: Settings, task: Task) -> Arrays:
    """Largest change over orbits of mean and covariance, at the end of training (bagging: at a late time)."""
    train, y, test = _data(settings)
    action, net = actions.image_rotations(4), _network(settings)
    diagonal = lambda kernel: float(np.mean(np.diagonal(np.asarray(kernel))))
    k = net.kernel(train)
    late = _late(settings)
    models: dict[str, Any] = {
        "posterior": InfiniteEnsemble(
            net, augmentation=action, kernel="nngp", ridge=settings.noise / diagonal(k.nngp)
        ).fit(train, y),
        "random-prior": InfiniteEnsemble(
            tangent_prior(net), augmentation=action, kernel="nngp", ridge=settings.noise / diagonal(k.ntk)
        ).fit(train, y),
        "bagged": BaggedInfiniteEnsemble(
            InfiniteEnsemble(net, augmentation=action, time=late), resamples=settings.resamples, seed=settings.seed
        ).fit(train, y),
        "bagged-copies": _bagged_copies(settings, late, settings.seed),
    }
    arrays: Arrays = {}
    few = test[:_FEW]
    for i, (kind, model) in enumerate(models.items()):
        mean, covariance = model.predict(orbit_batch(action, few), return_cov=True)
        orbit = mean.reshape(action.group.order, len(few))
        blocks = covariance.reshape(action.group.order, len(few), action.group.order, len(few))
        same = np.einsum("gigj->gij", blocks)
        arrays[kind] = np.array([largest_difference(orbit, orbit[:1]), largest_difference(same, same[:1])])
        task.step(i + 1, len(models))
    return arrays


def _late(settings: Settings) -> float:
    """The time of the infinitely wide ensemble that corresponds to the end of training."""
    train, y, _ = _data(settings)
    plain = InfiniteEnsemble(_network(settings), augmentation=actions.image_rotations(4), time=0.0).fit(train, y)
    return float(unit_times(plain, [settings.steps])[0])


def _bagged_copies(settings: Settings, late: float, seed: int) -> BaggedInfiniteEnsemble:
    """Over resamples of the augmented copies: each is incomplete, and so is the mean over finitely many."""
    train, y, _ = _data(settings)
    action = actions.image_rotations(4)
    model = InfiniteEnsemble(_network(settings), time=late)
    bagged = BaggedInfiniteEnsemble(model, resamples=settings.resamples, seed=seed)
    return bagged.fit(orbit_batch(action, train), np.tile(y, action.group.order))


def _copies(settings: Settings, task: Task) -> Arrays:
    """Largest relative change of the mean over orbits, for independent sets of resamples."""
    action, few, late = actions.image_rotations(4), _data(settings)[2][:_FEW], _late(settings)
    changes = []
    for draw in range(DRAWS):
        seed = int(np.random.SeedSequence((settings.seed, draw)).generate_state(1)[0])
        mean = _bagged_copies(settings, late, seed).predict(orbit_batch(action, few))
        orbit = mean.reshape(action.group.order, len(few))
        changes.append(largest_difference(orbit, orbit[:1]))
        task.step(draw + 1, DRAWS)
    return {"changes": np.array(changes)}


def _independent(settings: Settings, folder: RunFolder, kind: str, task: Task) -> Arrays:
    train, y, test = _data(settings)
    action, snapshots = actions.image_rotations(4), kind == "snapshots"
    variations: dict[str, Variation] = {
        "nngp": NNGPPosterior(settings.noise),
        "ntk": NTKPosterior(settings.noise),
        "bagged": Bootstrap(),
        "bagged-copies": CopyBootstrap(),
    }
    largest = max(settings.sizes)
    epochs = settings.every * largest if snapshots else settings.steps
    recorded = train_recorded(
        _network(settings),
        train,
        y,
        augmentation=action,
        members=settings.runs if snapshots else settings.members,
        optimizer="sgd" if snapshots else "gd",
        batch_size=settings.batch if snapshots else None,
        learning_rate=_rate(settings) * (0.5 if snapshots else 1.0),
        epochs=epochs,
        record={"test": orbit_batch(action, test)},
        record_at=[settings.every * (s + 1) for s in range(largest)] if snapshots else [epochs],
        checkpoints=folder.checkpoints(kind),
        task=task,
        variation=variations.get(kind),
        seed=settings.seed + list(TITLES).index(kind),
    )["test"]
    changes = deviations(action, by_element(action, recorded)[..., 0])
    changes = changes.reshape(*changes.shape[:2], -1)
    return {"changes": changes if snapshots else changes[0]}


def _boosted(settings: Settings, task: Task) -> Arrays:
    train, y, test = _data(settings)
    action = actions.image_rotations(4)
    outputs = boosted(
        _network(settings),
        orbit_batch(action, train),
        np.tile(y, action.group.order),
        orbit_batch(action, test),
        runs=settings.runs,
        stages=max(settings.sizes),
        shrinkage=settings.shrinkage,
        rate=_rate(settings),
        steps=settings.stage_steps,
        seed=settings.seed,
        task=task,
    )
    changes = deviations(action, by_element(action, outputs[..., None])[..., 0])
    return {"changes": changes.reshape(*changes.shape[:2], -1)}


def squares(settings: Settings, results: Results, kind: str) -> np.ndarray:
    """Mean square change of ensembles of every size of `sizes`, one row per independent batch or run."""
    changes = results.changes[kind].astype(np.float64)
    if kind == "boosted":
        return (changes[np.array(settings.sizes) - 1] ** 2).mean(axis=-1).T
    if kind == "snapshots":
        return nested_means(changes, settings.sizes)
    return squares_of_means(changes, settings.sizes)


def share(results: Results, kind: str, level: float = 0.95) -> Estimate:
    """Share of the mean square change that averaging ever more independent members or runs would leave."""
    changes = results.changes[kind].astype(np.float64)
    if kind == "snapshots":
        changes = changes.mean(axis=0)
    elif kind == "boosted":
        changes = changes[-1]
    return surviving_share(changes, level=level)


def exponent(settings: Settings, results: Results, kind: str, level: float = 0.95) -> Estimate:
    """Of the root mean square change against the size of one ensemble."""
    return power_law(np.array(settings.sizes), squares(settings, results, kind), level=level)


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Closed forms, expectations, and what growing an ensemble does."""
    closed = Records.over(
        lambda kind, of: exactly(results.closed[kind][("mean", "covariance").index(of)]),
        lambda kind, of: f"{CLOSED[kind]}, {of}",
        kind=("posterior", "random-prior", "bagged"),
        of=("mean", "covariance"),
    )
    expectation = Records.over(
        lambda kind: share(results, kind, shared_level(len(TITLES))).times(100),
        lambda kind: TITLES[kind],
        kind=tuple(TITLES),
    )
    independent = Records.over(
        lambda kind: exponent(settings, results, kind, shared_level(len(INDEPENDENT))),
        lambda kind: INDEPENDENT[kind],
        kind=tuple(INDEPENDENT),
    )
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
            expectation,
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
            "Ensembles of independent members approach invariance about as the square root of their number",
            independent,
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
        f"More {parts} of one run do not bring invariance: the change falls more slowly than their number to the −0.2",
        {"": found},
        measure=f"Exponent of the root mean square change against the number of {parts} of one run.",
        covers="runs",
        at_least=-0.2,
        source=OPEN + "; the bound is our choice",
        holds=f"For invariance, average independent runs: with more {parts} of one, the change goes as their "
        f"number to the {power}.",
        fails=f"More {parts} of one run do reduce the change, as their number to the {power}: they can stand in "
        "for some independent runs.",
        undecided=f"Whether more {parts} of one run help is not decided; independent runs are the safer choice.",
    )


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
